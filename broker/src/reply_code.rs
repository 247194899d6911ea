//! What clients are told of errors of the store: code and remark in Java's words.

use std::path::Path;

use config::MessageStoreConfig;
use remoting::ResponseCode;
use store::AppendError;

use crate::send::Refusal;

/// The answer to a message that the store did not take.
pub fn of_append_error(error: &AppendError, config: &MessageStoreConfig) -> Refusal {
    match error {
        AppendError::TooLarge { .. }
        | AppendError::PropertiesTooLong(_)
        | AppendError::TopicTooLong(_)
        | AppendError::NoBatch => Refusal::illegal(config.max_message_size),
        AppendError::TooManyQueues => Refusal::new(
            ResponseCode::LMQ_QUOTA_EXCEEDED,
            "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded.",
        ),
        AppendError::NoSpace(cause) => {
            tracing::error!(%cause, "cannot make a commitlog file");
            Refusal::new(ResponseCode::SYSTEM_ERROR, "create mapped file failed, server is busy or broken.")
        }
        AppendError::NotWritable(why) => {
            tracing::warn!(why, "a message was refused");
            Refusal::new(
                ResponseCode::SERVICE_NOT_AVAILABLE,
                format!(
                    "service not available now. It may be caused by one of the following reasons: the broker's disk is \
                     full [{}], messages are put to the slave, message store has been shut down, etc.",
                    disk_use(config)
                ),
            )
        }
    }
}

/// How full the disks of the store are, as the remark has it.
fn disk_use(config: &MessageStoreConfig) -> String {
    let root = Path::new(&config.store_path_root_dir);
    let log = config.store_path_commit_log.clone();
    let log = log.map_or_else(|| root.join("commitlog"), |path| path.into());
    let percent = |path: &Path| used_percent(path).unwrap_or(-1.0);
    format!(
        "CL: {:5.2} CQ: {:5.2} INDEX: {:5.2}",
        percent(&log),
        percent(&root.join("consumequeue")),
        percent(&root.join("index"))
    )
}

/// The used part (0 to 1) of the file system that holds `path`.
fn used_percent(path: &Path) -> Option<f64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let used = stat.f_blocks.checked_sub(stat.f_bfree)?;
    let total = used + stat.f_bavail;
    (total > 0).then(|| used as f64 / total as f64)
}
