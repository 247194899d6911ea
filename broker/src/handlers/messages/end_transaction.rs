//! END_TRANSACTION (37): a producer commits or rolls back, unasked or because it was asked.

use std::sync::Arc;

use remoting::header;
use remoting::server::{Cx, Handler, Outcome};

use crate::transaction::Ending;

/// Ends a transaction.
pub struct EndTransaction {
    ending: Arc<Ending>,
}

impl EndTransaction {
    /// The handler.
    pub fn new(ending: Arc<Ending>) -> EndTransaction {
        EndTransaction { ending }
    }
}

impl Handler for EndTransaction {
    type Request<'a> = header::EndTransaction<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.ending.end(&request) {
            Some((code, remark)) => cx.write(code, remark.as_deref(), &header::Empty {}, &[]),
            None => Outcome::Done,
        }
    }
}
