//! The fields that many requests share: `header!` adds them for `: rpc` and `: topic`.

use crate::header;

header! {
    /// What a request may carry when a proxy or another broker passes it on: namespace `ns`, whether names come with it
    /// (`nsd`), the broker that a static topic maps the queue to (`bname`), one-way (`oway`).
    pub struct RpcRequest<'a>: rpc {}
}

header! {
    /// As [`RpcRequest`], and `lo`: whether the queue id is the logical one of a static topic.
    pub struct TopicRequest<'a>: topic {}
}

header! {
    /// As [`TopicRequest`], for requests about one queue.
    pub struct TopicQueueRequest<'a>: topic {}
}
