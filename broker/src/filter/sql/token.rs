//! The words of an expression, and where they stand.

use std::ops::Range;

use logos::Logos;

use super::SqlError;

/// The kinds of tokens, in the order in which Java's error texts list them.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\n\r\x0C]")]
#[logos(skip(r"--[^\n\r]*(\n|\r|\r\n)", allow_greedy = true))]
#[logos(skip r"/\*[^*]*\*(\*|[^*/][^*]*\*)*/")]
pub(super) enum Kind {
    End,
    #[token("not", ignore(case))]
    Not,
    #[token("and", ignore(case))]
    And,
    #[token("or", ignore(case))]
    Or,
    #[token("between", ignore(case))]
    Between,
    #[token("in", ignore(case))]
    In,
    #[token("true", ignore(case))]
    True,
    #[token("false", ignore(case))]
    False,
    #[token("null", ignore(case))]
    Null,
    #[token("is", ignore(case))]
    Is,
    #[token("contains", ignore(case))]
    Contains,
    #[token("startswith", ignore(case))]
    StartsWith,
    #[token("endswith", ignore(case))]
    EndsWith,
    #[regex(r"0|[1-9][0-9]*[lL]?")]
    Decimal,
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")]
    Float,
    #[regex(r"'(''|[^'])*'")]
    Text,
    #[regex(r"[a-zA-Z_$][a-zA-Z0-9_$]*")]
    Name,
    #[token("=")]
    Equal,
    #[token("<>")]
    Unequal,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessEqual,
    #[token("(")]
    Open,
    #[token(",")]
    Comma,
    #[token(")")]
    Close,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
}

/// All kinds in their order.
const KINDS: [Kind; 28] = {
    use Kind::*;
    [
        End,
        Not,
        And,
        Or,
        Between,
        In,
        True,
        False,
        Null,
        Is,
        Contains,
        StartsWith,
        EndsWith,
        Decimal,
        Float,
        Text,
        Name,
        Equal,
        Unequal,
        Greater,
        GreaterEqual,
        Less,
        LessEqual,
        Open,
        Comma,
        Close,
        Plus,
        Minus,
    ]
};

impl Kind {
    /// How Java's error texts call it.
    fn image(self) -> &'static str {
        match self {
            Kind::End => "<EOF>",
            Kind::Not => "\"NOT\"",
            Kind::And => "\"AND\"",
            Kind::Or => "\"OR\"",
            Kind::Between => "\"BETWEEN\"",
            Kind::In => "\"IN\"",
            Kind::True => "\"TRUE\"",
            Kind::False => "\"FALSE\"",
            Kind::Null => "\"NULL\"",
            Kind::Is => "\"IS\"",
            Kind::Contains => "\"CONTAINS\"",
            Kind::StartsWith => "\"STARTSWITH\"",
            Kind::EndsWith => "\"ENDSWITH\"",
            Kind::Decimal => "<DECIMAL_LITERAL>",
            Kind::Float => "<FLOATING_POINT_LITERAL>",
            Kind::Text => "<STRING_LITERAL>",
            Kind::Name => "<ID>",
            Kind::Equal => "\"=\"",
            Kind::Unequal => "\"<>\"",
            Kind::Greater => "\">\"",
            Kind::GreaterEqual => "\">=\"",
            Kind::Less => "\"<\"",
            Kind::LessEqual => "\"<=\"",
            Kind::Open => "\"(\"",
            Kind::Comma => "\",\"",
            Kind::Close => "\")\"",
            Kind::Plus => "\"+\"",
            Kind::Minus => "\"-\"",
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u32);

impl Kinds {
    pub(super) const fn of(kinds: &[Kind]) -> Kinds {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u32;
            at += 1;
        }
        Kinds(bits)
    }

