//! The registry of configuration keys: [`Config`], and the macro [`config_keys!`](crate::config_keys) that makes a
//! struct from a table of rows.
//!
//! A row is
//!
//! ```text
//! "javaKey" rust_field: Type = default, effect, "documentation" [, attribute]*;
//! ```
//!
//! with an effect of `dynamic`, `static` or `inert` (see [`Effect`]) and these attributes: `important` (listed by
//! `mqbroker -m`), `inherited` (declared in a Java superclass, so not listed by `mqbroker -p`), `set_by("otherKey")`
//! (Java's file key differs from the listed one) and `fixed` (Java has no setter, so a file cannot change it).
//! `= default => adjust` passes each value that is set through the function `adjust`.

use std::collections::BTreeMap;

use thiserror::Error;

/// When a changed value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At once, also when it is changed while the server runs.
    Dynamic,
    /// From the next start.
    Static,
    /// Never: the key is accepted and listed because Java has it, but nothing here depends on it (yet).
    Inert,
}

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name as Java lists it: the field of the Java class.
    pub name: &'static str,
    /// Name under which a file or a request sets it; `None` when nothing can.
    pub setter: Option<&'static str>,
    /// The type's name in the Java class.
    pub java_type: &'static str,
    /// What a value must look like, to complete "expected ...".
    pub expected: &'static str,
    /// When a change is used.
    pub effect: Effect,
    /// Listed by `mqbroker -m`.
    pub important: bool,
    /// Declared in a superclass of the Java class.
    pub inherited: bool,
    /// One line of documentation, with the unit.
    pub doc: &'static str,
}

impl Key {
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        java_type: &'static str,
        expected: &'static str,
        effect: Effect,
        doc: &'static str,
    ) -> Self {
        Self { name, setter: Some(name), java_type, expected, effect, important: false, inherited: false, doc }
    }

    #[doc(hidden)]
    pub const fn important(mut self) -> Self {
        self.important = true;
        self
    }

    #[doc(hidden)]
    pub const fn inherited(mut self) -> Self {
        self.inherited = true;
        self
    }

    #[doc(hidden)]
    pub const fn set_by(mut self, name: &'static str) -> Self {
        self.setter = Some(name);
        self
    }

    #[doc(hidden)]
    pub const fn fixed(mut self) -> Self {
        self.setter = None;
        self
    }
}

/// A value that its key cannot take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}={value}: expected {expected}")]
pub struct BadValue {
    /// The key, as it was given.
    pub key: String,
    /// The value, as it was given.
    pub value: String,
    /// What the key takes.
    pub expected: &'static str,
}

/// A configuration struct made by [`config_keys!`](crate::config_keys).
pub trait Config: Clone + Default + Send + Sync + 'static {
    /// The Java class, such as `BrokerConfig`.
    const NAME: &'static str;

    /// All keys, in the order of the Java class.
    fn keys() -> &'static [Key];

    /// A value by Java's listed name, as Java prints it. `None` for an unknown key and for Java's null.
    fn get(&self, name: &str) -> Option<String>;

    /// Sets a value by the name that files and requests use. `Ok(false)` when this struct has no such key.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, BadValue>;

    /// The key that a file or a request means by `name`.
    fn key(name: &str) -> Option<&'static Key> {
        Self::keys().iter().find(|key| key.setter == Some(name))
    }

    /// All values that are not null, in the order of the Java class.
    fn entries(&self) -> Vec<(&'static str, String)> {
        Self::keys().iter().filter_map(|key| Some((key.name, self.get(key.name)?))).collect()
    }

    /// What `-p` and `-m` print: `key=value` lines in the order of the Java class, nothing after `=` for null.
    fn print(&self, important_only: bool) -> String {
        let mut out = String::new();
        for key in Self::keys() {
            if key.inherited || (important_only && !key.important) {
                continue;
            }
            out.push_str(key.name);
            out.push('=');
            out.push_str(&self.get(key.name).unwrap_or_default());
            out.push('\n');
        }
        out
    }

    /// Adds all values that are not null to `all`, over what is there.
    fn merge_into(&self, all: &mut BTreeMap<String, String>) {
        for (name, value) in self.entries() {
            all.insert(name.to_owned(), value);
        }
    }

    /// `key=value` lines sorted by key, as Java answers GET_BROKER_CONFIG and GET_NAMESRV_CONFIG. For an answer from
    /// several structs use [`merge_into`](Self::merge_into) and [`dump`].
    fn dump(&self) -> String {
        let mut all = BTreeMap::new();
        self.merge_into(&mut all);
        dump(&all)
    }
}

