//! From tokens to a program, by Java's grammar: OR, AND, equality, comparison, sign and NOT, in rising precedence.
//!
//! A parser method leaves the code of one value and says what it is; the checks of operands are those that Java makes
//! when it joins them. `expected` collects what could have stood at the current token, as Java's errors list it.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::code::{self, Name, Op, Place, Relation, Texts};
use super::token::{Kind, Kinds, Token, Tokens};
use super::value::{Value, compare};
use super::{MAX_DEPTH, SqlError};

/// What begins an operand.
const OPERAND: Kinds = {
    use Kind::*;
    Kinds::of(&[Not, True, False, Null, Decimal, Float, Text, Name, Open, Minus])
};
/// What can follow an operand.
const COMPARISON: Kinds = {
    use Kind::*;
    Kinds::of(&[Not, Between, In, Contains, StartsWith, EndsWith, Greater, GreaterEqual, Less, LessEqual])
};
/// The same behind NOT, and what Java lists then.
const AFTER_NOT: Kinds = {
    use Kind::*;
    Kinds::of(&[Between, In, Contains, StartsWith, EndsWith, Greater, GreaterEqual, Less, LessEqual])
};
const EQUALITY: Kinds = Kinds::of(&[Kind::Is, Kind::Equal, Kind::Unequal]);

/// The program of an expression.
pub(super) fn parse(text: &str) -> Result<Vec<Op>, SqlError> {
    let mut parser = Parser {
        tokens: Tokens::new(text),
        at: 0,
        expected: Kinds::default(),
        code: Vec::new(),
        depth: 0,
        looking_ahead: false,
        looked_to: 0,
    };
    let value = parser.or()?;
    parser.condition(&value)?;
    Ok(parser.code)
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    /// The number of the current token.
    at: usize,
    expected: Kinds,
    code: Vec<Op>,
    depth: usize,
    /// Only the grammar is looked at: no code is made, and operands are not checked.
    looking_ahead: bool,
    /// All before this token is known to follow the grammar.
    looked_to: usize,
}

/// A value that stands at the end of the code.
struct Operand {
    /// Where its code begins.
    start: usize,
    class: Class,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Property,
    /// A number or a text.
    Constant,
    /// TRUE, FALSE or NULL: a constant that is a condition as well.
    Truth,
    Condition,
    /// Something with a sign.
    Signed,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Operand, SqlError> {
        let mut left = self.and()?;
        while self.is(Kind::Or)? {
            left = self.join(left, true)?;
        }
        self.expected.add(Kinds::of(&[Kind::Or]));
        Ok(left)
    }

    fn and(&mut self) -> Result<Operand, SqlError> {
        let mut left = self.equality()?;
        while self.is(Kind::And)? {
            left = self.join(left, false)?;
        }
        self.expected.add(Kinds::of(&[Kind::And]));
        Ok(left)
    }

    /// The rest of an AND or OR, whose left side is there.
    fn join(&mut self, left: Operand, or: bool) -> Result<Operand, SqlError> {
        self.advance();
        // The left side is only checked when the right one is there.
        let checked = self.condition(&left);
        let skip = self.code.len();
        self.emit(Op::Skip { when: or, to: 0 });
        let right = if or { self.and()? } else { self.equality()? };
        checked?;
        self.condition(&right)?;
        self.emit(if or { Op::Or } else { Op::And });
        let end = self.code.len();
        if let Some(Op::Skip { to, .. }) = self.code.get_mut(skip) {
            *to = end;
        }
        Ok(Operand { class: Class::Condition, ..left })
    }

