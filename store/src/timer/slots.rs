//! Which slots of the wheel hold something, one bit a slot: to find the next one without reading the wheel.

use std::sync::atomic::{AtomicU64, Ordering};

/// One writer, any number of readers; a reader may see a change late.
#[derive(Debug)]
pub(super) struct Slots {
    words: Vec<AtomicU64>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots { words: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word.load(Ordering::Relaxed) >> (index % 64) & 1 == 1)
    }

    pub(super) fn set(&self, index: usize) {
        if let Some(word) = self.words.get(index / 64) {
            word.fetch_or(1 << (index % 64), Ordering::Relaxed);
        }
    }

    pub(super) fn clear(&self, index: usize) {
        if let Some(word) = self.words.get(index / 64) {
            word.fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
        }
    }

    /// The first at or behind an index, going round once.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let first = from / 64;
        let ahead = self.words.get(first)?.load(Ordering::Relaxed) & (u64::MAX << (from % 64));
        let at = |word: usize, bits: u64| (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize);
        at(first, ahead).or_else(|| {
            // The word of `from` once more at the end: what stands before it there.
            let round = (first + 1..self.words.len()).chain(0..=first);
            round.into_iter().find_map(|word| at(word, self.words[word].load(Ordering::Relaxed)))
        })
    }

    /// All that are set.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = bits.load(Ordering::Relaxed);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_round() {
        let slots = Slots::new(200);
        assert_eq!(slots.next(0), None);
        slots.set(70);
        slots.set(3);
        slots.set(199);
        assert_eq!(
            (slots.next(0), slots.next(3), slots.next(4), slots.next(70)),
            (Some(3), Some(3), Some(70), Some(70))
        );
        assert_eq!((slots.next(71), slots.next(199)), (Some(199), Some(199)));
        slots.clear(199);
        assert_eq!((slots.next(71), slots.next(65)), (Some(3), Some(70)));
        slots.clear(70);
        assert_eq!((slots.next(70), slots.next(4)), (Some(3), Some(3)));
        assert_eq!(slots.all().collect::<Vec<_>>(), [3]);
        assert!(slots.has(3) && !slots.has(4) && !slots.has(1000));
    }
}
