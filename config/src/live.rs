//! A configuration that can change while the server runs.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use crate::registry::{BadValue, Config};

/// Called after each change with the old and the new values.
type Listener<C> = Box<dyn Fn(&C, &C) + Send + Sync>;

/// The current snapshot of a configuration struct.
///
/// Reading costs a few nanoseconds and never waits. Changes are made one after another; a reader sees all of a change or
/// none of it.
pub struct Live<C> {
    current: ArcSwap<C>,
    listeners: Mutex<Vec<Listener<C>>>,
}

impl<C: Config> Live<C> {
    /// Starts with `config`.
    pub fn new(config: C) -> Self {
        Self { current: ArcSwap::from_pointee(config), listeners: Mutex::new(Vec::new()) }
    }

    /// The current values. Take them once per request, so that one request sees one configuration.
    pub fn load(&self) -> Guard<Arc<C>> {
        self.current.load()
    }

    /// The current values, to keep for longer.
    pub fn load_full(&self) -> Arc<C> {
        self.current.load_full()
    }

    /// Checks `pairs` without changing anything.
    pub fn check<K: AsRef<str>, V: AsRef<str>>(&self, pairs: &[(K, V)]) -> Result<(), BadValue> {
        apply(&mut C::default(), pairs).map(drop)
    }

    /// Changes the keys that this struct has and ignores the others, as Java merges an update; all values are taken or, when one is
    /// malformed, none. Returns how many keys were taken.
    pub fn update<K: AsRef<str>, V: AsRef<str>>(&self, pairs: &[(K, V)]) -> Result<usize, BadValue> {
        // Held while the listeners run, so that they see changes in order. A listener must not update in turn.
        let listeners = self.listeners.lock();
        let old = self.current.load_full();
        let mut new = C::clone(&old);
        let taken = apply(&mut new, pairs)?;
        let new = Arc::new(new);
        self.current.store(Arc::clone(&new));
        for listener in listeners.iter() {
            listener(&old, &new);
        }
        Ok(taken)
    }

    /// Calls `listener` with the old and the new values after each change.
    pub fn on_change(&self, listener: impl Fn(&C, &C) + Send + Sync + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }
}

impl<C: Config + std::fmt::Debug> std::fmt::Debug for Live<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Live").field(&self.load()).finish()
    }
}

impl<C: Config> Default for Live<C> {
    fn default() -> Self {
        Self::new(C::default())
    }
}

fn apply<C: Config, K: AsRef<str>, V: AsRef<str>>(config: &mut C, pairs: &[(K, V)]) -> Result<usize, BadValue> {
    let mut taken = 0;
    for (key, value) in pairs {
        if config.set(key.as_ref(), value.as_ref())? {
            taken += 1;
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::*;
    use crate::{MessageStoreConfig, NamesrvConfig};

    #[test]
    fn an_update_takes_existing_keys_only() {
        let live = Live::new(MessageStoreConfig::default());
        assert_eq!(live.update(&[("maxMessageSize", "2048"), ("noSuchKey", "1")]), Ok(1));
        assert_eq!(live.load().max_message_size, 2048);
    }

    #[test]
    fn one_bad_value_refuses_the_whole_update() {
        let live = Live::new(MessageStoreConfig::default());
        let error = live.update(&[("maxMessageSize", "2048"), ("fileReservedTime", "3d")]).unwrap_err();
        assert_eq!(error.key, "fileReservedTime");
        assert_eq!(*live.load_full(), MessageStoreConfig::default());
        assert!(live.check(&[("maxMessageSize", "x")]).is_err());
        assert!(live.check(&[("maxMessageSize", "1")]).is_ok());
        assert_eq!(*live.load_full(), MessageStoreConfig::default());
    }

    #[test]
    fn a_snapshot_does_not_change_and_listeners_see_both_sides() {
        let live = Live::new(NamesrvConfig::default());
        let seen = Arc::new(AtomicI32::new(0));
        live.on_change({
            let seen = Arc::clone(&seen);
            move |old, new| seen.store(new.wait_seconds_for_service - old.wait_seconds_for_service, Ordering::SeqCst)
        });
        let before = live.load();
        assert_eq!(live.update(&[("waitSecondsForService", "50")]), Ok(1));
        assert_eq!(before.wait_seconds_for_service, 45);
        assert_eq!(live.load().wait_seconds_for_service, 50);
        assert_eq!(seen.load(Ordering::SeqCst), 5);
    }
}
