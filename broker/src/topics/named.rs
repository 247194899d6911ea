//! The topics by name, and by a hash of the name: of very many topics the look-up by name leads over more memory that no
//! cache holds. Where a hash is looked for is known before anything is read: whoever looks for several topics can ask for the
//! memory of all of them first, which the tables of the standard library do not let him do.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use store::mark;
use store::segment::ask_for;

use super::Topic;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Named {
    by_name: HashMap<String, Arc<Topic>>,
    by_mark: ByMark,
}

/// Topics by the hashes of their names, of several with the same the last one that was put. A topic lies at the place that
/// its hash says or behind it, with no free place between; a power of two of places, at most half of them taken.
#[derive(Debug, Default)]
struct ByMark {
    places: Vec<Option<(u64, Arc<Topic>)>>,
    taken: usize,
    address: Arc<Address>,
}

/// Where in memory the places are, or were: enough to ask for one without the lock of the table.
#[derive(Debug, Default)]
pub(super) struct Address {
    first: AtomicUsize,
    /// The number of places less one.
    last: AtomicUsize,
}

impl Address {
    /// Asks for the memory where [`Named::marked`] begins to look.
    pub(super) fn ask_for(&self, mark: u64) {
        let place = mark as usize & self.last.load(Ordering::Relaxed);
        ask_for(self.first.load(Ordering::Relaxed).wrapping_add(place * size_of::<Option<(u64, Arc<Topic>)>>()));
    }
}

impl ByMark {
    /// The first place of a hash; there must be places.
    fn place(&self, mark: u64) -> usize {
        mark as usize & (self.places.len() - 1)
    }

    /// The place that has a hash, or the free one where it would go; `None` without any places.
    fn find(&self, mark: u64) -> Option<usize> {
        let mut at = (!self.places.is_empty()).then(|| self.place(mark))?;
        while self.places[at].as_ref().is_some_and(|(other, _)| *other != mark) {
            at = (at + 1) & (self.places.len() - 1);
        }
        Some(at)
    }

    fn get(&self, mark: u64) -> Option<&Arc<Topic>> {
        self.places[self.find(mark)?].as_ref().map(|(_, topic)| topic)
    }

    fn put(&mut self, mark: u64, topic: Arc<Topic>) {
        if 2 * (self.taken + 1) > self.places.len() {
            let more = (2 * self.places.len()).max(16);
            let old = std::mem::replace(&mut self.places, std::iter::repeat_with(|| None).take(more).collect());
            self.taken = 0;
            self.address.first.store(self.places.as_ptr().addr(), Ordering::Relaxed);
            self.address.last.store(more - 1, Ordering::Relaxed);
            old.into_iter().flatten().for_each(|(mark, topic)| self.put(mark, topic));
        }
        if let Some(at) = self.find(mark) {
            self.taken += usize::from(self.places[at].is_none());
            self.places[at] = Some((mark, topic));
        }
    }

    fn remove(&mut self, mark: u64) {
        let Some(mut at) = self.find(mark) else { return };
        // What stands behind it may belong further to the front now.
        while let Some((other, topic)) = self.places[at].take() {
            self.taken -= 1;
            if other != mark {
                self.put(other, topic);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }
}

/// The hash that topics are found by.
pub(crate) fn mark_of(name: &str) -> u64 {
    mark(name.as_bytes(), 0)
}

impl Named {
    /// The topic.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Topic>> {
        self.marked(mark_of(name)).filter(|topic| topic.topic_name == name).or_else(|| self.by_name.get(name))
    }

    /// A topic whose name has the hash; hardly ever it is another one than was meant.
    pub(super) fn marked(&self, mark: u64) -> Option<&Arc<Topic>> {
        self.by_mark.get(mark)
    }

    /// Where [`Named::marked`] looks.
    pub(super) fn address(&self) -> Arc<Address> {
        self.by_mark.address.clone()
    }

    /// Puts a topic, in the place of the one that has its name.
    pub(super) fn put(&mut self, topic: Arc<Topic>) {
        self.by_mark.put(mark_of(&topic.topic_name), topic.clone());
        self.by_name.insert(topic.topic_name.clone(), topic);
    }

    /// Forgets a topic; false when there was none.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let mark = mark_of(name);
        if self.marked(mark).is_some_and(|topic| topic.topic_name == name) {
            self.by_mark.remove(mark);
        }
        self.by_name.remove(name).is_some()
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use remoting::body::topic::TopicConfig;

    use super::*;
    use crate::names::SystemTopics;

    fn topic(name: &str, queues: i32) -> Arc<Topic> {
        Arc::new(Topic::new(TopicConfig::new(name, queues, 6), Arc::default(), &SystemTopics::default()))
    }

    /// Hashes that meet, at the end of the places as well; held against a table of the standard library.
    #[test]
    fn hashes_that_meet() {
        let topics: Vec<_> = (0..40).map(|number| topic("T", number)).collect();
        let (mut by_mark, mut model) = (ByMark::default(), HashMap::new());
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Few starts, near the last place and the first one, whatever the number of places.
            let mark = (random >> 33) % 40;
            let mark = (mark / 4) << 40 | [u64::from(u32::MAX), u64::from(u32::MAX) - 1, 0, 3][mark as usize % 4];
            if random >> 60 < 8 {
                let topic = &topics[(random >> 50) as usize % 40];
                by_mark.put(mark, topic.clone());
                model.insert(mark, topic.clone());
            } else {
                by_mark.remove(mark);
                model.remove(&mark);
            }
            assert_eq!(by_mark.taken, model.len());
            for (mark, topic) in &model {
                assert!(by_mark.get(*mark).is_some_and(|found| Arc::ptr_eq(found, topic)));
            }
            assert!(by_mark.get(1).is_none() && by_mark.places.iter().flatten().count() == model.len());
        }
    }

    #[test]
    fn names_with_the_same_hash_are_told_apart() {
        let mut named = Named::default();
        named.put(topic("A", 1));
        named.put(topic("B", 2));
        // As if both had the same.
        let other = named.marked(mark_of("B")).unwrap().clone();
        named.by_mark.put(mark_of("A"), other);
        let queues = |named: &Named, name| named.get(name).map(|topic| topic.write_queue_nums);
        assert_eq!((queues(&named, "A"), queues(&named, "B"), queues(&named, "C")), (Some(1), Some(2), None));
        assert!(named.remove("A") && !named.remove("A"));
        assert_eq!((queues(&named, "A"), queues(&named, "B"), named.len()), (None, Some(2), 1));
        named.put(topic("B", 3));
        assert_eq!(queues(&named, "B"), Some(3));
        assert!(named.remove("B") && named.marked(mark_of("B")).is_none() && named.all().next().is_none());
    }
}
