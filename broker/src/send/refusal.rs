//! Why a message is not taken, as the code and the remark that the producer gets.

use std::borrow::Cow;

use remoting::server::Outcome;
use remoting::{Reply, ResponseCode};

/// A code and a remark. Cold: made only when a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: ResponseCode,
    /// The text for people.
    pub remark: Cow<'static, str>,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: ResponseCode, remark: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, remark: remark.into() }
    }

    /// The answer to a body or properties beyond the limits, which the remark names.
    pub fn illegal(max_message_size: i32) -> Refusal {
        Refusal::new(
            ResponseCode::MESSAGE_ILLEGAL,
            format!(
                "the message is illegal, maybe msg body or properties length not matched. \
                 msg body length limit {max_message_size}B, msg properties length limit 32KB."
            ),
        )
    }

    /// The answer to every message while the store cannot keep up, before it is looked at.
    pub fn busy() -> Refusal {
        Refusal::new(ResponseCode::SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")
    }

    /// The answer to a message that was looked at when the store turned out not to keep up.
    pub fn page_cache_busy() -> Refusal {
        Refusal::new(ResponseCode::SYSTEM_BUSY, "[PC_SYNCHRONIZED]broker busy, start flow control for a while")
    }

    /// The answer to a number that is none, with Java's text.
    pub fn not_a_number(value: &str) -> Refusal {
        Refusal::new(
            ResponseCode::SYSTEM_ERROR,
            format!("java.lang.NumberFormatException: For input string: \"{value}\""),
        )
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Outcome {
        Reply::error(refusal.code, refusal.remark).into()
    }
}

/// Where remarks send people; the end of many of Java's.
pub const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