    fn equality(&mut self) -> Result<Operand, SqlError> {
        let mut left = self.comparison()?;
        loop {
            match self.kind()? {
                kind @ (Kind::Equal | Kind::Unequal) => {
                    self.advance();
                    let right = self.comparison()?;
                    self.check_equal(&left, &right)?;
                    self.emit(Op::Equal);
                    if kind == Kind::Unequal {
                        self.emit(Op::Not);
                    }
                }
                Kind::Is => {
                    let second = self.tokens.at(self.at + 1)?;
                    self.advance();
                    if second.kind != Kind::Null {
                        if second.kind != Kind::Not {
                            return Err(self.tokens.unexpected(&second, Kinds::of(&[Kind::Not]), Some(Kind::Null)));
                        }
                        self.advance();
                    }
                    self.take(Kind::Null)?;
                    self.emit(Op::IsNull);
                    if second.kind == Kind::Not {
                        self.emit(Op::Not);
                    }
                }
                _ => {
                    self.expected.add(EQUALITY);
                    return Ok(left);
                }
            }
            left.class = Class::Condition;
        }
    }

    fn comparison(&mut self) -> Result<Operand, SqlError> {
        let mut left = self.unary()?;
        loop {
            let mut kind = self.kind()?;
            let not = kind == Kind::Not;
            if not {
                let first = self.tokens.at(self.at)?;
                kind = self.tokens.at(self.at + 1)?.kind;
                if !matches!(kind, Kind::Contains | Kind::StartsWith | Kind::EndsWith | Kind::Between | Kind::In) {
                    return Err(self.tokens.unexpected(&first, AFTER_NOT, None));
                }
                self.advance();
            }
            match kind {
                Kind::Greater => self.relate(&left, Relation::Greater)?,
                Kind::GreaterEqual => self.relate(&left, Relation::GreaterEqual)?,
                Kind::Less => self.relate(&left, Relation::Less)?,
                Kind::LessEqual => self.relate(&left, Relation::LessEqual)?,
                Kind::Contains => self.search(&left, Place::Anywhere, not)?,
                Kind::StartsWith => self.search(&left, Place::Start, not)?,
                Kind::EndsWith => self.search(&left, Place::End, not)?,
                Kind::Between => self.between(&left, not)?,
                Kind::In => self.one_of(&left, not)?,
                _ => {
                    self.expected.add(COMPARISON);
                    return Ok(left);
                }
            }
            left.class = Class::Condition;
        }
    }

    fn relate(&mut self, left: &Operand, relation: Relation) -> Result<(), SqlError> {
        self.advance();
        let right = self.unary()?;
        let end = self.code.len();
        self.check_ordered(left, right.start)?;
        self.check_ordered(&right, end)?;
        self.emit(Op::Compare(relation));
        Ok(())
    }

    fn search(&mut self, left: &Operand, place: Place, not: bool) -> Result<(), SqlError> {
        self.advance();
        let text = self.text()?;
        if text.is_empty() && !self.looking_ahead {
            let value = self.text_of(left.start, self.code.len());
            self.code.truncate(left.start);
            self.emit(Op::Never(code::search(place, not, &value).into()));
        } else {
            self.emit(Op::Search { place, not, text });
        }
        Ok(())
    }

    fn between(&mut self, value: &Operand, not: bool) -> Result<(), SqlError> {
        self.advance();
        let low = self.unary()?;
        self.take(Kind::And)?;
        let high = self.unary()?;
        let end = self.code.len();
        if !not {
            self.check_limits(&low, &high)?;
        }
        self.check_ordered(value, low.start)?;
        self.check_ordered(&low, high.start)?;
        self.check_ordered(&high, end)?;
        self.emit(Op::Between { not });
        Ok(())
    }

    fn one_of(&mut self, left: &Operand, not: bool) -> Result<(), SqlError> {
        self.advance();
        self.take(Kind::Open)?;
        let mut texts = vec![self.text()?];
        while self.is(Kind::Comma)? {
            self.advance();
            texts.push(self.text()?);
        }
        self.expected.add(Kinds::of(&[Kind::Comma]));
        self.take(Kind::Close)?;
        if left.class != Class::Property && !self.looking_ahead {
            let text = self.text_of(left.start, self.code.len());
            return Err(SqlError::Operand(format!("Expected a property for In expression, got: {text}")));
        }
        self.emit(Op::In { texts: Texts::new(texts), not });
        Ok(())
    }

