//! The controller that elects masters.

use std::borrow::Cow;

use crate::header;
use crate::header::now_millis;

header! {
    /// CONTROLLER_ALTER_SYNC_STATE_SET (1001): a master says who is in step; the set is the body.
    pub struct AlterSyncStateSet<'a> {
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "masterBrokerId" master_broker_id: Option<i64>,
        "masterEpoch" master_epoch: Option<i32>,
        "invokeTime" invoke_time: i64 = now_millis(),
    }
}

header! {
    /// The epoch of the new set.
    pub struct AlterSyncStateSetResponse {
        "newSyncStateSetEpoch" new_sync_state_set_epoch: i32 = 0,
    }
}

header! {
    /// CONTROLLER_ELECT_MASTER (1002).
    pub struct ElectMaster<'a> {
        required "clusterName" cluster_name: Cow<'a, str> = Cow::Borrowed(""),
        required "brokerName" broker_name: Cow<'a, str> = Cow::Borrowed(""),
        required "brokerId" broker_id: i64 = -1,
        required "designateElect" designate_elect: bool = false,
        "invokeTime" invoke_time: i64 = now_millis(),
    }
}

header! {
    /// Who is master, and since which epoch.
    pub struct ElectMasterResponse<'a> {
        "masterBrokerId" master_broker_id: Option<i64>,
        "masterAddress" master_address: Option<Cow<'a, str>>,
        "masterEpoch" master_epoch: Option<i32>,
        "syncStateSetEpoch" sync_state_set_epoch: Option<i32>,
    }
}

header! {
    /// CONTROLLER_REGISTER_BROKER (1003).
    pub struct RegisterBrokerToController<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "brokerId" broker_id: Option<i64>,
        "brokerAddress" broker_address: Option<Cow<'a, str>>,
        "invokeTime" invoke_time: i64 = 0,
    }
}

header! {
    /// Who is master of the broker's name.
    pub struct RegisterBrokerToControllerResponse<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "masterBrokerId" master_broker_id: Option<i64>,
        "masterAddress" master_address: Option<Cow<'a, str>>,
        "masterEpoch" master_epoch: Option<i32>,
        "syncStateSetEpoch" sync_state_set_epoch: Option<i32>,
    }
}

header! {
    /// CONTROLLER_GET_REPLICA_INFO (1004).
    pub struct GetReplicaInfo<'a> {
        "brokerName" broker_name: Option<Cow<'a, str>>,
    }
}

header! {
    /// Who is master; the set in step is the body.
    pub struct GetReplicaInfoResponse<'a> {
        "masterBrokerId" master_broker_id: Option<i64>,
        "masterAddress" master_address: Option<Cow<'a, str>>,
        "masterEpoch" master_epoch: Option<i32>,
    }
}

header! {
    /// CONTROLLER_GET_METADATA_INFO (1005): the controllers and their leader.
    pub struct GetMetaDataResponse<'a> {
        "group" group: Option<Cow<'a, str>>,
        "controllerLeaderId" controller_leader_id: Option<Cow<'a, str>>,
        "controllerLeaderAddress" controller_leader_address: Option<Cow<'a, str>>,
        "isLeader" is_leader: bool = false,
        "peers" peers: Option<Cow<'a, str>>,
    }
}

header! {
    /// CLEAN_BROKER_DATA (1011): forgets brokers.
    pub struct CleanControllerBrokerData<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Cow<'a, str>,
        "brokerControllerIdsToClean" broker_controller_ids_to_clean: Option<Cow<'a, str>>,
        "isCleanLivingBroker" is_clean_living_broker: bool = false,
        "invokeTime" invoke_time: i64 = now_millis(),
    }
}

header! {
    /// CONTROLLER_GET_NEXT_BROKER_ID (1012).
    pub struct GetNextBrokerId<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
    }
}

header! {
    /// The id that a new broker should apply for.
    pub struct GetNextBrokerIdResponse<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "nextBrokerId" next_broker_id: Option<i64>,
    }
}

header! {
    /// CONTROLLER_APPLY_BROKER_ID (1013).
    pub struct ApplyBrokerId<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "appliedBrokerId" applied_broker_id: Option<i64>,
        "registerCheckCode" register_check_code: Option<Cow<'a, str>>,
    }
}

header! {
    /// For whom the id now stands.
    pub struct ApplyBrokerIdResponse<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
    }
}

header! {
    /// BROKER_CLOSE_CHANNEL_REQUEST (1014), among controllers: a broker's connection is gone.
    pub struct BrokerCloseChannel<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "brokerId" broker_id: Option<i64>,
    }
}

header! {
    /// The answer to [`BrokerCloseChannel`] has no fields.
    pub struct BrokerCloseChannelResponse {}
}

header! {
    /// CHECK_NOT_ACTIVE_BROKER_REQUEST (1015), among controllers: looks for brokers that have gone silent.
    pub struct CheckNotActiveBroker {
        "checkTimeMillis" check_time_millis: i64 = now_millis(),
    }
}

header! {
    /// The answer to [`CheckNotActiveBroker`] has no fields.
    pub struct CheckNotActiveBrokerResponse {}
}

header! {
    /// GET_BROKER_LIVE_INFO_REQUEST (1016), among controllers.
    pub struct GetBrokerLiveInfo<'a> {
        "clusterName" cluster_name: Option<Cow<'a, str>>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "brokerId" broker_id: Option<i64>,
    }
}

header! {
    /// The answer to [`GetBrokerLiveInfo`] has no fields: it is the body.
    pub struct GetBrokerLiveInfoResponse {}
}

header! {
    /// GET_SYNC_STATE_DATA_REQUEST (1017), among controllers.
    pub struct GetSyncStateData {
        "invokeTime" invoke_time: i64 = now_millis(),
    }
}

header! {
    /// RAFT_BROKER_HEART_BEAT_EVENT_REQUEST (1018), among controllers: a broker's heartbeat.
    pub struct RaftBrokerHeartBeatEvent<'a> {
        "clusterNameIdentityInfo" cluster_name_identity_info: Option<Cow<'a, str>>,
        "brokerNameIdentityInfo" broker_name_identity_info: Option<Cow<'a, str>>,
        "brokerIdIdentityInfo" broker_id_identity_info: Option<i64>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "brokerAddr" broker_addr: Option<Cow<'a, str>>,
        "heartbeatTimeoutMillis" heartbeat_timeout_millis: Option<i64>,
        "brokerId" broker_id: Option<i64>,
        "lastUpdateTimestamp" last_update_timestamp: Option<i64>,
        "epoch" epoch: Option<i32>,
        "maxOffset" max_offset: Option<i64>,
        "confirmOffset" confirm_offset: Option<i64>,
        "electionPriority" election_priority: Option<i32>,
    }
}

header! {
    /// The answer to [`RaftBrokerHeartBeatEvent`] has no fields.
    pub struct RaftBrokerHeartBeatEventResponse {}
}
