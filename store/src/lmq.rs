//! Light queues (`enableLmq`): a message that names them in `INNER_MULTI_DISPATCH` gets an entry in each of them besides
//! the one in its own queue. A light queue is queue 0 of a topic whose name begins with `%LMQ%`; nobody declares it.
//!
//! The appender writes into the record which offset the message has in each (`INNER_MULTI_QUEUE_OFFSET`, in the order of
//! the names), and the dispatcher makes the entries, when `enableMultiDispatch` is on, too.

use memchr::memchr;

/// What the name of a light queue begins with.
pub const PREFIX: &str = "%LMQ%";
/// The id of every light queue.
pub const QUEUE_ID: i32 = 0;
/// Between names, and between offsets.
pub(crate) const SEPARATOR: u8 = b',';
/// A name becomes that of a directory.
const LONGEST: usize = 255;
/// Topics whose messages go nowhere else: what is here is a copy, or does not count yet.
const NOT_FROM: [&[u8]; 4] = [b"%RETRY%", b"%DLQ%", b"rmq_sys_", b"SCHEDULE_TOPIC_XXXX"];

/// Whether a topic or a group is light.
pub fn is_lmq(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether messages of a topic go to light queues.
pub(crate) fn goes_on_from(topic: &[u8]) -> bool {
    !NOT_FROM.iter().any(|prefix| topic.starts_with(prefix))
}

/// The pieces of a list, as Java splits it: empty ones at the end do not count.
pub(crate) fn pieces(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let len = list.len() - list.iter().rev().take_while(|byte| **byte == SEPARATOR).count();
    let mut rest = Some(&list[..len]).filter(|list| !list.is_empty());
    std::iter::from_fn(move || {
        let list = rest?;
        let end = memchr(SEPARATOR, list).unwrap_or(list.len());
        rest = list.get(end + 1..);
        Some(&list[..end])
    })
}

/// The light queue that a piece of `INNER_MULTI_DISPATCH` names; `None` for another name, and for one that cannot be that
/// of a directory.
pub(crate) fn queue_of(name: &[u8]) -> Option<&str> {
    let fits = name.len() <= LONGEST && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    std::str::from_utf8(name).ok().filter(|name| fits && is_lmq(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<&str> {
        pieces(text.as_bytes()).map(|piece| std::str::from_utf8(piece).unwrap()).collect()
    }

    #[test]
    fn lists_as_java_splits_them() {
        assert_eq!(list("%LMQ%a"), ["%LMQ%a"]);
        assert_eq!(list("%LMQ%a,b,,%LMQ%c,,"), ["%LMQ%a", "b", "", "%LMQ%c"]);
        assert_eq!(list(",a"), ["", "a"]);
        assert_eq!((list("").len(), list(",,").len()), (0, 0));
    }

    #[test]
    fn names() {
        assert_eq!(queue_of(b"%LMQ%a"), Some("%LMQ%a"));
        let long = format!("%LMQ%{}", "x".repeat(251));
        for other in ["", "a", "%LMQ", "%LMQ%a/b", "%LMQ%../../x", "%LMQ%a\0b", &long] {
            assert_eq!(queue_of(other.as_bytes()), None, "{other}");
        }
        assert_eq!(queue_of(&[b"%LMQ%", &[0xff][..]].concat()), None);
        assert!(queue_of(&long.as_bytes()[..255]).is_some());
        assert!(goes_on_from(b"T") && goes_on_from(b"%LMQ%a"));
        assert!(!goes_on_from(b"%RETRY%g") && !goes_on_from(b"%DLQ%g") && !goes_on_from(b"SCHEDULE_TOPIC_XXXX"));
    }
}
