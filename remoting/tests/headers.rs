//! Every header and every code of Java 5.5.0 against ours, both ways.
//!
//! `data/headers.json`, `data/request-codes.json` and `data/response-codes.json` were read from Java's classes by
//! reflection. A header's `required` is Java's annotation, `default` what a new object has in the field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use remoting::header::{self, FieldSpec, Header};
use remoting::{FieldError, Request, RequestCode, ResponseCode, SerializeType};
use serde_json::Value;

macro_rules! declared {
    ($($name:ident => $java:literal,)*) => {
        fn declared() -> Vec<(&'static str, &'static str, &'static [FieldSpec])> {
            vec![$((stringify!($name), $java, <header::$name as Header<'_>>::FIELDS),)*]
        }
    };
}

declared! {
    AckMessage => "AckMessageRequestHeader",
    AddBroker => "AddBrokerRequestHeader",
    AddWritePermOfBroker => "AddWritePermOfBrokerRequestHeader",
    AddWritePermOfBrokerResponse => "AddWritePermOfBrokerResponseHeader",
    AlterSyncStateSet => "AlterSyncStateSetRequestHeader",
    AlterSyncStateSetResponse => "AlterSyncStateSetResponseHeader",
    ApplyBrokerId => "ApplyBrokerIdRequestHeader",
    ApplyBrokerIdResponse => "ApplyBrokerIdResponseHeader",
    BrokerCloseChannel => "BrokerCloseChannelRequest",
    BrokerCloseChannelResponse => "BrokerCloseChannelResponse",
    BrokerHeartbeat => "BrokerHeartbeatRequestHeader",
    ChangeInvisibleTime => "ChangeInvisibleTimeRequestHeader",
    ChangeInvisibleTimeResponse => "ChangeInvisibleTimeResponseHeader",
    CheckNotActiveBroker => "CheckNotActiveBrokerRequest",
    CheckNotActiveBrokerResponse => "CheckNotActiveBrokerResponse",
    CheckRocksdbCqWriteProgress => "CheckRocksdbCqWriteProgressRequestHeader",
    CheckTransactionState => "CheckTransactionStateRequestHeader",
    CheckTransactionStateResponse => "CheckTransactionStateResponseHeader",
    CleanControllerBrokerData => "CleanControllerBrokerDataRequestHeader",
    CloneGroupOffset => "CloneGroupOffsetRequestHeader",
    ConsumeMessageDirectlyResult => "ConsumeMessageDirectlyResultRequestHeader",
    ConsumerSendMsgBack => "ConsumerSendMsgBackRequestHeader",
    CreateAcl => "CreateAclRequestHeader",
    CreateTopic => "CreateTopicRequestHeader",
    CreateTopicList => "CreateTopicListRequestHeader",
    CreateUser => "CreateUserRequestHeader",
    DeleteAcl => "DeleteAclRequestHeader",
    DeleteKVConfig => "DeleteKVConfigRequestHeader",
    DeleteSubscriptionGroup => "DeleteSubscriptionGroupRequestHeader",
    DeleteTopic => "DeleteTopicRequestHeader",
    DeleteTopicFromNamesrv => "DeleteTopicFromNamesrvRequestHeader",
    DeleteUser => "DeleteUserRequestHeader",
    ElectMaster => "ElectMasterRequestHeader",
    ElectMasterResponse => "ElectMasterResponseHeader",
    EndTransaction => "EndTransactionRequestHeader",
    EndTransactionResponse => "EndTransactionResponseHeader",
    ExchangeHAInfo => "ExchangeHAInfoRequestHeader",
    ExchangeHAInfoResponse => "ExchangeHAInfoResponseHeader",
    ExportRocksDBConfigToJson => "ExportRocksDBConfigToJsonRequestHeader",
    GetAcl => "GetAclRequestHeader",
    GetAllProducerInfo => "GetAllProducerInfoRequestHeader",
    GetAllSubscriptionGroup => "GetAllSubscriptionGroupRequestHeader",
    GetAllSubscriptionGroupResponse => "GetAllSubscriptionGroupResponseHeader",
    GetAllTopicConfig => "GetAllTopicConfigRequestHeader",
    GetAllTopicConfigResponse => "GetAllTopicConfigResponseHeader",
    GetBrokerConfigResponse => "GetBrokerConfigResponseHeader",
    GetBrokerLiveInfo => "GetBrokerLiveInfoRequest",
    GetBrokerLiveInfoResponse => "GetBrokerLiveInfoResponse",
    GetBrokerMemberGroup => "GetBrokerMemberGroupRequestHeader",
    GetConsumeStats => "GetConsumeStatsRequestHeader",
    GetConsumeStatsInBroker => "GetConsumeStatsInBrokerHeader",
    GetConsumerConnectionList => "GetConsumerConnectionListRequestHeader",
    GetConsumerListByGroup => "GetConsumerListByGroupRequestHeader",
    GetConsumerListByGroupResponse => "GetConsumerListByGroupResponseHeader",
    GetConsumerRunningInfo => "GetConsumerRunningInfoRequestHeader",
    GetConsumerStatus => "GetConsumerStatusRequestHeader",
    GetEarliestMsgStoretime => "GetEarliestMsgStoretimeRequestHeader",
    GetEarliestMsgStoretimeResponse => "GetEarliestMsgStoretimeResponseHeader",
    GetKVConfig => "GetKVConfigRequestHeader",
    GetKVConfigResponse => "GetKVConfigResponseHeader",
    GetKVListByNamespace => "GetKVListByNamespaceRequestHeader",
    GetLiteClientInfo => "GetLiteClientInfoRequestHeader",
    GetLiteGroupInfo => "GetLiteGroupInfoRequestHeader",
    GetLiteTopicInfo => "GetLiteTopicInfoRequestHeader",
    GetMaxOffset => "GetMaxOffsetRequestHeader",
    GetMaxOffsetResponse => "GetMaxOffsetResponseHeader",
    GetMetaDataResponse => "GetMetaDataResponseHeader",
    GetMinOffset => "GetMinOffsetRequestHeader",
    GetMinOffsetResponse => "GetMinOffsetResponseHeader",
    GetNextBrokerId => "GetNextBrokerIdRequestHeader",
    GetNextBrokerIdResponse => "GetNextBrokerIdResponseHeader",
    GetParentTopicInfo => "GetParentTopicInfoRequestHeader",
    GetProducerConnectionList => "GetProducerConnectionListRequestHeader",
    GetReplicaInfo => "GetReplicaInfoRequestHeader",
    GetReplicaInfoResponse => "GetReplicaInfoResponseHeader",
    GetRouteInfo => "GetRouteInfoRequestHeader",
    GetSubscriptionGroupConfig => "GetSubscriptionGroupConfigRequestHeader",
    GetSyncStateData => "GetSyncStateDataRequest",
    GetTopicConfig => "GetTopicConfigRequestHeader",
    GetTopicStatsInfo => "GetTopicStatsInfoRequestHeader",
    GetTopicsByCluster => "GetTopicsByClusterRequestHeader",
    GetUser => "GetUserRequestHeader",
    Heartbeat => "HeartbeatRequestHeader",
    InitConsumerOffset => "InitConsumerOffsetRequestHeader",
    ListAcls => "ListAclsRequestHeader",
    ListUsers => "ListUsersRequestHeader",
    LiteSubscriptionCtl => "LiteSubscriptionCtlRequestHeader",
    LockBatchMq => "LockBatchMqRequestHeader",
    Notification => "NotificationRequestHeader",
    NotificationResponse => "NotificationResponseHeader",
    NotifyBrokerRoleChanged => "NotifyBrokerRoleChangedRequestHeader",
    NotifyConsumerIdsChanged => "NotifyConsumerIdsChangedRequestHeader",
    NotifyMinBrokerIdChange => "NotifyMinBrokerIdChangeRequestHeader",
    NotifyUnsubscribeLite => "NotifyUnsubscribeLiteRequestHeader",
    PeekMessage => "PeekMessageRequestHeader",
    PollingInfo => "PollingInfoRequestHeader",
    PollingInfoResponse => "PollingInfoResponseHeader",
    PopLiteMessage => "PopLiteMessageRequestHeader",
    PopLiteMessageResponse => "PopLiteMessageResponseHeader",
    PopMessage => "PopMessageRequestHeader",
    PopMessageResponse => "PopMessageResponseHeader",
    PullMessage => "PullMessageRequestHeader",
    PullMessageResponse => "PullMessageResponseHeader",
    PutKVConfig => "PutKVConfigRequestHeader",
    QueryConsumeQueue => "QueryConsumeQueueRequestHeader",
    QueryConsumeTimeSpan => "QueryConsumeTimeSpanRequestHeader",
    QueryConsumerOffset => "QueryConsumerOffsetRequestHeader",
    QueryConsumerOffsetResponse => "QueryConsumerOffsetResponseHeader",
    QueryCorrectionOffset => "QueryCorrectionOffsetHeader",
    QueryDataVersion => "QueryDataVersionRequestHeader",
    QueryDataVersionResponse => "QueryDataVersionResponseHeader",
    QueryMessage => "QueryMessageRequestHeader",
    QueryMessageResponse => "QueryMessageResponseHeader",
    QuerySubscriptionByConsumer => "QuerySubscriptionByConsumerRequestHeader",
    QueryTopicConsumeByWho => "QueryTopicConsumeByWhoRequestHeader",
    QueryTopicsByConsumer => "QueryTopicsByConsumerRequestHeader",
    RaftBrokerHeartBeatEvent => "RaftBrokerHeartBeatEventRequest",
    RaftBrokerHeartBeatEventResponse => "RaftBrokerHeartBeatEventResponse",
    RecallMessage => "RecallMessageRequestHeader",
    RecallMessageResponse => "RecallMessageResponseHeader",
    RegisterBroker => "RegisterBrokerRequestHeader",
    RegisterBrokerResponse => "RegisterBrokerResponseHeader",
    RegisterBrokerToController => "RegisterBrokerToControllerRequestHeader",
    RegisterBrokerToControllerResponse => "RegisterBrokerToControllerResponseHeader",
    RegisterOrderTopic => "RegisterOrderTopicRequestHeader",
    RegisterTopic => "RegisterTopicRequestHeader",
    RemoveBroker => "RemoveBrokerRequestHeader",
    ReplyMessage => "ReplyMessageRequestHeader",
    ResetMasterFlushOffset => "ResetMasterFlushOffsetHeader",
    ResetOffset => "ResetOffsetRequestHeader",
    ResumeCheckHalfMessage => "ResumeCheckHalfMessageRequestHeader",
    RpcRequest => "RpcRequestHeader",
    SearchOffset => "SearchOffsetRequestHeader",
    SearchOffsetResponse => "SearchOffsetResponseHeader",
    SendMessage => "SendMessageRequestHeader",
    SendMessageResponse => "SendMessageResponseHeader",
    SendMessageV2 => "SendMessageRequestHeaderV2",
    StatisticsMessages => "StatisticsMessagesRequestHeader",
    TopicQueueRequest => "TopicQueueRequestHeader",
    TopicRequest => "TopicRequestHeader",
    TriggerLiteDispatch => "TriggerLiteDispatchRequestHeader",
    UnRegisterBroker => "UnRegisterBrokerRequestHeader",
    UnlockBatchMq => "UnlockBatchMqRequestHeader",
    UnregisterClient => "UnregisterClientRequestHeader",
    UnregisterClientResponse => "UnregisterClientResponseHeader",
    UpdateAcl => "UpdateAclRequestHeader",
    UpdateConsumerOffset => "UpdateConsumerOffsetRequestHeader",
    UpdateConsumerOffsetResponse => "UpdateConsumerOffsetResponseHeader",
    UpdateGroupForbidden => "UpdateGroupForbiddenRequestHeader",
    UpdateUser => "UpdateUserRequestHeader",
    ViewBrokerStatsData => "ViewBrokerStatsDataRequestHeader",
    ViewMessage => "ViewMessageRequestHeader",
    ViewMessageResponse => "ViewMessageResponseHeader",
    WipeWritePermOfBroker => "WipeWritePermOfBrokerRequestHeader",
    WipeWritePermOfBrokerResponse => "WipeWritePermOfBrokerResponseHeader",
}

type Field = (String, String, bool, bool);

fn java_fields(header: &Value) -> BTreeSet<Field> {
    let fields = header["fields"].as_array().expect("fields");
    let field = |field: &Value| {
        let java_type = match field["type"].as_str().expect("type") {
            "int" => "Integer",
            "long" => "Long",
            "boolean" => "Boolean",
            other => other,
        };
        let name = field["name"].as_str().expect("name");
        let required = field["required"].as_bool().expect("required");
        (name.to_owned(), java_type.to_owned(), required, field.get("default").is_some())
    };
    let set: BTreeSet<_> = fields.iter().map(field).collect();
    assert_eq!(set.len(), fields.len(), "a name twice");
    set
}

fn our_fields(specs: &[FieldSpec]) -> BTreeSet<Field> {
    let field = |spec: &FieldSpec| (spec.name.to_owned(), spec.java_type.to_owned(), spec.required, spec.default);
    let set: BTreeSet<_> = specs.iter().map(field).collect();
    assert_eq!(set.len(), specs.len(), "a name twice");
    set
}

#[test]
fn every_header_has_javas_fields() {
    let java: Value = serde_json::from_str(include_str!("data/headers.json")).expect("headers.json");
    let java = java.as_object().expect("an object");
    let ours: BTreeMap<_, _> = declared().into_iter().map(|(_, java, specs)| (java, specs)).collect();

    let java_names: BTreeSet<_> = java.keys().map(String::as_str).collect();
    let our_names: BTreeSet<_> = ours.keys().copied().collect();
    assert_eq!(java_names.symmetric_difference(&our_names).collect::<Vec<_>>(), Vec::<&&str>::new());

    for (name, header) in java {
        let (theirs, ours) = (java_fields(header), our_fields(ours[name.as_str()]));
        let difference: Vec<_> = theirs.symmetric_difference(&ours).collect();
        assert!(difference.is_empty(), "{name} (name, type, required, default): {difference:#?}");
    }
}

/// A header that is declared but not in the table above would go unseen.
#[test]
fn every_declared_header_is_compared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/header");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("src/header") {
        let path = entry.expect("an entry").path();
        if path.ends_with("mod.rs") || path.ends_with("macros.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        let mut inside = false;
        for line in text.lines() {
            inside = (inside || line.starts_with("header! {")) && line != "}";
            if let Some(rest) = line.trim_start().strip_prefix("pub struct ").filter(|_| inside) {
                let name = rest.split(|c: char| !c.is_alphanumeric()).next().expect("a name");
                assert!(found.insert(name.to_owned()), "{name} is declared twice");
            }
        }
    }
    let compared: BTreeSet<_> = declared().into_iter().map(|(name, _, _)| name.to_owned()).collect();
    assert_eq!(found, compared);
}

fn codes(text: &str) -> BTreeMap<String, i32> {
    serde_json::from_str(text).expect("a table of codes")
}

#[test]
fn every_request_code_is_javas() {
    let ours: BTreeMap<_, _> = RequestCode::ALL.iter().map(|(code, name)| ((*name).to_owned(), code.0)).collect();
    assert_eq!(ours, codes(include_str!("data/request-codes.json")));
}

#[test]
fn every_response_code_is_javas() {
    let ours: BTreeMap<_, _> = ResponseCode::ALL.iter().map(|(code, name)| ((*name).to_owned(), code.0)).collect();
    assert_eq!(ours, codes(include_str!("data/response-codes.json")));
}

fn read<T>(header: &str, read: impl FnOnce(&Request<'_>) -> Result<T, FieldError>) -> Result<T, FieldError> {
    let request = Request::decode(SerializeType::Json, header.as_bytes(), &[]).expect("a header");
    read(&request)
}

#[test]
fn b_03_missing_and_wrong_fields() {
    let max_offset = |header: &str| read(header, |request| header::GetMaxOffset::read(&request.fields).map(drop));
    let wrong = [
        (r#"{"code":30,"opaque":1}"#, "the custom field <topic> is null"),
        (r#"{"code":30,"extFields":null}"#, "the custom field <topic> is null"),
        (r#"{"code":30,"extFields":{"topic":"T"}}"#, "the custom field <queueId> is null"),
        (r#"{"code":30,"extFields":{"topic":"T","queueId":null}}"#, "the custom field <queueId> is null"),
        (r#"{"code":30,"extFields":{"topic":"T","queueId":"abc"}}"#, "the field <queueId> is not Integer: \"abc\""),
        (r#"{"code":30,"extFields":{"topic":"T","queueId":""}}"#, "the field <queueId> is not Integer: \"\""),
        (
            r#"{"code":30,"extFields":{"topic":"T","queueId":2147483648}}"#,
            "the field <queueId> is not Integer: \"2147483648\"",
        ),
    ];
    for (header, remark) in wrong {
        assert_eq!(max_offset(header).expect_err(header).to_string(), remark, "{header}");
    }
    max_offset(r#"{"code":30,"extFields":{"topic":"T","queueId":"0"}}"#).expect("a right one");

    let send = r#"{"code":10,"extFields":{"producerGroup":"G","defaultTopic":"TBW102"}}"#;
    let error = read(send, |request| header::SendMessage::read(&request.fields).map(drop)).expect_err("no topic");
    assert_eq!(error, FieldError::Missing("topic"));
}

#[test]
fn both_headers_of_a_send_say_the_same() {
    let long = r#"{"extFields":{"producerGroup":"G","topic":"T","defaultTopic":"D","defaultTopicQueueNums":"4","queueId":"1",
        "sysFlag":"2","bornTimestamp":"3","flag":"5","properties":"a\u0001b\u0002","reconsumeTimes":"6","unitMode":"true",
        "maxReconsumeTimes":"7","batch":"true","bname":"B"}}"#;
    let short = r#"{"extFields":{"a":"G","b":"T","c":"D","d":"4","e":"1","f":"2","g":"3","h":"5","i":"a\u0001b\u0002","j":"6",
        "k":"true","l":"7","m":"true","n":"B"}}"#;
    let long = Request::decode(SerializeType::Json, long.as_bytes(), &[]).expect("a header");
    let short = Request::decode(SerializeType::Json, short.as_bytes(), &[]).expect("a header");
    let long = header::SendRequest::from(header::SendMessage::read(&long.fields).expect("a long header"));
    let short = header::SendRequest::from(header::SendMessageV2::read(&short.fields).expect("a short header"));
    assert_eq!(long, short);
    assert_eq!((&*long.topic, long.born_timestamp, long.batch), ("T", 3, true));
    assert_eq!(long.properties.expect("properties").to_cow(), "a\u{1}b\u{2}");
    assert_eq!(long.broker_name.as_deref(), Some("B"));
}

/// Headers written by us are read again as they were, whatever their fields.
#[test]
fn written_and_read_again() {
    let sent = header::SendMessageResponse {
        msg_id: "0A0B".into(),
        queue_id: -1,
        queue_offset: i64::MIN,
        transaction_id: Some("\u{1}\"\\".into()),
        ..Default::default()
    };
    let search = header::SearchOffset {
        topic: "T".into(),
        timestamp: i64::MAX,
        boundary_type: Some(remoting::BoundaryType::Upper),
        lo: Some(false),
        ..Default::default()
    };
    for serialize in [SerializeType::Json, SerializeType::RocketMq] {
        let mut frame = Vec::new();
        remoting::reply::encode(&mut frame, serialize, 7, 0, None, &sent, |_| {});
        assert_eq!(request(&frame, |request| header::SendMessageResponse::read(&request.fields)).as_ref(), Ok(&sent));
        frame.clear();
        remoting::Command::request(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP)
            .header(&search)
            .encode(serialize, &mut frame);
        assert_eq!(request(&frame, |request| header::SearchOffset::read(&request.fields)).as_ref(), Ok(&search));
    }
}

fn request<'a, T>(frame: &'a [u8], read: impl FnOnce(&Request<'a>) -> T) -> T {
    use remoting::frame::{DEFAULT_MAX_FRAME, Split, split};
    match split(frame, DEFAULT_MAX_FRAME) {
        Ok(Split::Frame { header, serialize, body, .. }) => {
            read(&Request::decode(serialize, header, body).expect("a header"))
        }
        other => panic!("{other:?}"),
    }
}
