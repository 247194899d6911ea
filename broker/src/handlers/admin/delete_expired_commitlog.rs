//! DELETE_EXPIRED_COMMITLOG (329): an administrator does not want to wait for the hour of `deleteWhen`.

use std::sync::Arc;

use remoting::Reply;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

/// Asks the store to delete log files older than `fileReservedTime`; the answer does not wait for that.
pub struct DeleteExpiredCommitlog {
    store: Arc<Store>,
}

impl DeleteExpiredCommitlog {
    /// The handler.
    pub fn new(store: Arc<Store>) -> DeleteExpiredCommitlog {
        DeleteExpiredCommitlog { store }
    }
}

impl Handler for DeleteExpiredCommitlog {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        tracing::info!(peer = %cx.conn().client(), "asked to delete expired log files");
        self.store.delete_expired_files();
        Reply::ok().into()
    }
}
