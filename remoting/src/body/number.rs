//! Whole numbers as fastjson2 reads them: a text that holds a number is one.
//!
//! Java's clients write numbers. The Go client writes the codes of its tags as texts, the C++ client the versions of its subscriptions.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a number: `#[serde(deserialize_with = "number::read")]`.
pub(super) fn read<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64> + FromStr,
{
    Number::deserialize(deserializer).map(|Number(number)| number)
}

/// Reads a set of numbers: `#[serde(deserialize_with = "number::read_set")]`.
pub(super) fn read_set<'de, D, T>(deserializer: D) -> Result<BTreeSet<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64> + FromStr + Ord,
{
    let numbers = Vec::<Number<T>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|Number(number)| number).collect())
}

struct Number<T>(T);

impl<'de, T: TryFrom<i64> + FromStr> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText(PhantomData)).map(Number)
    }
}

struct NumberOrText<T>(PhantomData<T>);

impl<T: TryFrom<i64> + FromStr> Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a whole number in range, or a text of one")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        T::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        let number = i64::try_from(value).ok().and_then(|value| T::try_from(value).ok());
        number.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.trim().parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Body {
        #[serde(deserialize_with = "read")]
        version: i64,
        #[serde(deserialize_with = "read_set")]
        codes: BTreeSet<i32>,
    }

    #[test]
    fn numbers_and_texts_of_numbers() {
        let body: Body = serde_json::from_str(r#"{"version":"1700000000000","codes":[98,"-97"," 99 "]}"#).unwrap();
        assert_eq!(body, Body { version: 1_700_000_000_000, codes: [-97, 98, 99].into() });
        let body: Body = serde_json::from_str(r#"{"version":-1,"codes":[]}"#).unwrap();
        assert_eq!(body, Body { version: -1, codes: BTreeSet::new() });
    }

    #[test]
    fn what_is_no_number_or_out_of_range_is_refused() {
        for codes in
            ["[\"a\"]", "[\"\"]", "[2147483648]", "[\"2147483648\"]", "[1.5]", "[true]", "[18446744073709551615]"]
        {
            let text = format!(r#"{{"version":1,"codes":{codes}}}"#);
            assert!(serde_json::from_str::<Body>(&text).is_err(), "{text}");
        }
    }
}