    fn unary(&mut self) -> Result<Operand, SqlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SqlError::Depth);
        }
        let start = self.code.len();
        let token = self.tokens.at(self.at)?;
        let operand = match token.kind {
            Kind::Plus if self.begins_operand()? => {
                self.advance();
                self.unary()?
            }
            Kind::Plus => return Err(self.tokens.unexpected(&token, OPERAND, None)),
            Kind::Minus => {
                self.advance();
                self.unary()?;
                self.emit(Op::Negate);
                Operand { start, class: Class::Signed }
            }
            Kind::Not => {
                self.advance();
                let operand = self.unary()?;
                self.condition(&operand)?;
                self.emit(Op::Not);
                Operand { start, class: Class::Condition }
            }
            _ => self.primary(&token)?,
        };
        self.depth -= 1;
        Ok(operand)
    }

    /// Whether a whole operand follows a plus sign, which Java finds out before it goes on.
    fn begins_operand(&mut self) -> Result<bool, SqlError> {
        if self.looking_ahead || self.at < self.looked_to {
            return Ok(true);
        }
        let (at, expected, depth) = (self.at, self.expected, self.depth);
        self.looking_ahead = true;
        self.advance();
        let found = self.unary().map(|_| self.at);
        self.looking_ahead = false;
        (self.at, self.expected, self.depth) = (at, expected, depth);
        match found {
            Ok(end) => self.looked_to = end,
            Err(SqlError::Grammar(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn primary(&mut self, token: &Token) -> Result<Operand, SqlError> {
        let start = self.code.len();
        let image = self.tokens.image(token);
        let (op, class) = match token.kind {
            Kind::Open => {
                self.advance();
                let inner = self.or()?;
                self.take(Kind::Close)?;
                return Ok(inner);
            }
            Kind::Text => {
                let text = self.text()?;
                self.emit(Op::Constant(Value::Text(Cow::Owned(text.into()))));
                return Ok(Operand { start, class: Class::Constant });
            }
            Kind::Name => (Op::Property(Name::new(image)), Class::Property),
            Kind::True => (Op::Constant(Value::Bool(true)), Class::Truth),
            Kind::False => (Op::Constant(Value::Bool(false)), Class::Truth),
            Kind::Null => (Op::Constant(Value::Null), Class::Truth),
            Kind::Decimal if self.looking_ahead => (Op::Negate, Class::Constant),
            Kind::Float if self.looking_ahead => (Op::Negate, Class::Constant),
            Kind::Decimal => (Op::Constant(decimal(image)?), Class::Constant),
            Kind::Float => (Op::Constant(float(image)?), Class::Constant),
            _ => return Err(self.tokens.unexpected(token, OPERAND, Some(Kind::Plus))),
        };
        self.advance();
        self.emit(op);
        Ok(Operand { start, class })
    }

    /// A text in quotes; two quotes in it are one.
    fn text(&mut self) -> Result<Box<str>, SqlError> {
        let token = self.take(Kind::Text)?;
        let image = self.tokens.image(&token);
        let inner = image.get(1..image.len().saturating_sub(1)).unwrap_or_default();
        Ok(inner.replace("''", "'").into())
    }

    fn kind(&mut self) -> Result<Kind, SqlError> {
        self.tokens.at(self.at).map(|token| token.kind)
    }

    fn is(&mut self, kind: Kind) -> Result<bool, SqlError> {
        Ok(self.kind()? == kind)
    }

    fn advance(&mut self) {
        self.at += 1;
        self.expected = Kinds::default();
    }

    fn take(&mut self, kind: Kind) -> Result<Token, SqlError> {
        let token = self.tokens.at(self.at)?;
        if token.kind != kind {
            self.expected.add(Kinds::of(&[kind]));
            return Err(self.tokens.unexpected(&token, self.expected, None));
        }
        self.advance();
        Ok(token)
    }

    fn emit(&mut self, op: Op) {
        if !self.looking_ahead {
            self.code.push(op);
        }
    }

    fn text_of(&self, start: usize, end: usize) -> String {
        code::text(self.code.get(start..end).unwrap_or_default())
    }

    /// The constant that an operand is.
    fn constant(&self, operand: &Operand) -> Option<&Value<'static>> {
        match (operand.class, self.code.get(operand.start)) {
            (Class::Constant | Class::Truth, Some(Op::Constant(value))) => Some(value),
            _ => None,
        }
    }

    /// Makes the operand at the end of the code a condition.
    fn condition(&mut self, operand: &Operand) -> Result<(), SqlError> {
        match operand.class {
            _ if self.looking_ahead => Ok(()),
            Class::Condition | Class::Truth => Ok(()),
            Class::Property => {
                self.emit(Op::Condition);
                Ok(())
            }
            Class::Constant | Class::Signed => {
                let text = self.text_of(operand.start, self.code.len());
                Err(SqlError::Grammar(format!("Expression will not result in a boolean value: {text}")))
            }
        }
    }

    /// An operand of `<` and its like, whose code ends at `end`: neither a condition nor a text.
    fn check_ordered(&self, operand: &Operand, end: usize) -> Result<(), SqlError> {
        let fits = match operand.class {
            _ if self.looking_ahead => true,
            Class::Property | Class::Signed => true,
            Class::Condition | Class::Truth => false,
            Class::Constant => !matches!(self.constant(operand), Some(Value::Text(_))),
        };
        if fits {
            return Ok(());
        }
        Err(SqlError::Operand(format!("Value '{}' cannot be compared.", self.text_of(operand.start, end))))
    }

    fn check_equal(&self, left: &Operand, right: &Operand) -> Result<(), SqlError> {
        if self.looking_ahead {
            return Ok(());
        }
        if [left, right].into_iter().any(|operand| self.constant(operand) == Some(&Value::Null)) {
            return Err(SqlError::Operand("'NULL' cannot be compared.".to_owned()));
        }
        if left.class == Class::Truth && right.class == Class::Constant {
            let (left, right) = (self.text_of(left.start, right.start), self.text_of(right.start, self.code.len()));
            return Err(SqlError::Operand(format!("'{left}' cannot be compared with '{right}'")));
        }
        Ok(())
    }

    /// The limits of BETWEEN, when both are constants: the lower one first.
    fn check_limits(&self, low: &Operand, high: &Operand) -> Result<(), SqlError> {
        let (Some(low), Some(high)) = (self.constant(low), self.constant(high)) else { return Ok(()) };
        const ILLEGAL: &str = "Illegal values of between,";
        if *low == Value::Null || *high == Value::Null {
            return Err(SqlError::Operand(format!("{ILLEGAL} values can not be null!")));
        }
        if compare(high, low).map_err(|error| error.into_error())? == Ordering::Less {
            let (low, high) = (code::plain(low), code::plain(high));
            return Err(SqlError::Operand(format!(
                "{ILLEGAL} left value({low}) must less than or equal to right value({high})"
            )));
        }
        Ok(())
    }
}

/// A whole number: an int when it fits, else a long.
fn decimal(image: &str) -> Result<Value<'static>, SqlError> {
    let digits = image.trim_end_matches(['l', 'L']);
    let value: i64 = digits.parse().map_err(|_| SqlError::Number(digits.to_owned()))?;
    Ok(i32::try_from(value).map_or(Value::Long(value), Value::Int))
}

/// A number with a point or an exponent. Java takes its least positive number for the least of all: not even 0.0 passes.
fn float(image: &str) -> Result<Value<'static>, SqlError> {
    const LEAST: f64 = f64::from_bits(1);
    let value: f64 = image.parse().map_err(|_| SqlError::Number(image.to_owned()))?;
    if value > f64::MAX {
        return Err(SqlError::Operand(format!("{image} is greater than 1.7976931348623157E308")));
    }
    if value < LEAST {
        return Err(SqlError::Operand(format!("{image} is less than 4.9E-324")));
    }
    Ok(Value::Double(value))
}
