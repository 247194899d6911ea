//! Producers and consumers that are connected, and requests that go to them.

use std::borrow::Cow;

use crate::header;

header! {
    /// HEART_BEAT (34): the groups and subscriptions are the body.
    pub struct Heartbeat<'a>: rpc {}
}

header! {
    /// UNREGISTER_CLIENT (35).
    pub struct UnregisterClient<'a>: rpc {
        "clientID" client_id: Cow<'a, str>,
        "producerGroup" producer_group: Option<Cow<'a, str>>,
        "consumerGroup" consumer_group: Option<Cow<'a, str>>,
    }
}

header! {
    /// The answer to [`UnregisterClient`] has no fields.
    pub struct UnregisterClientResponse {}
}

header! {
    /// GET_CONSUMER_LIST_BY_GROUP (38): the client ids of a group.
    pub struct GetConsumerListByGroup<'a>: rpc {
        "consumerGroup" consumer_group: Cow<'a, str>,
    }
}

header! {
    /// The answer to [`GetConsumerListByGroup`] has no fields: the ids are the body.
    pub struct GetConsumerListByGroupResponse {}
}

header! {
    /// NOTIFY_CONSUMER_IDS_CHANGED (40): the broker tells a consumer that its group has changed.
    pub struct NotifyConsumerIdsChanged<'a>: rpc {
        "consumerGroup" consumer_group: Cow<'a, str>,
    }
}

header! {
    /// LOCK_BATCH_MQ (41): the queues are the body.
    pub struct LockBatchMq<'a>: rpc {}
}

header! {
    /// UNLOCK_BATCH_MQ (42): the queues are the body.
    pub struct UnlockBatchMq<'a>: rpc {}
}

header! {
    /// GET_CONSUMER_CONNECTION_LIST (203).
    pub struct GetConsumerConnectionList<'a>: rpc {
        "consumerGroup" consumer_group: Cow<'a, str>,
    }
}

header! {
    /// GET_PRODUCER_CONNECTION_LIST (204).
    pub struct GetProducerConnectionList<'a>: rpc {
        "producerGroup" producer_group: Cow<'a, str>,
    }
}

header! {
    /// GET_ALL_PRODUCER_INFO (328).
    pub struct GetAllProducerInfo {}
}

header! {
    /// GET_CONSUMER_RUNNING_INFO (307): passed on to a consumer, which describes itself.
    pub struct GetConsumerRunningInfo<'a>: rpc {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "clientId" client_id: Cow<'a, str>,
        "jstackEnable" jstack_enable: bool = false,
    }
}

header! {
    /// INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), and GET_CONSUMER_STATUS_FROM_CLIENT (221) to the clients.
    pub struct GetConsumerStatus<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "group" group: Cow<'a, str>,
        "clientAddr" client_addr: Option<Cow<'a, str>>,
    }
}

header! {
    /// CONSUME_MESSAGE_DIRECTLY (309): a consumer is made to consume one message now.
    pub struct ConsumeMessageDirectlyResult<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "clientId" client_id: Option<Cow<'a, str>>,
        "msgId" msg_id: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "topic" topic: Option<Cow<'a, str>>,
        "topicSysFlag" topic_sys_flag: Option<i32>,
        "groupSysFlag" group_sys_flag: Option<i32>,
    }
}
