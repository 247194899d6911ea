//! Who is woken when a queue has new messages. The store is opened before anybody can wait for it, so the wakers are set
//! afterwards.

use std::sync::{Arc, OnceLock, Weak};

use store::Arrival;

use crate::names;
use crate::pull::Puller;
use crate::schedule::Schedule;
use crate::timer::Timer;

/// The receivers of the store's notices.
#[derive(Default)]
pub struct Arrivals {
    puller: OnceLock<Weak<Puller>>,
    schedule: OnceLock<Weak<Schedule>>,
    timer: OnceLock<Weak<Timer>>,
}

impl Arrivals {
    /// Sets who is woken; the first call counts. Weak, as all own the store that calls them.
    pub fn set(&self, puller: &Arc<Puller>, schedule: &Arc<Schedule>, timer: Option<&Arc<Timer>>) {
        let _ = self.puller.set(Arc::downgrade(puller));
        let _ = self.schedule.set(Arc::downgrade(schedule));
        if let Some(timer) = timer {
            let _ = self.timer.set(Arc::downgrade(timer));
        }
    }

    /// Takes a notice, on the thread that dispatches.
    pub fn arrived(&self, arrival: &Arrival<'_>) {
        if arrival.queue.topic() == names::SCHEDULE_TOPIC
            && let Some(schedule) = self.schedule.get().and_then(Weak::upgrade)
        {
            schedule.arrived(arrival);
        }
        if arrival.queue.topic() == names::TIMER_TOPIC
            && let Some(timer) = self.timer.get().and_then(Weak::upgrade)
        {
            timer.arrived();
        }
        if let Some(puller) = self.puller.get().and_then(Weak::upgrade) {
            puller.arrived(arrival);
        }
    }
}
