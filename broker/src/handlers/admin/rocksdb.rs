//! Questions about RocksDB to a broker that keeps everything in files: CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354),
//! EXPORT_ROCKSDB_CONFIG_TO_JSON (355). Java's broker without RocksDB answers the same.

use remoting::header::{CheckRocksdbCqWriteProgress, ExportRocksDBConfigToJson};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

/// Starts a comparison of nothing: the answer is that it is under way, the result would stand in the log.
pub struct CheckQueues;

impl Handler for CheckQueues {
    type Request<'a> = CheckRocksdbCqWriteProgress<'a>;

    fn handle(&self, _: &mut Cx<'_>, _: Self::Request<'_>) -> Outcome {
        tracing::info!("consume queues are in files only: there is nothing to compare");
        Reply::ok().remark("not set any response code").body(&br#"{"checkStatus":2}"#[..]).into()
    }
}

/// Exports nothing: the tables are JSON files anyway.
pub struct ExportSettings;

impl Handler for ExportSettings {
    type Request<'a> = ExportRocksDBConfigToJson<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        const KINDS: [&str; 3] = ["topics", "subscriptionGroups", "consumerOffsets"];
        let mut asked = request.config_type.split(';').filter(|kind| !kind.is_empty());
        match asked.find(|kind| !KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind))) {
            None => Reply::ok().remark("export done.").into(),
            Some(kind) => Reply::error(ResponseCode::SYSTEM_ERROR, format!("Unknown config type: {kind}")).into(),
        }
    }
}