/// `key=value` lines, each ended by a line feed, without any escaping: Java writes this list raw.
pub fn dump(all: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(all.len() * 32);
    for (key, value) in all {
        out.push_str(key);
        out.push('=');
        out.push_str(value);
        out.push('\n');
    }
    out
}

/// Makes a configuration struct from a table of rows; see [`registry`](crate::registry) for the form of a row.
#[macro_export]
macro_rules! config_keys {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($key:literal $field:ident: $type:ty = $default:expr $(=> $adjust:path)?, $effect:ident, $doc:literal
            $(, $attribute:ident $(($argument:literal))?)*;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = $doc] #[doc = concat!("\n\nKey `", $key, "`.")] pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::registry::Config for $name {
            const NAME: &'static str = stringify!($name);

            fn keys() -> &'static [$crate::registry::Key] {
                const KEYS: &[$crate::registry::Key] = &[
                    $($crate::registry::Key::new(
                        $key,
                        <$type as $crate::value::Value>::JAVA_TYPE,
                        <$type as $crate::value::Value>::EXPECTED,
                        $crate::config_keys!(@effect $effect),
                        $doc,
                    )$(.$attribute($($argument)?))*,)*
                ];
                KEYS
            }

            fn get(&self, name: &str) -> Option<String> {
                match name {
                    $($key => $crate::value::Value::print(&self.$field),)*
                    _ => None,
                }
            }

            fn set(&mut self, key: &str, value: &str) -> Result<bool, $crate::registry::BadValue> {
                let Some(known) = Self::key(key) else { return Ok(false) };
                let read = match known.name {
                    $($key => <$type as $crate::value::Value>::parse(value)
                        .map(|value| self.$field = $crate::config_keys!(@adjust value $($adjust)?)),)*
                    _ => return Ok(false),
                };
                match read {
                    Some(()) => Ok(true),
                    None => Err($crate::registry::BadValue {
                        key: key.to_owned(),
                        value: value.to_owned(),
                        expected: known.expected,
                    }),
                }
            }
        }
    };
    (@effect dynamic) => { $crate::registry::Effect::Dynamic };
    (@effect static) => { $crate::registry::Effect::Static };
    (@effect inert) => { $crate::registry::Effect::Inert };
    (@adjust $value:ident) => { $value };
    (@adjust $value:ident $adjust:path) => { $adjust($value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(number: i32) -> i32 {
        number & !1
    }

    config_keys! {
        /// A small example.
        pub struct Example {
            "threadNums" thread_nums: i32 = 4 => even, dynamic, "Threads.", important;
            "isScan" is_scan: bool = true, static, "Scan.", set_by("scan");
            "oddName" odd_name: Option<String> = None, inert, "Name.", inherited;
            "rate" rate: f64 = 0.5, static, "Rate.", fixed;
        }
    }

    #[test]
    fn a_row_makes_a_field_with_its_default_and_its_names() {
        let mut example = Example::default();
        assert_eq!(example, Example { thread_nums: 4, is_scan: true, odd_name: None, rate: 0.5 });
        assert_eq!(example.set("scan", "false"), Ok(true));
        assert_eq!(example.set("isScan", "true"), Ok(false));
        assert_eq!(example.set("rate", "0.1"), Ok(false));
        assert_eq!(example.set("threadNums", "7"), Ok(true));
        assert_eq!(example.set("oddName", "  x y "), Ok(true));
        assert_eq!(example, Example { thread_nums: 6, is_scan: false, odd_name: Some("x y".into()), rate: 0.5 });
        assert_eq!(example.get("isScan").as_deref(), Some("false"));
        assert_eq!(example.get("scan"), None);
    }

    #[test]
    fn a_bad_value_changes_nothing_and_says_what_was_expected() {
        let mut example = Example::default();
        let error = example.set("threadNums", "many").unwrap_err();
        assert_eq!(error.to_string(), "threadNums=many: expected a whole number from -2147483648 to 2147483647");
        assert_eq!(example, Example::default());
    }

    #[test]
    fn the_lists_are_javas() {
        let example = Example::default();
        assert_eq!(example.dump(), "isScan=true\nrate=0.5\nthreadNums=4\n");
        assert_eq!(example.print(false), "threadNums=4\nisScan=true\nrate=0.5\n");
        assert_eq!(example.print(true), "threadNums=4\n");
        assert_eq!(Example::keys()[2].effect, Effect::Inert);
    }
}
