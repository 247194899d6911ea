//! WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER: no new messages for a broker that is to be stopped.

use std::sync::Arc;

use remoting::Reply;
use remoting::fields::FieldError;
use remoting::header::{self, AddWritePermOfBrokerResponse, WipeWritePermOfBrokerResponse};
use remoting::server::{Cx, Handler, Outcome};

use crate::routes::Routes;

/// WIPE_WRITE_PERM_OF_BROKER.
pub struct Wipe {
    pub routes: Arc<Routes>,
}

impl Handler for Wipe {
    type Request<'a> = header::WipeWritePermOfBroker<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let topics = self.routes.wipe_write_perm(&request.broker_name);
        tracing::info!(broker = &*request.broker_name, client = %cx.conn().client(), topics, "write permission wiped");
        wiped(topics).into()
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        wiped(0)
    }
}

fn wiped(topics: usize) -> Reply {
    Reply::ok().header(&WipeWritePermOfBrokerResponse { wipe_topic_count: count(topics) })
}

/// ADD_WRITE_PERM_OF_BROKER.
pub struct Add {
    pub routes: Arc<Routes>,
}

impl Handler for Add {
    type Request<'a> = header::AddWritePermOfBroker<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let topics = self.routes.add_write_perm(&request.broker_name);
        tracing::info!(broker = &*request.broker_name, client = %cx.conn().client(), topics, "write permission added");
        added(topics).into()
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        added(0)
    }
}

fn added(topics: usize) -> Reply {
    Reply::ok().header(&AddWritePermOfBrokerResponse { add_topic_count: count(topics) })
}

fn count(topics: usize) -> i32 {
    i32::try_from(topics).unwrap_or(i32::MAX)
}
