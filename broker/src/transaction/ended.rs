//! Which halves have been ended, as two bits a half.
//!
//! Filled by the ends of transactions as they come, and after a start from what the op topic says. It covers halves around
//! the position of the check; what lies far behind is forgotten, what lies too far ahead is not taken in. So its size has
//! a limit whatever waits.
//!
//! A half whose producer is asked is appended anew. Its producer may still end it by the old offset, or by both: the moves
//! of the last halves are kept, and all offsets of a half mean the newest one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use store::{Queue, Store};

use crate::names;

/// Offsets of one piece.
const SPAN: i64 = 1 << 16;
const WORDS: usize = (SPAN / 32) as usize;
/// Pieces that are kept at most: 16 MiB, for 67 million halves.
const MOST: usize = 1024;
/// Pieces kept behind the position, for ends that come twice.
const BEHIND: i64 = 16;

/// Moves that are kept.
const MOVES: usize = 1 << 18;

/// What is known of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: it is open, or nobody remembers.
    Open,
    /// It was rolled back, or ended before the broker started.
    Ended,
    /// It was committed since the broker started.
    Committed,
}

/// The halves of the one queue that the half topic has.
pub struct Halves {
    store: Arc<Store>,
    known: Mutex<Known>,
}

struct Known {
    /// Offsets mean halves of this queue. A topic that is deleted and made again starts anew.
    queue: Arc<Queue>,
    window: Window,
    /// Where a half stood and where it stands now; ascending, as only halves behind those that moved before move.
    moves: VecDeque<(i64, i64)>,
}

impl Halves {
    /// Nothing is known; `position` is the first offset that has not been looked at.
    pub fn new(store: Arc<Store>, position: i64) -> Halves {
        let queue = store.queue_or_create(names::HALF_TOPIC, 0);
        Halves { store, known: Mutex::new(Known::new(queue, position)) }
    }

    /// The queue.
    pub fn queue(&self) -> Arc<Queue> {
        self.with(|known| known.queue.clone())
    }

    /// Notes that a half is being committed. Returns where it stands now and what was known before; nothing changes when
    /// that was a commit.
    pub fn begin_commit(&self, offset: i64) -> (i64, State) {
        self.with(|known| {
            let newest = known.newest(offset);
            let before = known.window.state(newest);
            known.window.set(newest, State::Committed);
            (newest, before)
        })
    }

    /// Takes [`Halves::begin_commit`] back: the message could not be delivered.
    pub fn give_up_commit(&self, newest: i64, before: State) {
        self.with(|known| known.window.set(newest, before));
    }

    /// Notes an end that is not known to be a commit, unless the half is ended already. Returns where it stands now and
    /// what was known before.
    pub fn end(&self, offset: i64) -> (i64, State) {
        self.with(|known| {
            let newest = known.newest(offset);
            let before = known.window.state(newest);
            if before == State::Open {
                known.window.set(newest, State::Ended);
            }
            (newest, before)
        })
    }

    /// Notes that a half stands at another offset now. Returns what is known of it: its end may have come meanwhile.
    pub fn moved(&self, from: i64, to: i64) -> State {
        self.with(|known| {
            let state = known.window.state(from);
            if state == State::Open {
                if known.moves.len() == MOVES {
                    known.moves.pop_front();
                }
                if known.moves.back().is_none_or(|(last, _)| *last < from) {
                    known.moves.push_back((from, to));
                }
            } else {
                known.window.set(to, state);
            }
            state
        })
    }

    /// What is known of a half.
    pub fn state(&self, offset: i64) -> State {
        self.with(|known| known.window.state(offset))
    }

    /// The first offset in `from..to` that has not been ended; else `to`.
    pub fn next_open(&self, from: i64, to: i64) -> i64 {
        self.with(|known| known.window.next_open(from, to))
    }

