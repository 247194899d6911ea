//! How groups take the messages of a topic: by pulling or by pop. The table is `config/messageRequestMode.json`.

use std::path::Path;

use parking_lot::RwLock;
use remoting::body::fastjson;
use remoting::body::request_mode::{MessageRequestMode, MessageRequestModes};
use store::StoreError;

use crate::config_file::{ConfigFile, encode, off_worker};

/// What an administrator has set; without an entry `defaultMessageRequestMode` counts.
pub struct RequestModes {
    table: RwLock<MessageRequestModes>,
    file: ConfigFile,
}

impl RequestModes {
    /// Loads the table from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(dir: &Path) -> Result<RequestModes, StoreError> {
        let file = ConfigFile::new(dir.join("messageRequestMode.json"));
        let table = file.load(|bytes| fastjson::from_slice(bytes).map_err(|error| error.to_string()))?;
        Ok(RequestModes { table: RwLock::new(table.unwrap_or_default()), file })
    }

    /// The mode of a group for a topic, when one was set.
    pub fn get(&self, topic: &str, group: &str) -> Option<MessageRequestMode> {
        self.table.read().message_request_mode_map.get(topic)?.get(group).cloned()
    }

    /// Sets the mode of a group for a topic, and saves.
    ///
    /// # Errors
    /// The disk; the mode is set until the next restart.
    pub fn set(&self, topic: &str, group: &str, mode: MessageRequestMode) -> Result<(), StoreError> {
        self.table.write().message_request_mode_map.entry(topic.to_owned()).or_default().insert(group.to_owned(), mode);
        self.persist()
    }

    /// Becomes a copy of the table of the master that this broker copies, and saves it.
    ///
    /// # Errors
    /// The disk; the modes are set until the next restart.
    pub fn take_over(&self, of_master: MessageRequestModes) -> Result<(), StoreError> {
        {
            let mut table = self.table.write();
            if *table == of_master {
                return Ok(());
            }
            *table = of_master;
        }
        self.persist()
    }

    /// The table as JSON on one line: the answer to GET_ALL_MESSAGE_REQUEST_MODE.
    pub fn encode(&self) -> Vec<u8> {
        encode(&*self.table.read(), false)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The disk.
    pub fn persist(&self) -> Result<(), StoreError> {
        let text = encode(&*self.table.read(), true);
        off_worker(|| self.file.save(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoting::body::request_mode::RequestMode;

    #[test]
    fn modes_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let modes = RequestModes::load(dir.path()).unwrap();
        assert_eq!(modes.encode(), br#"{"messageRequestModeMap":{}}"#);
        let mode = MessageRequestMode { mode: Some(RequestMode::Pop), pop_share_queue_num: 2, ..Default::default() };
        modes.set("T", "G", mode.clone()).unwrap();
        let again = RequestModes::load(dir.path()).unwrap();
        assert_eq!((again.get("T", "G"), again.get("T", "H")), (Some(mode), None));
    }
}
