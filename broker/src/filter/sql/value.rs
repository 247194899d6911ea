//! Values and how Java compares them.
//!
//! A property is a text. Compared with a number it must be one of that very type: `'3.5'` is none where a whole number
//! stands, and an error there is an error of the whole expression.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::SqlError;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Cow<'a, str>),
}

/// Why two values cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Incomparable {
    /// The text is no such number.
    Number(String),
    /// A boolean on the left, a text on the right.
    Cast,
}

impl Incomparable {
    /// As the exception of a comparison that is made while an expression is compiled.
    pub(super) fn into_error(self) -> SqlError {
        match self {
            Incomparable::Number(text) => SqlError::Operand(text),
            Incomparable::Cast => SqlError::Cast,
        }
    }
}

/// How the left value compares with the right one, neither being null. What has no order (a boolean and a number) is
/// less, on either side.
pub(super) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Incomparable> {
    use Value::{Bool, Double, Int, Long, Text};
    Ok(match (left, right) {
        (Bool(left), Bool(right)) => left.cmp(right),
        (Int(left), Int(right)) => left.cmp(right),
        (Long(left), Long(right)) => left.cmp(right),
        (Int(left), Long(right)) => i64::from(*left).cmp(right),
        (Long(left), Int(right)) => left.cmp(&i64::from(*right)),
        (Double(left), Double(right)) => doubles(*left, *right),
        (Double(left), Int(right)) => doubles(*left, f64::from(*right)),
        (Double(left), Long(right)) => doubles(*left, *right as f64),
        (Int(left), Double(right)) => doubles(f64::from(*left), *right),
        (Long(left), Double(right)) => doubles(*left as f64, *right),
        (Text(left), Text(right)) => texts(left, right),
        (Bool(_), Text(_)) => return Err(Incomparable::Cast),
        (Text(left), Bool(right)) => left.eq_ignore_ascii_case("true").cmp(right),
        (Int(left), Text(right)) => left.cmp(&whole(right)?),
        (Text(left), Int(right)) => whole::<i32>(left)?.cmp(right),
        (Long(left), Text(right)) => left.cmp(&whole(right)?),
        (Text(left), Long(right)) => whole::<i64>(left)?.cmp(right),
        (Double(left), Text(right)) => doubles(*left, double(right)?),
        (Text(left), Double(right)) => doubles(double(left)?, *right),
        _ => Ordering::Less,
    })
}

/// The order of two texts by `<` and its like: of the numbers that they are.
pub(super) fn compare_texts_as_numbers(left: &str, right: &str) -> Result<Ordering, Incomparable> {
    Ok(doubles(double(left)?, double(right)?))
}

/// Java's total order: -0.0 before 0.0, NaN behind everything.
fn doubles(left: f64, right: f64) -> Ordering {
    match left.partial_cmp(&right) {
        Some(Ordering::Equal) | None if left.is_nan() || right.is_nan() => left.is_nan().cmp(&right.is_nan()),
        Some(Ordering::Equal) | None => right.is_sign_negative().cmp(&left.is_sign_negative()),
        Some(order) => order,
    }
}

/// By UTF-16 units. Most texts are told apart by their length or an early byte.
fn texts(left: &str, right: &str) -> Ordering {
    if left == right { Ordering::Equal } else { left.encode_utf16().cmp(right.encode_utf16()) }
}

/// A whole number as `Integer.valueOf` and `Long.valueOf` read it.
fn whole<T: std::str::FromStr>(text: &str) -> Result<T, Incomparable> {
    text.parse().map_err(|_| {
        let radix = if text.is_empty() { "" } else { text };
        Incomparable::Number(format!("java.lang.NumberFormatException: For input string: \"{radix}\""))
    })
}

/// A number as `Double.valueOf` reads it, without hexadecimal ones.
fn double(text: &str) -> Result<f64, Incomparable> {
    let wrong =
        |text: &str| Incomparable::Number(format!("java.lang.NumberFormatException: For input string: \"{text}\""));
    let trimmed = text.trim_matches(|char| char <= ' ');
    if trimmed.is_empty() {
        return Err(Incomparable::Number("java.lang.NumberFormatException: empty String".to_owned()));
    }
    let digits = trimmed.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(trimmed);
    if digits.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        // Rust reads the names of infinity and NaN in any case, but nothing else that Java does not.
        return digits.parse().map_err(|_| wrong(text));
    }
    match trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed) {
        "NaN" => Ok(f64::NAN),
        "Infinity" if trimmed.starts_with('-') => Ok(f64::NEG_INFINITY),
        "Infinity" => Ok(f64::INFINITY),
        _ => Err(wrong(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_java_reads_them() {
        for (text, value) in
            [("5", 5.0), (" 5 ", 5.0), ("5.", 5.0), (".5", 0.5), ("-1e3", -1000.0), ("1f", 1.0), ("2D", 2.0)]
        {
            assert_eq!(double(text), Ok(value), "{text}");
        }
        assert_eq!(double("-Infinity"), Ok(f64::NEG_INFINITY));
        for text in ["", " ", "x", "inf", "infinity", "nan", "1e", "f", "1ff", "1 2", "Infinityf", "."] {
            assert!(double(text).is_err(), "{text}");
        }
        assert_eq!(whole::<i32>("+5"), Ok(5));
        for text in ["", "3000000000", "3.0", " 3", "-", "0x1"] {
            assert!(whole::<i32>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_order_of_doubles() {
        let ordered = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
        for (at, left) in ordered.iter().enumerate() {
            for (other, right) in ordered.iter().enumerate() {
                assert_eq!(doubles(*left, *right), at.cmp(&other), "{left} {right}");
            }
        }
    }

    #[test]
    fn texts_and_numbers() {
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text));
        assert_eq!(compare(&text("5"), &Value::Int(5)), Ok(Ordering::Equal));
        assert_eq!(compare(&text("3000000000"), &Value::Long(5)), Ok(Ordering::Greater));
        assert!(compare(&text("3000000000"), &Value::Int(5)).is_err());
        assert_eq!(compare(&text("TRUE"), &Value::Bool(true)), Ok(Ordering::Equal));
        assert_eq!(compare(&Value::Bool(true), &text("true")), Err(Incomparable::Cast));
        assert_eq!(compare(&Value::Bool(true), &Value::Int(1)), Ok(Ordering::Less));
        assert_eq!(compare(&Value::Int(1), &Value::Bool(true)), Ok(Ordering::Less));
    }
}