    /// Everything before `position` has been looked at. Returns the first offset that cannot be noted for want of room.
    pub fn move_to(&self, position: i64) -> i64 {
        self.with(|known| {
            known.window.move_to(position);
            known.window.end()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock();
        if known.queue.is_deleted() {
            let queue = self.store.queue_or_create(names::HALF_TOPIC, 0);
            *known = Known::new(queue, 0);
        }
        work(&mut known)
    }
}

impl Known {
    fn new(queue: Arc<Queue>, position: i64) -> Known {
        Known { queue, window: Window::at(position), moves: VecDeque::new() }
    }

    fn newest(&self, mut offset: i64) -> i64 {
        while let Ok(at) = self.moves.binary_search_by_key(&offset, |(from, _)| *from)
            && let Some((_, to)) = self.moves.get(at).filter(|(from, to)| to > from)
        {
            offset = *to;
        }
        offset
    }
}

/// Two bits for each offset of a range that moves.
#[derive(Default)]
struct Window {
    /// Number of the first piece.
    first: i64,
    pieces: VecDeque<Option<Box<[u64; WORDS]>>>,
}

impl Window {
    fn at(position: i64) -> Window {
        Window { first: (position.div_euclid(SPAN) - BEHIND).max(0), pieces: VecDeque::new() }
    }

    /// The first offset that has no room.
    fn end(&self) -> i64 {
        (self.first + MOST as i64).saturating_mul(SPAN)
    }

    fn place(&self, offset: i64) -> Option<(usize, usize, u32)> {
        let piece = usize::try_from(offset.div_euclid(SPAN) - self.first).ok().filter(|piece| *piece < MOST)?;
        let within = offset.rem_euclid(SPAN);
        Some((piece, (within / 32) as usize, (within % 32) as u32 * 2))
    }

    fn state(&self, offset: i64) -> State {
        let Some((piece, word, shift)) = self.place(offset) else { return State::Open };
        match self.pieces.get(piece) {
            Some(Some(words)) => match words[word] >> shift & 3 {
                0 => State::Open,
                1 => State::Ended,
                _ => State::Committed,
            },
            _ => State::Open,
        }
    }

    fn set(&mut self, offset: i64, state: State) {
        let Some((piece, word, shift)) = self.place(offset) else { return };
        if self.pieces.len() <= piece {
            self.pieces.resize_with(piece + 1, || None);
        }
        let words = self.pieces[piece].get_or_insert_with(|| Box::new([0; WORDS]));
        let bits = match state {
            State::Open => 0,
            State::Ended => 1,
            State::Committed => 2,
        };
        words[word] = words[word] & !(3 << shift) | bits << shift;
    }

    fn next_open(&self, from: i64, to: i64) -> i64 {
        (from..to).find(|offset| self.state(*offset) == State::Open).unwrap_or(to.max(from))
    }

    fn move_to(&mut self, position: i64) {
        let first = (position.div_euclid(SPAN) - BEHIND).max(0);
        let gone = usize::try_from(first - self.first).unwrap_or(0).min(self.pieces.len());
        self.pieces.drain(..gone);
        // A position that moved back (an operator's doing) keeps what is known.
        self.first = self.first.max(first);
    }
}

#[cfg(test)]
mod tests {
    use config::{Live, MessageStoreConfig};
    use store::StoreOptions;

    use super::*;

    fn halves(dir: &tempfile::TempDir) -> Halves {
        let config = MessageStoreConfig {
            store_path_root_dir: dir.path().to_string_lossy().into_owned(),
            mapped_file_size_commit_log: 1 << 20,
            max_hash_slot_num: 100,
            max_index_num: 400,
            ..MessageStoreConfig::default()
        };
        let options = StoreOptions {
            config: Arc::new(Live::new(config)),
            store_host: "127.0.0.1:1".parse().unwrap(),
            arrived: None,
            filter_bits: None,
        };
        Halves::new(Store::open(options).unwrap(), 0)
    }

    #[test]
    fn an_end_by_an_old_offset_is_that_of_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let halves = halves(&dir);
        assert_eq!(halves.moved(3, 10), State::Open);
        assert_eq!(halves.moved(10, 12), State::Open);
        assert_eq!(halves.begin_commit(3), (12, State::Open));
        assert_eq!(halves.begin_commit(12), (12, State::Committed));
        assert_eq!(halves.end(10), (12, State::Committed));
        // Ended while it was being moved.
        assert_eq!(halves.end(11), (11, State::Open));
        assert_eq!(halves.moved(11, 13), State::Ended);
        assert_eq!((halves.state(13), halves.next_open(11, 20)), (State::Ended, 14));
        halves.give_up_commit(12, State::Open);
        assert_eq!(halves.state(12), State::Open);
    }

    #[test]
    fn a_topic_that_is_made_again_has_other_halves() {
        let dir = tempfile::tempdir().unwrap();
        let halves = halves(&dir);
        halves.begin_commit(0);
        halves.store.delete_topic(names::HALF_TOPIC);
        assert_eq!(halves.begin_commit(0), (0, State::Open));
    }

    #[test]
    fn moves_have_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let halves = halves(&dir);
        let count = MOVES as i64 + 5;
        (0..count).for_each(|from| assert_eq!(halves.moved(from, from + count), State::Open));
        assert_eq!(halves.with(|known| known.moves.len()), MOVES);
        assert_eq!((halves.end(4).0, halves.end(5).0), (4, 5 + count));
    }

    #[test]
    fn two_bits_a_half() {
        let mut window = Window::at(0);
        for offset in [0, 31, 32, SPAN - 1, SPAN, 5 * SPAN + 7] {
            assert_eq!(window.state(offset), State::Open);
            window.set(offset, State::Ended);
            assert_eq!((window.state(offset), window.state(offset + 1)), (State::Ended, State::Open));
            window.set(offset, State::Committed);
            assert_eq!((window.state(offset), window.state(offset + 1)), (State::Committed, State::Open));
        }
        window.set(32, State::Open);
        assert_eq!((window.state(31), window.state(32)), (State::Committed, State::Open));
        assert_eq!((window.next_open(0, 9), window.next_open(31, 40), window.next_open(SPAN - 1, SPAN)), (1, 32, SPAN));
        window.set(-1, State::Ended);
        assert_eq!(window.state(-1), State::Open);
    }

    #[test]
    fn its_size_has_a_limit() {
        let mut window = Window::at(0);
        let end = window.end();
        window.set(end, State::Committed);
        assert_eq!((window.state(end), window.pieces.len()), (State::Open, 0));
        window.set(end - 1, State::Committed);
        assert_eq!((window.state(end - 1), window.pieces.len()), (State::Committed, MOST));
        window.move_to(end);
        assert_eq!(window.pieces.len() as i64, BEHIND);
        assert_eq!(window.state(end - 1), State::Committed);
        window.set(end, State::Ended);
        assert_eq!(window.state(end), State::Ended);
        window.move_to(0);
        assert_eq!(window.state(end), State::Ended, "never forgets by moving back");
        window.move_to(i64::MAX);
        assert_eq!(window.pieces.len(), 0);
    }

    #[test]
    fn positions_in_the_middle() {
        let mut window = Window::at(100 * SPAN + 5);
        assert_eq!(window.first, 100 - BEHIND);
        window.set((100 - BEHIND) * SPAN - 1, State::Ended);
        assert_eq!(window.pieces.len(), 0);
        window.set(100 * SPAN, State::Ended);
        assert_eq!(window.next_open(100 * SPAN, 101 * SPAN), 100 * SPAN + 1);
    }
}
