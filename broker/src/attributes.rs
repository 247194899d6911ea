//! Attributes of topics and groups: which there are, which values they take, and how a request alters them.
//!
//! A request names an attribute as `+name` (set) or `-name` (remove); what is stored has no sign.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use store::TopicPolicy;
use thiserror::Error;

/// A set of attributes that an owner may have.
pub type Attributes = BTreeMap<String, String>;

/// An alteration that is refused. The client's fault; the text is Java's remark.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct AttributeError(String);

impl AttributeError {
    /// A refusal in these words.
    pub fn new(text: impl Into<String>) -> AttributeError {
        AttributeError(text.into())
    }
}

/// Values that an attribute takes.
#[derive(Clone, Copy, Debug)]
enum Values {
    OneOf(&'static [&'static str]),
    Range(i64, i64),
    Bool,
    Any,
}

/// One attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    name: &'static str,
    changeable: bool,
    values: Values,
}

/// Hours that the messages of a topic can be read.
pub const RETENTION: &str = "retention.hours";
/// How the messages of a topic go.
pub const CLEANUP: &str = "cleanup.policy";

/// What the attributes of a topic ask of the store.
pub fn policy(attributes: &Attributes) -> TopicPolicy {
    let hours = attributes.get(RETENTION).and_then(|hours| hours.parse::<u32>().ok()).filter(|hours| *hours > 0);
    TopicPolicy {
        compaction: attributes.get(CLEANUP).is_some_and(|policy| policy == "COMPACTION"),
        keep: hours.map(|hours| Duration::from_secs(u64::from(hours) * 3600)),
    }
}

/// What a topic may have.
pub const TOPIC: &[Attribute] = &[
    Attribute { name: "queue.type", changeable: false, values: Values::OneOf(&["BatchCQ", "SimpleCQ"]) },
    Attribute { name: CLEANUP, changeable: false, values: Values::OneOf(&["DELETE", "COMPACTION"]) },
    Attribute {
        name: "message.type",
        changeable: true,
        values: Values::OneOf(&["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED", "LITE"]),
    },
    Attribute { name: "reserve.time", changeable: true, values: Values::Range(-1, i64::MAX) },
    // Not one of Java's, which leaves an attribute that it does not know as it is.
    Attribute { name: RETENTION, changeable: true, values: Values::Range(1, 100 * 366 * 24) },
    Attribute { name: "lite.topic.expiration", changeable: true, values: Values::Range(-1, 30 * 24 * 60) },
];

/// What a group may have.
pub const GROUP: &[Attribute] = &[
    Attribute { name: "priority.factor", changeable: true, values: Values::Range(0, 100) },
    Attribute { name: "lite.bind.topic", changeable: true, values: Values::Any },
    Attribute { name: "lite.sub.model", changeable: true, values: Values::OneOf(&["Shared", "Exclusive"]) },
    Attribute { name: "lite.sub.reset.offset.exclusive", changeable: true, values: Values::Bool },
    Attribute { name: "lite.sub.reset.offset.unsubscribe", changeable: true, values: Values::Bool },
    Attribute { name: "lite.sub.client.quota", changeable: true, values: Values::Range(-1, i64::MAX) },
    Attribute { name: "lite.sub.client.max.event.cnt", changeable: true, values: Values::Range(10, i64::MAX) },
    Attribute { name: "lite.sub.wildcard", changeable: true, values: Values::Any },
];

/// The attributes after a request; `current` is `None` when the owner is being made.
///
/// # Errors
/// A key without a sign, an unknown or unchangeable attribute, a value that it does not take, a key named twice.
pub fn alter(
    known: &[Attribute],
    current: Option<&Attributes>,
    request: &Attributes,
) -> Result<Attributes, AttributeError> {
    let refuse = |text: String| Err(AttributeError(text));
    let mut after = current.cloned().unwrap_or_default();
    let mut seen = HashSet::new();
    for (key, value) in request {
        let mut characters = key.chars();
        let sign = characters.next();
        let name = characters.as_str();
        if name.is_empty() || name.contains(['+', '-']) {
            return refuse("kv string format wrong.".to_owned());
        }
        if !seen.insert(name) {
            return refuse(format!("alter duplication key. key: {name}"));
        }
        let attribute = known.iter().find(|attribute| attribute.name == name);
        match (current, sign) {
            (_, Some('+')) => {}
            (None, _) => {
                return refuse(format!("only add attribute is supported while creating topic. key: {name}"));
            }
            (Some(current), Some('-')) => {
                if !current.contains_key(name) {
                    return refuse(format!("attempt to delete a nonexistent key: {name}"));
                }
            }
            _ => return refuse(format!("wrong format key: {name}")),
        }
        let Some(attribute) = attribute else { return refuse(format!("unsupported key: {name}")) };
        if current.is_some() && !attribute.changeable {
            return refuse(format!("attempt to update an unchangeable attribute. key: {name}"));
        }
        if sign == Some('-') {
            after.remove(name);
        } else {
            attribute.values.check(value)?;
            after.insert(name.to_owned(), value.clone());
        }
    }
    Ok(after)
}

