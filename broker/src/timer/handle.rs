//! The handle with which a producer recalls a timed message: `v1 TOPIC BROKER TIME UNIQUE_KEY` in URL-safe base64.

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE};
use thiserror::Error;

/// Java takes a handle with or without its padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What a handle says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallHandle {
    /// The topic that the message goes to.
    pub topic: String,
    /// The broker that keeps it.
    pub broker: String,
    /// When it is due, as a number of milliseconds; not checked.
    pub time: String,
    /// The message's unique key.
    pub unique_key: String,
}

/// A text that is no handle. Its message is the remark that Java answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("recall handle is invalid")]
pub struct InvalidHandle;

impl RecallHandle {
    /// The handle of a message that is due at `time` (ms).
    pub fn encode(topic: &str, broker: &str, time: i64, unique_key: &str) -> String {
        URL_SAFE.encode(format!("v1 {topic} {broker} {time} {unique_key}"))
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(text: &str) -> Result<RecallHandle, InvalidHandle> {
        let bytes = LENIENT.decode(text).map_err(|_| InvalidHandle)?;
        let raw = String::from_utf8_lossy(&bytes);
        let mut items = raw.split(' ').map(str::to_owned);
        let mut next = || items.next().ok_or(InvalidHandle);
        if next()? != "v1" {
            return Err(InvalidHandle);
        }
        let handle = RecallHandle { topic: next()?, broker: next()?, time: next()?, unique_key: next()? };
        // Java's split drops empty parts at the end.
        if handle.unique_key.is_empty() && items.all(|rest| rest.is_empty()) {
            return Err(InvalidHandle);
        }
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As recorded from a Java broker.
    const JAVA: &str = "djEgVG9waWMgYnJva2VyLWEgMTc5NTk3OTY3NDAwMSA3RjAwMDAwMTY4RDI0RTBFMkYyQTkzRTUzRkI3MDAxRg==";

    #[test]
    fn there_and_back() {
        let text = RecallHandle::encode("Topic", "broker-a", 1_795_979_674_001, "7F00000168D24E0E2F2A93E53FB7001F");
        assert_eq!(text, JAVA);
        let handle = RecallHandle::decode(&text).unwrap();
        assert_eq!((&*handle.topic, &*handle.broker, &*handle.time), ("Topic", "broker-a", "1795979674001"));
        assert_eq!(handle.unique_key, "7F00000168D24E0E2F2A93E53FB7001F");
        assert_eq!(RecallHandle::decode(text.trim_end_matches('=')), Ok(handle));
    }

    #[test]
    fn what_is_none() {
        let encode = |text: &str| URL_SAFE.encode(text);
        for text in ["", "zzz", "!", "v1 a b c d", &encode("v2 a b c d"), &encode("v1 a b c"), &encode("v1 a b c  ")] {
            assert_eq!(RecallHandle::decode(text), Err(InvalidHandle), "{text}");
        }
        // More parts than needed do no harm.
        assert_eq!(RecallHandle::decode(&encode("v1 a b c d e")).unwrap().unique_key, "d");
    }
}
