//! The program of an expression, in postfix order, and its text as Java's errors show it.

use std::collections::HashSet;
use std::fmt;

use memchr::memchr;
use memchr::memmem::Finder;
use remoting::body::fastjson;
use store::record::java_hash;
use store::record::properties::{NAME_END, VALUE_END};

use super::value::Value;

/// Longer texts of expressions are cut: a value of BETWEEN stands in its text twice, and again in the next one's.
const MAX_TEXT: usize = 8 * 1024;

/// A step. "The top" is that of the stack of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    /// Pushes a property, or null.
    Property(Name),
    /// Pushes a constant.
    Constant(Value<'static>),
    /// Makes the top its negative; what is no number becomes null.
    Negate,
    /// Makes a property a condition: null stays, every text is false.
    Condition,
    /// Inverts the top.
    Not,
    /// Compares the two on the top.
    Compare(Relation),
    /// Whether the two on the top are equal.
    Equal,
    /// Whether the top is null.
    IsNull,
    /// Whether the third from the top lies between the other two.
    Between { not: bool },
    /// Whether the top has that text in that place.
    Search { place: Place, not: bool, text: Box<str> },
    /// Pushes false: the search for an empty text, which Java does not make. With its text in errors.
    Never(Box<str>),
    /// Whether the top is one of the texts.
    In { texts: Texts, not: bool },
    /// Goes on at `to` when the top is `when` already: the other side of AND or OR does not matter.
    Skip { when: bool, to: usize },
    /// Joins the two on the top by AND.
    And,
    /// Joins the two on the top by OR.
    Or,
}

/// The name of a property, made ready to be found in a property string.
#[derive(Clone, Debug)]
pub(super) struct Name {
    /// Searches for the name with the separator behind it.
    finder: Box<Finder<'static>>,
}

impl Name {
    pub(super) fn new(name: &str) -> Name {
        let needle = [name.as_bytes(), &[NAME_END]].concat();
        Name { finder: Box::new(Finder::new(&needle).into_owned()) }
    }

    /// The value in a property string. Of several the last one counts; an empty one is none.
    pub(super) fn value<'p>(&self, properties: &'p [u8]) -> Option<&'p [u8]> {
        let mut found = None;
        for at in self.finder.find_iter(properties) {
            let Some((before, rest)) = properties.split_at_checked(at) else { break };
            // Else it is the end of a longer name, or lies in a value.
            if before.last().is_none_or(|byte| *byte == VALUE_END) {
                let value = rest.get(self.finder.needle().len()..).unwrap_or_default();
                let value = value.get(..memchr(VALUE_END, value).unwrap_or(value.len())).unwrap_or_default();
                found = Some(value).filter(|value| !value.is_empty()).or(found);
            }
        }
        found
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.finder.needle() == other.finder.needle()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needle = self.finder.needle();
        f.write_str(&String::from_utf8_lossy(needle.strip_suffix(&[NAME_END]).unwrap_or(needle)))
    }
}

/// What a comparison asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// Where a text is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    Start,
    End,
}

/// The texts of IN, in the order in which Java has them: from five on in a hash table, each once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Texts {
    texts: Box<[Box<str>]>,
    /// Slots of the table; 0 when there is none.
    slots: u32,
}

impl Texts {
    pub(super) fn new(mut texts: Vec<Box<str>>) -> Texts {
        if texts.len() < 5 {
            return Texts { texts: texts.into(), slots: 0 };
        }
        let slots = u32::try_from(texts.len() * 4 / 3 + 1).unwrap_or(1 << 30).clamp(16, 1 << 30).next_power_of_two();
        let mut known = HashSet::new();
        texts.retain(|text| known.insert(text.clone()));
        texts.sort_by_key(|text| slot(text, slots));
        Texts { texts: texts.into(), slots }
    }

    pub(super) fn has(&self, value: &str) -> bool {
        if self.slots == 0 {
            return self.texts.iter().any(|text| **text == *value);
        }
        let wanted = slot(value, self.slots);
        let first = self.texts.partition_point(|text| slot(text, self.slots) < wanted);
        let rest = self.texts.iter().skip(first);
        rest.take_while(|text| slot(text, self.slots) == wanted).any(|text| **text == *value)
    }
}

fn slot(text: &str, slots: u32) -> u32 {
    let hash = java_hash(text) as u32;
    (hash ^ hash >> 16) & (slots - 1)
}

impl Relation {
    fn symbol(self) -> &'static str {
        match self {
            Relation::Greater => ">",
            Relation::GreaterEqual => ">=",
            Relation::Less => "<",
            Relation::LessEqual => "<=",
        }
    }
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Anywhere => "CONTAINS",
            Place::Start => "STARTSWITH",
            Place::End => "ENDSWITH",
        }
    }
}

/// The text of a piece of code that leaves one value.
pub(super) fn text(code: &[Op]) -> String {
    let mut stack: Vec<String> = Vec::new();
    for op in code {
        let text = match op {
            Op::Skip { .. } => continue,
            Op::Property(name) => name.to_string(),
            Op::Constant(Value::Text(text)) => format!("'{}'", text.replace('\'', "''")),
            Op::Constant(Value::Bool(value)) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
            Op::Constant(Value::Null) => "NULL".to_owned(),
            Op::Constant(value) => plain(value),
            Op::Condition => pop(&mut stack),
            Op::Negate => format!("(- {})", pop(&mut stack)),
            Op::Not => format!("(NOT {})", pop(&mut stack)),
            Op::IsNull => format!("({} == NULL)", pop(&mut stack)),
            Op::Search { place, not, .. } => search(*place, *not, &pop(&mut stack)),
            Op::Never(text) => text.to_string(),
            Op::In { texts, not } => {
                let not = if *not { "NOT " } else { "" };
                format!("{} {not}IN ( {} )", pop(&mut stack), texts.texts.join(", "))
            }
            Op::Compare(_) | Op::Equal | Op::And | Op::Or => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                let symbol = match op {
                    Op::Compare(relation) => relation.symbol(),
                    Op::Equal => "==",
                    Op::And => "&&",
                    _ => "||",
                };
                format!("({left} {symbol} {right})")
            }
            Op::Between { not } => {
                let (high, low, value) = (pop(&mut stack), pop(&mut stack), pop(&mut stack));
                match not {
                    false => format!("(({value} >= {low}) && ({value} <= {high}))"),
                    true => format!("(({value} < {low}) || ({value} > {high}))"),
                }
            }
        };
        stack.push(cut(text));
    }
    pop(&mut stack)
}

/// A constant as Java's `String.valueOf` shows it.
pub(super) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Long(value) => value.to_string(),
        Value::Double(value) => String::from_utf8(fastjson::to_vec(value).unwrap_or_default()).unwrap_or_default(),
        Value::Text(text) => text.to_string(),
    }
}

/// The text of a search.
pub(super) fn search(place: Place, not: bool, value: &str) -> String {
    format!("({}{} {value})", if not { "NOT " } else { "" }, place.name())
}

fn pop(stack: &mut Vec<String>) -> String {
    stack.pop().unwrap_or_default()
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