impl Values {
    fn check(self, value: &str) -> Result<(), AttributeError> {
        match self {
            Values::OneOf(set) if !set.contains(&value) => {
                Err(AttributeError(format!("value is not in set: [{}]", set.join(", "))))
            }
            Values::Range(min, max) => match value.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                Ok(_) => Err(AttributeError(format!("value is not in range({min}, {max})"))),
                Err(_) => Err(AttributeError(format!("For input string: \"{value}\""))),
            },
            Values::Bool if !value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false") => {
                Err(AttributeError("boolean attribute format is wrong.".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Attributes {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn made_altered_and_removed() {
        let made = alter(TOPIC, None, &set(&[("+message.type", "FIFO")])).unwrap();
        assert_eq!(made, set(&[("message.type", "FIFO")]));
        let altered = alter(TOPIC, Some(&made), &set(&[("+message.type", "NORMAL")])).unwrap();
        assert_eq!(altered, set(&[("message.type", "NORMAL")]));
        assert_eq!(alter(TOPIC, Some(&made), &set(&[("-message.type", "")])).unwrap(), set(&[]));
    }

    #[test]
    fn what_the_store_is_asked() {
        let of = |pairs: &[(&str, &str)]| policy(&set(pairs));
        assert_eq!(of(&[("message.type", "FIFO")]), TopicPolicy::default());
        assert_eq!(of(&[("cleanup.policy", "DELETE")]), TopicPolicy::default());
        assert!(of(&[("cleanup.policy", "COMPACTION")]).compaction);
        assert_eq!(of(&[("retention.hours", "48")]).keep, Some(Duration::from_secs(48 * 3600)));
        // As a file may have it.
        for odd in ["0", "-1", "", "two", "99999999999999"] {
            assert_eq!(of(&[("retention.hours", odd)]), TopicPolicy::default(), "{odd}");
        }
        let made = alter(TOPIC, None, &set(&[("+retention.hours", "48")])).unwrap();
        assert_eq!(alter(TOPIC, Some(&made), &set(&[("-retention.hours", "")])).unwrap(), set(&[]));
        let error = alter(TOPIC, Some(&made), &set(&[("+retention.hours", "0")])).unwrap_err();
        assert_eq!(error.to_string(), "value is not in range(1, 878400)");
    }

    #[test]
    fn refusals_have_javas_words() {
        let text = |current: Option<&Attributes>, key: &str, value: &str| {
            alter(TOPIC, current, &set(&[(key, value)])).unwrap_err().to_string()
        };
        let none = set(&[]);
        assert_eq!(
            text(None, "message.type", "FIFO"),
            "only add attribute is supported while creating topic. key: essage.type"
        );
        assert_eq!(text(None, "+nope", "1"), "unsupported key: nope");
        assert_eq!(text(None, "+queue.type", "x"), "value is not in set: [BatchCQ, SimpleCQ]");
        assert_eq!(
            text(Some(&none), "+queue.type", "BatchCQ"),
            "attempt to update an unchangeable attribute. key: queue.type"
        );
        assert_eq!(text(Some(&none), "-message.type", ""), "attempt to delete a nonexistent key: message.type");
        assert_eq!(text(Some(&none), "xmessage.type", ""), "wrong format key: message.type");
        assert_eq!(text(None, "+", ""), "kv string format wrong.");
        assert_eq!(text(None, "+reserve.time", "-2"), format!("value is not in range(-1, {})", i64::MAX));
    }
}
