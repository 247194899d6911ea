//! PUT_KV_CONFIG, GET_KV_CONFIG, DELETE_KV_CONFIG, GET_KVLIST_BY_NAMESPACE.

use std::sync::Arc;

use remoting::fields::FieldError;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::kv::KvStore;
use crate::routes::Routes;

/// PUT_KV_CONFIG.
pub struct Put {
    pub kv: Arc<KvStore>,
    pub routes: Arc<Routes>,
}

impl Handler for Put {
    type Request<'a> = header::PutKVConfig<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.kv.put(&request.namespace, &request.key, &request.value);
        self.routes.invalidate();
        Reply::ok().into()
    }

    fn bad_header(&self, error: FieldError) -> Reply {
        let remark = match error {
            FieldError::Missing("namespace" | "key") => "namespace or key is null".to_owned(),
            error => error.to_string(),
        };
        Reply::error(ResponseCode::SYSTEM_ERROR, remark)
    }
}

/// GET_KV_CONFIG.
pub struct Get {
    pub kv: Arc<KvStore>,
}

impl Handler for Get {
    type Request<'a> = header::GetKVConfig<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.kv.get(&request.namespace, &request.key) {
            Some(value) => Reply::ok().header(&header::GetKVConfigResponse { value: Some(value.into()) }).into(),
            None => no_item(&request.namespace, &request.key).into(),
        }
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        no_item("null", "null")
    }
}

fn no_item(namespace: &str, key: &str) -> Reply {
    Reply::error(ResponseCode::QUERY_NOT_FOUND, format!("No config item, Namespace: {namespace} Key: {key}"))
}

/// DELETE_KV_CONFIG; an item that there is not is deleted as well.
pub struct Delete {
    pub kv: Arc<KvStore>,
    pub routes: Arc<Routes>,
}

impl Handler for Delete {
    type Request<'a> = header::DeleteKVConfig<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.kv.delete(&request.namespace, &request.key);
        self.routes.invalidate();
        Reply::ok().into()
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        Reply::ok()
    }
}

/// GET_KVLIST_BY_NAMESPACE.
pub struct List {
    pub kv: Arc<KvStore>,
}

impl Handler for List {
    type Request<'a> = header::GetKVListByNamespace<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.kv.list(&request.namespace) {
            Some(body) => Reply::ok().body(body).into(),
            None => no_namespace(&request.namespace).into(),
        }
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        no_namespace("null")
    }
}

fn no_namespace(namespace: &str) -> Reply {
    Reply::error(ResponseCode::QUERY_NOT_FOUND, format!("No config item, Namespace: {namespace}"))
}
