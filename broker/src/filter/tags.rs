//! The tag filter of a subscription: `TagA || TagB`, or everything.
//!
//! A queue entry carries Java's `String.hashCode` of the message's tag, so a filter is a set of hashes; the client
//! compares the tags themselves (two tags may share a hash).

use remoting::body::heartbeat::SubscriptionData;
use smallvec::SmallVec;
use store::ReadFilter;
use store::record::java_hash;

/// A subscription to everything.
pub const ALL: &str = "*";

/// Which tags are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// `None`: everything.
    codes: Option<SmallVec<[i32; 4]>>,
}

impl TagFilter {
    /// Takes everything.
    pub fn all() -> TagFilter {
        TagFilter::default()
    }

    /// The tags of an expression. Nothing or `*` is everything; blanks around tags and empty tags are ignored.
    ///
    /// # Errors
    /// An expression that consists of separators only.
    pub fn parse(expression: &str) -> Result<TagFilter, EmptyExpression> {
        if expression.is_empty() || expression == ALL {
            return Ok(TagFilter::all());
        }
        // Java's split drops empty pieces at the end, so only separators leave no piece at all.
        if expression.len().is_multiple_of(2) && expression.bytes().all(|byte| byte == b'|') {
            return Err(EmptyExpression);
        }
        let trimmed = expression.split("||").map(|tag| tag.trim_matches(|c| c <= ' '));
        Ok(TagFilter::of_codes(trimmed.filter(|tag| !tag.is_empty()).map(java_hash)))
    }

    /// What a group has subscribed to in its heartbeat.
    pub fn of(subscription: &SubscriptionData) -> TagFilter {
        if subscription.class_filter_mode || subscription.sub_string.as_deref() == Some(ALL) {
            return TagFilter::all();
        }
        TagFilter::of_codes(subscription.code_set.iter().copied())
    }

    /// The hashes that a client sent with its heartbeat.
    pub fn of_codes(codes: impl IntoIterator<Item = i32>) -> TagFilter {
        TagFilter { codes: Some(codes.into_iter().collect()) }
    }

    /// Whether a queue entry with this tags code is wanted.
    pub fn wants(&self, tags_code: i64) -> bool {
        match &self.codes {
            None => true,
            // Java narrows the stored long to an int.
            Some(codes) => codes.contains(&(tags_code as i32)),
        }
    }

    /// Whether nothing is filtered out.
    pub fn is_all(&self) -> bool {
        self.codes.is_none()
    }
}

impl ReadFilter for TagFilter {
    fn by_tags_code(&self, tags_code: i64) -> bool {
        self.wants(tags_code)
    }
}

/// A tag expression without any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("subString split error")]
pub struct EmptyExpression;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_01_equal_hashes_and_blanks() {
        assert_eq!((java_hash("Aa"), java_hash("BB"), java_hash("")), (2112, 2112, 0));
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        let filter = TagFilter::parse("a || Aa").unwrap();
        assert!(filter.wants(2112) && filter.wants(97) && !filter.wants(0));
        let filter = TagFilter::parse("Aa").unwrap();
        assert!(filter.wants(2112) && !filter.wants(0) && !filter.wants(97));
    }

    #[test]
    fn everything_and_nothing() {
        assert!(TagFilter::parse("*").unwrap().is_all());
        assert!(TagFilter::parse("").unwrap().is_all());
        assert_eq!(TagFilter::parse("||"), Err(EmptyExpression));
        assert!(!TagFilter::parse(" ").unwrap().wants(0));
        assert!(!TagFilter::parse("a|b").unwrap().wants(i64::from(java_hash("a"))));
        assert!(TagFilter::parse("a||").unwrap().wants(97));
    }

    #[test]
    fn only_the_low_half_of_a_code_counts() {
        let hash = java_hash("polygenelubricants");
        assert!(TagFilter::of_codes([hash]).wants(i64::from(hash)));
        assert!(TagFilter::of_codes([hash]).wants(i64::from(hash) & 0xFFFF_FFFF));
    }
}
