//! Running an expression over the properties of a message.

use std::borrow::Cow;
use std::cmp::Ordering;

use smallvec::SmallVec;

use super::Failed;
use super::code::{Op, Place, Relation};
use super::value::{Value, compare, compare_texts_as_numbers};

/// Runs a program. It is one that the parser made: every step finds its operands.
pub(super) fn run(code: &[Op], properties: &[u8]) -> Result<Option<bool>, Failed> {
    let mut stack: SmallVec<[Value<'_>; 4]> = SmallVec::new();
    let mut at = 0;
    while let Some(op) = code.get(at) {
        at += 1;
        let value = match op {
            Op::Property(name) => match name.value(properties) {
                Some(value) => Value::Text(String::from_utf8_lossy(value)),
                None => Value::Null,
            },
            Op::Constant(value) => borrowed(value),
            Op::Skip { when, to } => {
                if stack.last() == Some(&Value::Bool(*when)) {
                    at = *to;
                }
                continue;
            }
            Op::Negate => match pop(&mut stack) {
                Value::Int(value) => Value::Int(value.wrapping_neg()),
                Value::Long(value) => Value::Long(value.wrapping_neg()),
                Value::Double(value) => Value::Double(-value),
                _ => Value::Null,
            },
            Op::Condition => match pop(&mut stack) {
                Value::Null => Value::Null,
                value => Value::Bool(value == Value::Bool(true)),
            },
            Op::Not => match pop(&mut stack) {
                Value::Bool(value) => Value::Bool(!value),
                _ => Value::Null,
            },
            Op::IsNull => Value::Bool(pop(&mut stack) == Value::Null),
            Op::Equal => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                equal(&left, &right)?
            }
            Op::Compare(relation) => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                relate(&left, *relation, &right)?
            }
            Op::Between { not } => {
                let (high, low, value) = (pop(&mut stack), pop(&mut stack), pop(&mut stack));
                between(&value, &low, &high, *not)?
            }
            Op::Search { place, not, text } => {
                let found = match pop(&mut stack) {
                    Value::Text(value) => match place {
                        Place::Anywhere => value.contains(&**text),
                        Place::Start => value.starts_with(&**text),
                        Place::End => value.ends_with(&**text),
                    },
                    // What is no text neither has it nor lacks it.
                    _ => *not,
                };
                Value::Bool(found != *not)
            }
            Op::Never(_) => Value::Bool(false),
            Op::In { texts, not } => match pop(&mut stack) {
                Value::Text(value) => Value::Bool(texts.has(&value) != *not),
                _ => Value::Null,
            },
            Op::And => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                and(left, right)
            }
            Op::Or => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                or(left, right)
            }
        };
        stack.push(value);
    }
    Ok(match pop(&mut stack) {
        Value::Bool(value) => Some(value),
        _ => None,
    })
}

fn pop<'a>(stack: &mut SmallVec<[Value<'a>; 4]>) -> Value<'a> {
    stack.pop().unwrap_or(Value::Null)
}

fn borrowed<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
        Value::Null => Value::Null,
        Value::Bool(value) => Value::Bool(*value),
        Value::Int(value) => Value::Int(*value),
        Value::Long(value) => Value::Long(*value),
        Value::Double(value) => Value::Double(*value),
    }
}

/// Nothing equals null but null; a null on the left makes it unknown, one on the right false.
fn equal(left: &Value<'_>, right: &Value<'_>) -> Result<Value<'static>, Failed> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => Value::Bool(true),
        (Value::Null, _) => Value::Null,
        (_, Value::Null) => Value::Bool(false),
        (left, right) => Value::Bool(compare(left, right).map_err(|_| Failed)? == Ordering::Equal),
    })
}

fn relate(left: &Value<'_>, relation: Relation, right: &Value<'_>) -> Result<Value<'static>, Failed> {
    let order = match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return Ok(Value::Null),
        (Value::Text(left), Value::Text(right)) => compare_texts_as_numbers(left, right),
        (left, right) => compare(left, right),
    };
    let order = order.map_err(|_| Failed)?;
    Ok(Value::Bool(match relation {
        Relation::Greater => order.is_gt(),
        Relation::GreaterEqual => order.is_ge(),
        Relation::Less => order.is_lt(),
        Relation::LessEqual => order.is_le(),
    }))
}

/// Two comparisons: the second is not made when the first decides.
fn between(value: &Value<'_>, low: &Value<'_>, high: &Value<'_>, not: bool) -> Result<Value<'static>, Failed> {
    let (first, second) =
        if not { (Relation::Less, Relation::Greater) } else { (Relation::GreaterEqual, Relation::LessEqual) };
    let left = relate(value, first, low)?;
    if left == Value::Bool(not) {
        return Ok(left);
    }
    let right = relate(value, second, high)?;
    Ok(if not { or(left, right) } else { and(left, right) })
}

fn and<'a>(left: Value<'a>, right: Value<'a>) -> Value<'a> {
    match (left, right) {
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
        (Value::Bool(true), Value::Bool(true)) => Value::Bool(true),
        _ => Value::Null,
    }
}

fn or<'a>(left: Value<'a>, right: Value<'a>) -> Value<'a> {
    match (left, right) {
        (Value::Bool(true), _) | (_, Value::Bool(true)) => Value::Bool(true),
        (Value::Bool(false), Value::Bool(false)) => Value::Bool(false),
        _ => Value::Null,
    }
}
