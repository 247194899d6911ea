//! A pull's filter: what of a queue its group gets.

use std::sync::Arc;

use store::ReadFilter;
use store::record::{Properties, RecordView};

use super::{ConsumerFilter, ConsumerFilters, TagFilter};
use crate::names;

/// What a pull wants.
#[derive(Clone)]
pub enum Filter {
    /// Messages with some tags, or all.
    Tags(TagFilter),
    /// Messages that an expression is true for.
    Sql(Arc<SqlFilter>),
}

/// An expression, for the pulls of one group from one topic.
pub struct SqlFilter {
    /// The expression; without one, or when it cannot be compiled, everything is wanted, as with Java.
    filter: Option<Arc<ConsumerFilter>>,
    /// The expressions by first topic, for the messages of a retry topic (`filterSupportRetry`).
    retry: Option<Arc<ConsumerFilters>>,
}

impl SqlFilter {
    /// A filter by an expression. With `retry`, messages of the group's retry topic are filtered by the expression for the
    /// topic that they were sent to first.
    pub fn new(filter: Option<Arc<ConsumerFilter>>, retry: Option<Arc<ConsumerFilters>>) -> SqlFilter {
        SqlFilter { filter, retry }
    }

    fn wants(&self, record: &RecordView<'_>) -> bool {
        let properties = record.property_bytes();
        let Some(filters) = &self.retry else {
            return is_true(self.filter.as_deref(), properties);
        };
        let group = std::str::from_utf8(record.topic_bytes()).ok().and_then(names::retried_group);
        let first = Properties::new(properties).get("RETRY_TOPIC");
        let filter = group.zip(first).and_then(|(group, topic)| filters.get(topic, group));
        is_true(filter.as_deref(), properties)
    }
}

fn is_true(filter: Option<&ConsumerFilter>, properties: &[u8]) -> bool {
    filter.and_then(|filter| filter.compiled.as_ref()).is_none_or(|expression| expression.matches(properties))
}

impl ReadFilter for Filter {
    fn by_tags_code(&self, tags_code: i64) -> bool {
        match self {
            Filter::Tags(tags) => tags.wants(tags_code),
            Filter::Sql(_) => true,
        }
    }

    /// Bits say something of messages that came after the expression only.
    fn by_ext(&self, tags_code: i64, bits: &[u8], store_timestamp: i64) -> bool {
        match self {
            Filter::Tags(tags) => tags.wants(tags_code),
            Filter::Sql(sql) => {
                sql.filter.as_ref().filter(|filter| store_timestamp > filter.born_time).is_none_or(|filter| {
                    filter.compiled.is_none() || filter.bloom_filter_data.as_ref().is_none_or(|data| data.are_set(bits))
                })
            }
        }
    }

    fn by_record(&self, record: &[u8]) -> bool {
        match self {
            Filter::Tags(_) => true,
            Filter::Sql(sql) => RecordView::parse(record).is_ok_and(|record| sql.wants(&record)),
        }
    }
}
