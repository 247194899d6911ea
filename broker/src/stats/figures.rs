//! Figures by Java's names: what VIEW_BROKER_STATS_DATA (315) asks for.
//!
//! | name | key |
//! | --- | --- |
//! | `TOPIC_PUT_NUMS`, `TOPIC_PUT_SIZE` | topic |
//! | `TOPIC_PUT_LATENCY` | `queueId@topic` |
//! | `GROUP_GET_NUMS`, `GROUP_GET_SIZE`, `SNDBCK_PUT_NUMS` | `topic@group` |
//! | `GROUP_GET_LATENCY` | `queueId@topic@group`, with `enableDetailStat=false` `topic@group` |
//! | `QUEUE_PUT_NUMS`, `QUEUE_PUT_SIZE` (of the schedule topic, with `enableDetailStat`) | `topic@queueId` |
//! | `QUEUE_GET_NUMS`, `QUEUE_GET_SIZE` (likewise) | `topic@queueId@group` |
//! | `BROKER_PUT_NUMS`, `BROKER_GET_NUMS`, both `.._WITHOUT_SYSTEM_TOPIC` | cluster |
//! | `CONSUMER_REGISTER_TIME`, `PRODUCER_REGISTER_TIME` | cluster |
//! | `CHANNEL_ACTIVITY` | `CONNECT`, `CLOSE` |
//! | `SNDBCK2DLQ_TIMES` | `null@topic@group@SEND_BACK_TO_DLQ` |
//!
//! A figure is there once it has counted. Java's other names (`COMMERCIAL_..`, `.._FROM_DISK_..`, `DLQ_PUT_NUMS`, ..) are never
//! counted by 5.5.0, those of pop (`GROUP_ACK_NUMS`, ..) only with pop.

use std::sync::Arc;

use super::counter::{Counter, Rate};
use super::window::Window;
use super::{BYTES, MESSAGES, ReadStats, Stats, TopicStats};
use crate::names;

/// A figure over all windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure([Rate; 3]);

impl Figure {
    /// What a window shows.
    pub fn rate(&self, window: Window) -> Rate {
        self.0[window as usize]
    }
}

/// The last sum of a counter that says how often there was something to add.
const REQUESTS: usize = 2;

impl Stats {
    /// The figure of a name and a key, when it has counted. `topic` finds the counters of a topic.
    pub fn figure(&self, name: &str, key: &str, topic: impl Fn(&str) -> Option<Arc<TopicStats>>) -> Option<Figure> {
        match name {
            "TOPIC_PUT_NUMS" => self.of(&topic(key)?.put, MESSAGES, Some(REQUESTS)),
            "TOPIC_PUT_SIZE" => self.of(&topic(key)?.put, BYTES, Some(REQUESTS)),
            "TOPIC_PUT_LATENCY" => {
                let (id, name) = key.split_once('@')?;
                self.of(&*topic(name)?.latency.get(id.parse().ok()?)?, 0, Some(1))
            }
            "GROUP_GET_NUMS" => self.of(&self.read_by_key(key)?.got, MESSAGES, Some(REQUESTS)),
            "GROUP_GET_SIZE" => self.of(&self.read_by_key(key)?.got, BYTES, Some(REQUESTS)),
            "GROUP_GET_LATENCY" => {
                let (id, key) = if self.detailed { key.split_once('@')? } else { ("0", key) };
                self.of(&*self.read_by_key(key)?.latency.get(id.parse().ok()?)?, 0, Some(1))
            }
            "SNDBCK_PUT_NUMS" => self.of(&self.read_by_key(key)?.sent_back, 0, Some(0)),
            "SNDBCK2DLQ_TIMES" => {
                let key = key.strip_prefix("null@")?.strip_suffix("@SEND_BACK_TO_DLQ")?;
                self.of(&self.read_by_key(key)?.dead, 0, Some(0))
            }
            "QUEUE_PUT_NUMS" | "QUEUE_PUT_SIZE" => {
                let id = key.strip_prefix(names::SCHEDULE_TOPIC)?.strip_prefix('@')?;
                let which = if name == "QUEUE_PUT_NUMS" { MESSAGES } else { BYTES };
                self.of(&*self.delayed.get(id.parse().ok()?)?, which, Some(REQUESTS))
            }
            "QUEUE_GET_NUMS" | "QUEUE_GET_SIZE" => {
                let key = key.strip_prefix(names::SCHEDULE_TOPIC)?.strip_prefix('@')?;
                let id = key.strip_suffix(names::SCHEDULE_GROUP)?.strip_suffix('@')?;
                let which = if name == "QUEUE_GET_NUMS" { MESSAGES } else { BYTES };
                self.of(&*self.delivered.get(id.parse().ok()?)?, which, Some(REQUESTS))
            }
            "CHANNEL_ACTIVITY" => match key {
                "CONNECT" => self.of(&self.connects, 0, Some(0)),
                "CLOSE" => self.of(&self.closes, 0, Some(0)),
                _ => None,
            },
            _ if key == self.cluster => match name {
                "BROKER_PUT_NUMS" => self.of(&self.puts, MESSAGES, None),
                "BROKER_GET_NUMS" => self.of(&self.gets, MESSAGES, None),
                "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC" => self.of(&self.user_puts, 0, None),
                "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC" => self.of(&self.user_gets, 0, None),
                "CONSUMER_REGISTER_TIME" => self.of(&self.consumer_registrations, 0, Some(1)),
                "PRODUCER_REGISTER_TIME" => self.of(&self.producer_registrations, 0, Some(1)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Messages a second that a topic got in the last minute.
    pub fn topic_rate(&self, topic: &TopicStats) -> f64 {
        topic.put.rate(MESSAGES, None, Window::Minute, &self.ticks).per_second
    }

    /// Messages a second that a group got from a topic in the last minute.
    pub fn group_rate(&self, group: &str, topic: &str) -> f64 {
        let rate = |read: Arc<ReadStats>| read.got.rate(MESSAGES, None, Window::Minute, &self.ticks).per_second;
        self.find_reading(group, topic).map_or(0.0, rate)
    }

    fn read_by_key(&self, key: &str) -> Option<Arc<ReadStats>> {
        let (topic, group) = key.split_once('@')?;
        self.find_reading(group, topic)
    }

    fn of<const N: usize>(&self, counter: &Counter<N>, which: usize, times: Option<usize>) -> Option<Figure> {
        let rate = |window| counter.rate(which, times, window, &self.ticks);
        counter.is_used().then(|| Figure(Window::ALL.map(rate)))
    }
}
