//! What the replay of a session leaves for those after it.

use std::collections::{HashMap, HashSet};

use remoting::{Command, RequestCode};

use super::contents::{physical_of_id, property, records};
use super::session::Frame;

/// Where things are here that were elsewhere in the recording.
#[derive(Debug, Default)]
pub struct Memory {
    /// Offsets of the same record in the recorded and in our commit log.
    pub physical: HashMap<u64, u64>,
    /// By the recorded offset of a message in the commit log: the offset in the queue that the server told.
    pub told: HashMap<u64, String>,
    /// By the recorded handle with which a message could be recalled: ours.
    pub handles: HashMap<String, String>,
    /// Ids of the messages that the server took.
    pub accepted: HashSet<String>,
    /// Ids of messages that the harness put in without their delay level.
    pub stripped: HashSet<String>,
}

impl Memory {
    /// Learns from an answer of the server, next to the recorded one.
    pub fn learn(&mut self, request: Option<&Frame>, recorded: &Frame, got: &Command) {
        let (before, now) = (records(&recorded.body), records(&got.body));
        for (before, now) in before.iter().zip(&now) {
            // Not the same message: neither the same place.
            if before.uniq_key() == now.uniq_key() {
                self.physical.insert(before.phys_offset().unsigned_abs(), now.phys_offset().unsigned_abs());
            }
        }
        let Some(request) = request.filter(|request| RequestCode(request.code) == RequestCode::SEND_MESSAGE_V2) else {
            return;
        };
        if let (0, Some(id)) = (got.code, property(request.field("i"), "UNIQ_KEY")) {
            self.accepted.insert(id.to_owned());
        }
        if let Some(handle) = got.get("recallHandle") {
            self.handles.insert(recorded.field("recallHandle").to_owned(), handle.to_owned());
        }
        let now = got.get("msgId").and_then(physical_of_id);
        if let (Some(before), Some(now)) = (physical_of_id(recorded.field("msgId")), now) {
            self.physical.insert(before, now);
            self.told.extend(got.get("queueOffset").map(|offset| (before, offset.to_owned())));
        }
    }
}