    pub(super) fn add(&mut self, other: Kinds) {
        self.0 |= other.0;
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Its bytes in the text; empty at the end of the text.
    pub(super) span: Range<usize>,
}

/// The tokens of a text, made when they are asked for: an error behind a whole expression is none.
pub(super) struct Tokens<'t> {
    pub(super) text: &'t str,
    lexer: logos::Lexer<'t, Kind>,
    made: Vec<Token>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Tokens<'t> {
        Tokens { text, lexer: Kind::lexer(text), made: Vec::new() }
    }

    /// The token with that number, from 0.
    pub(super) fn at(&mut self, number: usize) -> Result<Token, SqlError> {
        loop {
            if let Some(token) = self.made.get(number) {
                return Ok(token.clone());
            }
            let next = match self.lexer.next() {
                Some(Ok(kind)) => Token { kind, span: self.lexer.span() },
                Some(Err(())) => return Err(no_token(self.text, self.lexer.span().start)),
                None => {
                    let end = self.text.len();
                    Token { kind: Kind::End, span: end..end }
                }
            };
            self.made.push(next);
        }
    }

    /// The text of a token.
    pub(super) fn image(&self, token: &Token) -> &'t str {
        self.text.get(token.span.clone()).unwrap_or_default()
    }

    /// The error of a token that does not fit. `last` is expected as well, and listed behind the others.
    pub(super) fn unexpected(&self, token: &Token, expected: Kinds, last: Option<Kind>) -> SqlError {
        let wanted: Vec<Kind> = KINDS.into_iter().filter(|kind| expected.has(*kind)).chain(last).collect();
        let found = match token.kind {
            Kind::End => "<EOF>".to_owned(),
            kind => format!(" {} \"{} \"", kind.image(), escaped(self.image(token))),
        };
        let begin = match token.kind {
            // Java has no place for the end but that of the last character.
            Kind::End => self.text.char_indices().last().map_or(0, |(at, _)| at),
            _ => token.span.start,
        };
        let (line, column) = place(self.text, begin);
        let one = if wanted.len() == 1 { "" } else { " one of" };
        let mut error = format!("Encountered \"{found}\" at line {line}, column {column}.\nWas expecting{one}:\n    ");
        for kind in wanted {
            error.push_str(kind.image());
            error.push_str(if kind == Kind::End { " \n    " } else { " ...\n    " });
        }
        SqlError::Grammar(error)
    }
}

/// Java's text for characters that begin no token. Its scanner reads on while a token could still come of them, and
/// calls the end of the text the culprit when the character that it cannot use is the last one.
fn no_token(text: &str, start: usize) -> SqlError {
    let rest = text.get(start..).unwrap_or_default();
    let mut chars = rest.char_indices();
    let first = chars.next().map_or(' ', |(_, first)| first);
    let second = chars.next();
    let (taken, culprit) = match (first, second) {
        // A text or a comment without end.
        ('\'', _) | ('/', Some((_, '*'))) => (rest.len(), None),
        // A point without digits, a slash without a star.
        ('.' | '/', Some(second)) => (second.0, Some(second)),
        ('.' | '/', None) => (0, None),
        _ => (0, Some((0, first))),
    };
    let mut units = [0; 2];
    let at_end = |(at, culprit): (usize, char)| {
        // Java counts UTF-16 units: behind the first of a pair stands the second.
        culprit.len_utf16() == 1 && start + at + culprit.len_utf8() == text.len()
    };
    match culprit.filter(|culprit| !at_end(*culprit)) {
        Some((at, culprit)) => {
            let unit = culprit.encode_utf16(&mut units).first().copied().unwrap_or_default();
            let (line, column) = place(text, start + at);
            let shown = escaped_units(&[unit]);
            let after = escaped(rest.get(..taken).unwrap_or_default());
            SqlError::Token(format!(
                "Lexical error at line {line}, column {column}.  Encountered: \"{shown}\" ({unit}), after : \"{after}\""
            ))
        }
        None => {
            let last = text.char_indices().last();
            let (mut line, mut column) = place(text, last.map_or(0, |(at, _)| at));
            match last {
                Some((_, '\n' | '\r')) => (line, column) = (line + 1, 0),
                Some((_, last)) => column += last.len_utf16(),
                None => {}
            }
            // A single character is not what came before.
            let units: usize = rest.chars().map(char::len_utf16).sum();
            let after = if units <= 1 { String::new() } else { escaped(rest) };
            SqlError::Token(format!(
                "Lexical error at line {line}, column {column}.  Encountered: <EOF> after : \"{after}\""
            ))
        }
    }
}

/// Line and column of a byte of the text, from 1, as Java counts them: in UTF-16 units, with tabs of eight.
fn place(text: &str, at: usize) -> (usize, usize) {
    if text.is_empty() {
        return (0, 0);
    }
    let (mut line, mut column) = (1, 0);
    let (mut after_cr, mut after_lf) = (false, false);
    for (position, char) in text.char_indices() {
        column += 1;
        if after_lf || (after_cr && char != '\n') {
            column = 1;
            line += 1;
        }
        after_lf = char == '\n';
        after_cr = char == '\r';
        if char == '\t' {
            column -= 1;
            column += 8 - column % 8;
        }
        if position >= at {
            break;
        }
        column += char.len_utf16() - 1;
    }
    (line, column)
}

fn escaped(text: &str) -> String {
    escaped_units(&text.encode_utf16().collect::<Vec<_>>())
}

/// As Java's parsers escape what they found.
fn escaped_units(units: &[u16]) -> String {
    let mut out = String::with_capacity(units.len());
    for unit in units {
        match unit {
            0 => {}
            8 => out.push_str("\\b"),
            9 => out.push_str("\\t"),
            10 => out.push_str("\\n"),
            12 => out.push_str("\\f"),
            13 => out.push_str("\\r"),
            34 => out.push_str("\\\""),
            39 => out.push_str("\\'"),
            92 => out.push_str("\\\\"),
            0x20..=0x7E => out.push(char::from(*unit as u8)),
            _ => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out
}
