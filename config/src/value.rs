//! The types that a configuration key can have, with Java's way of reading and printing each.

/// A type of configuration value.
///
/// Surrounding blanks do not count. Where Java is silent about text that it cannot read (it keeps the default, or
/// takes any word but `true` as false), this reports it: a typing error must not change what a server does.
pub trait Value: Sized + Clone + PartialEq {
    /// What a value must look like, to complete the sentence "expected ...".
    const EXPECTED: &'static str;
    /// The type's name in the Java class.
    const JAVA_TYPE: &'static str;

    /// Reads a value; `None` when the text is not one.
    fn parse(text: &str) -> Option<Self>;

    /// The value as Java prints it; `None` for Java's null, which it does not print at all.
    fn print(&self) -> Option<String>;
}

impl Value for String {
    const EXPECTED: &'static str = "a text";
    const JAVA_TYPE: &'static str = "String";

    fn parse(text: &str) -> Option<Self> {
        Some(text.trim().to_owned())
    }

    fn print(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Value for Option<String> {
    const EXPECTED: &'static str = "a text";
    const JAVA_TYPE: &'static str = "String";

    fn parse(text: &str) -> Option<Self> {
        Some(Some(text.trim().to_owned()))
    }

    fn print(&self) -> Option<String> {
        self.clone()
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    const JAVA_TYPE: &'static str = "boolean";

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("true") {
            Some(true)
        } else if text.eq_ignore_ascii_case("false") {
            Some(false)
        } else {
            None
        }
    }

    fn print(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for i32 {
    const EXPECTED: &'static str = "a whole number from -2147483648 to 2147483647";
    const JAVA_TYPE: &'static str = "int";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn print(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for i64 {
    const EXPECTED: &'static str = "a whole number from -9223372036854775808 to 9223372036854775807";
    const JAVA_TYPE: &'static str = "long";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn print(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for f64 {
    const EXPECTED: &'static str = "a number";
    const JAVA_TYPE: &'static str = "double";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn print(&self) -> Option<String> {
        let size = self.abs();
        // Double.toString switches to scientific notation at these two limits.
        if *self == 0.0 || (1e-3..1e7).contains(&size) {
            return Some(format!("{self:?}"));
        }
        let text = format!("{self:E}");
        match text.split_once('E') {
            Some((digits, exponent)) if !digits.contains('.') => Some(format!("{digits}.0E{exponent}")),
            _ => Some(text),
        }
    }
}

/// Declares an enumeration with Java's constant names.
macro_rules! java_enum {
    ($(#[$doc:meta])* $name:ident, $expected:literal, $first:ident = $first_text:literal: $first_doc:literal
        $(, $constant:ident = $text:literal: $constant_doc:literal)* $(; number $number:expr)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            #[doc = $first_doc]
            #[default]
            $first,
            $(#[doc = $constant_doc] $constant),*
        }

        impl Value for $name {
            const EXPECTED: &'static str = $expected;
            const JAVA_TYPE: &'static str = stringify!($name);

            fn parse(text: &str) -> Option<Self> {
                match text.trim() {
                    $first_text => Some(Self::$first),
                    $($text => Some(Self::$constant),)*
                    _other => {
                        $(
                            if let Ok(number) = _other.parse::<i32>() {
                                return Some($number(number));
                            }
                        )?
                        None
                    }
                }
            }

            fn print(&self) -> Option<String> {
                Some(self.to_string())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    Self::$first => $first_text,
                    $(Self::$constant => $text),*
                })
            }
        }
    };
}

java_enum! {
    /// When a message counts as stored (`flushDiskType`).
    FlushDiskType, "SYNC_FLUSH or ASYNC_FLUSH",
    Async = "ASYNC_FLUSH": "Once it is in the page cache; the disk follows within `flushIntervalCommitLog`.",
    Sync = "SYNC_FLUSH": "Once it is on the disk."
}

java_enum! {
    /// The broker's part in replication (`brokerRole`).
    BrokerRole, "ASYNC_MASTER, SYNC_MASTER or SLAVE",
    AsyncMaster = "ASYNC_MASTER": "Takes messages and does not wait for its replicas.",
    SyncMaster = "SYNC_MASTER": "Takes messages and waits for enough replicas.",
    Slave = "SLAVE": "Copies a master."
}

java_enum! {
    /// How a group takes its messages unless it says so itself (`defaultMessageRequestMode`).
    MessageRequestMode, "PULL or POP",
    Pull = "PULL": "Queues are spread over the consumers, each pulls its own.",
    Pop = "POP": "Every consumer takes from every queue, the broker keeps account."
}

java_enum! {
    /// Where metrics go (`metricsExporterType`); Java takes the number as well.
    MetricsExporterType, "DISABLE, OTLP_GRPC, PROM or LOG (or 0 to 3)",
    Disable = "DISABLE": "Nowhere.",
    OtlpGrpc = "OTLP_GRPC": "Pushed to an OpenTelemetry collector.",
    Prometheus = "PROM": "Served on a port for Prometheus.",
    Log = "LOG": "Written to the log.";
    number |number| match number { 1 => Self::OtlpGrpc, 2 => Self::Prometheus, 3 => Self::Log, _ => Self::Disable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_java() {
        for (number, text) in [
            (8000.0, "8000.0"),
            (200_000.0, "200000.0"),
            (0.8, "0.8"),
            (0.001, "0.001"),
            (1e7, "1.0E7"),
            (1.25e-5, "1.25E-5"),
            (-12_345_678.5, "-1.23456785E7"),
            (0.0, "0.0"),
        ] {
            assert_eq!(number.print().as_deref(), Some(text));
        }
        assert_eq!(f64::parse("NaN"), None);
    }

    #[test]
    fn numbers_have_javas_ranges() {
        assert_eq!(i32::parse(" 2147483647 "), Some(i32::MAX));
        assert_eq!(i32::parse("2147483648"), None);
        assert_eq!(i64::parse("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(i32::parse("1_000"), None);
        assert_eq!(i32::parse("4k"), None);
        assert_eq!(i32::parse(""), None);
    }

    #[test]
    fn booleans_are_two_words_in_any_case() {
        assert_eq!(bool::parse("TRUE"), Some(true));
        assert_eq!(bool::parse("False "), Some(false));
        assert_eq!(bool::parse("yes"), None);
        assert_eq!(bool::parse("1"), None);
    }

    #[test]
    fn enumerations_use_javas_constants() {
        assert_eq!(FlushDiskType::parse("SYNC_FLUSH"), Some(FlushDiskType::Sync));
        assert_eq!(FlushDiskType::parse("sync_flush"), None);
        assert_eq!(BrokerRole::Slave.print().as_deref(), Some("SLAVE"));
        assert_eq!(MetricsExporterType::parse("2"), Some(MetricsExporterType::Prometheus));
        assert_eq!(MetricsExporterType::parse("9"), Some(MetricsExporterType::Disable));
        assert_eq!(BrokerRole::parse("1"), None);
    }
}
