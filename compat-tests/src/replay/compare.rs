//! Holds a frame that the server sent against the recorded one.
//!
//! What is different by nature is folded first: addresses with the port that the server really has, times of the
//! clock, ports of clients, offsets in the commitlog, and the order of JSON members.

use std::collections::{BTreeMap, HashSet};

use remoting::Command;
use remoting::body::fastjson;
use serde_json::Value;
use store::record::RecordView;

use super::contents::records;
use super::session::Frame;

/// Addresses of the recording and of this run, to be taken as equal.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Pairs of recorded and real `host:port`.
    pub pairs: Vec<(String, String)>,
}

impl Addresses {
    /// The text with real addresses replaced by recorded ones.
    fn recorded(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (recorded, real)| text.replace(real.as_str(), recorded))
    }
}

/// One thing in which two frames differ: its name and a sentence.
#[derive(Clone, Debug)]
pub struct Difference {
    /// `code`, `remark`, `field:NAME`, `body`, `record:NAME`, `missing`, `extra`.
    pub kind: String,
    /// Recorded and received value, cut.
    pub what: String,
}

fn difference(kind: impl Into<String>, recorded: &str, got: &str) -> Difference {
    let cut = |text: &str| text.chars().take(300).collect::<String>();
    Difference { kind: kind.into(), what: format!("recorded {:?}, got {:?}", cut(recorded), cut(got)) }
}

/// All differences of a received frame from the recorded one. `stripped` are ids of messages that were put in without
/// their delay level.
pub fn compare(recorded: &Frame, got: &Command, addresses: &Addresses, stripped: &HashSet<String>) -> Vec<Difference> {
    let mut found = Vec::new();
    if recorded.code != got.code {
        let with_remark = format!("{} {:?}", got.code, got.remark);
        // The rest of the frame follows from the code.
        return vec![difference("code", &recorded.code.to_string(), &with_remark)];
    }
    if recorded.flag != got.flag {
        found.push(difference("flag", &recorded.flag.to_string(), &got.flag.to_string()));
    }
    let remark = |text: Option<&str>| fold_remark(&addresses.recorded(text.unwrap_or_default()));
    let (before, now) = (remark(recorded.remark.as_deref()), remark(got.remark.as_deref()));
    if before != now {
        found.push(difference("remark", &before, &now));
    }
    let fields: BTreeMap<&str, &str> = got.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in &recorded.fields {
        match fields.get(name.as_str()) {
            None => found.push(difference(format!("field:{name}"), value, "(none)")),
            Some(now) => {
                let (value, now) = (fold_field(name, value), fold_field(name, &addresses.recorded(now)));
                if value != now {
                    found.push(difference(format!("field:{name}"), &value, &now));
                }
            }
        }
    }
    for (name, value) in &fields {
        if !recorded.fields.contains_key(*name) {
            found.push(difference(format!("field:{name}"), "(none)", value));
        }
    }
    found.extend(compare_bodies(recorded, &got.body, addresses, stripped));
    found
}

/// Remarks carry times and addresses of clients.
fn fold_remark(text: &str) -> String {
    // Java appends where an exception was thrown: its classes are not ours.
    let text = text.split(", org.apache").next().unwrap_or_default();
    fold_digits(text, 5)
}

/// Every run of at least so many digits becomes `#`.
fn fold_digits(text: &str, least: usize) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out.push_str(if digits.len() >= least { "#" } else { &digits });
        digits.clear();
        out.push(c);
    }
    out.pop();
    out
}

/// Fields that carry an offset in the commitlog or a time.
fn fold_field(name: &str, value: &str) -> String {
    match name {
        // Address and port in hexadecimal, then the offset: only the shape is the server's promise.
        "msgId" | "offsetMsgId" => {
            value.split(',').map(|id| format!("{}-{}", &id[..id.len().min(8)], id.len())).collect()
        }
        "indexLastUpdateTimestamp"
        | "indexLastUpdatePhyoffset"
        | "timestamp"
        | "recallHandle"
        | "popTime"
        | "storeTimestamp"
        | "commitLogOffset" => "#".into(),
        "bornHost" => host(value).to_owned(),
        // Of the settings: when the broker started.
        "version" => fold_digits(value, 5),
        "properties" => {
            let pairs = value.split('\u{2}').filter_map(|pair| pair.split_once('\u{1}'));
            fold_properties(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
        }
        _ => value.to_owned(),
    }
}

fn compare_bodies(recorded: &Frame, got: &[u8], addresses: &Addresses, stripped: &HashSet<String>) -> Vec<Difference> {
    if recorded.body.is_empty() || got.is_empty() {
        let same = recorded.body.is_empty() == got.is_empty();
        let size =
            |body: &[u8]| format!("{} bytes {}", body.len(), String::from_utf8_lossy(&body[..body.len().min(120)]));
        return if same { vec![] } else { vec![difference("body", &size(&recorded.body), &size(got))] };
    }
    if let (Some(before), Some(now)) = (messages(&recorded.body, stripped), messages(got, stripped)) {
        return compare_records(&before, &now);
    }
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    let (before, now) = (text(&recorded.body), addresses.recorded(&text(got)));
    if recorded.request.ends_with("_CONFIG") && !before.starts_with('{') {
        return compare_settings(&before, &now);
    }
    match (fastjson::from_slice::<Value>(before.as_bytes()), fastjson::from_slice::<Value>(now.as_bytes())) {
        (Ok(mut first), Ok(mut second)) => {
            fold_json(&mut first);
            fold_json(&mut second);
            if recorded.request == "GET_BROKER_RUNTIME_INFO" {
                (first, second) = (keys(&first), keys(&second));
            }
            if first == second { vec![] } else { vec![difference("body", &first.to_string(), &second.to_string())] }
        }
        _ if before == now => vec![],
        _ => vec![difference("body", &before, &now)],
    }
}

/// Settings that say where a server is, what machine it is on, or how the recording and this run are set up.
const SURROUNDINGS: [&str; 21] = [
    "bindAddress",
    "brokerConfigPath",
    "brokerIP1",
    "brokerIP2",
    "configStorePath",
    "deleteWhen",
    "endTransactionThreadPoolNums",
    "fileReservedTime",
    "haListenPort",
    "kvConfigPath",
    "listenPort",
    "namesrvAddr",
    "rocketmqHome",
    "sendMessageThreadPoolNums",
    "serverWorkerThreads",
    "storePathCommitLog",
    "storePathConsumeQueue",
    "storePathDLedgerCommitLog",
    "storePathIndex",
    "storePathRootDir",
    "waitTimeMillsInSendQueue",
];

/// `key=value` lines.
fn compare_settings(before: &str, now: &str) -> Vec<Difference> {
    let lines = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs
            .filter(|(key, _)| !SURROUNDINGS.contains(key))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let (before, now) = (lines(before), lines(now));
    let names: HashSet<&String> = before.keys().chain(now.keys()).collect();
    let value = |lines: &BTreeMap<String, String>, name| lines.get(name).map_or("(none)", String::as_str).to_owned();
    let mut found: Vec<Difference> = names
        .into_iter()
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| difference(format!("setting:{name}"), &value(&before, name), &value(&now, name)))
        .collect();
    found.sort_by(|a, b| a.kind.cmp(&b.kind));
    found
}

/// The names of a table's entries; directories in them are this run's.
fn keys(table: &Value) -> Value {
    let names = table["table"].as_object().into_iter().flat_map(|table| table.keys());
    names.map(|name| Value::from(name.split_once("Ratio_").map_or(name.as_str(), |(head, _)| head))).collect()
}

/// An address without its port.
fn host(addr: &str) -> &str {
    addr.rsplit_once(':').map_or(addr, |(host, _)| host)
}

/// Times, and lists whose order is that of a hash table.
fn fold_json(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|n| n > 1_000_000_000_000) => {
            *value = Value::from("#time")
        }
        Value::Array(items) => {
            items.iter_mut().for_each(fold_json);
            items.sort_by_key(Value::to_string);
        }
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match (name.as_str(), &value) {
                    // Depends on the moment; the client's port.
                    ("consumeTps" | "topicPutTps" | "avgpt" | "sum" | "tps" | "delayTime", _) => {
                        *value = Value::from("#")
                    }
                    ("masterCommitLogMaxOffset" | "physicOffset", _) => *value = Value::from("#"),
                    (name, Value::String(_)) if name.ends_with("TimeStampStr") => *value = Value::from("#"),
                    ("clientAddr" | "remoteIP", Value::String(addr)) => *value = Value::from(host(addr)),
                    _ => fold_json(value),
                }
            }
            members.sort_keys();
        }
        _ => {}
    }
}

/// A message as far as both sides must agree.
#[derive(Debug, PartialEq)]
struct Message {
    values: BTreeMap<&'static str, String>,
}

/// The messages of a body that holds nothing but records.
fn messages(body: &[u8], stripped: &HashSet<String>) -> Option<Vec<Message>> {
    let found = records(body);
    let whole = found.iter().map(RecordView::size).sum::<usize>() == body.len();
    whole.then(|| found.iter().map(|record| message(record, stripped)).collect())
}

/// Properties whose values are times or offsets of the server.
const VARYING: [&str; 10] = [
    "CONSUME_START_TIME",
    "ARRIVE_TIME",
    "PUSH_REPLY_TIME",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "ORIGIN_MESSAGE_ID",
    "POP_CK",
    "TIMER_DELIVER_MS",
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
];
/// What a delay level leaves in a message.
const DELAYED: [&str; 3] = ["DELAY", "REAL_TOPIC", "REAL_QID"];

fn message(record: &RecordView<'_>, stripped: &HashSet<String>) -> Message {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let bare = record.uniq_key().is_some_and(|id| stripped.contains(id));
    let properties = record
        .properties()
        .filter(|(name, _)| !bare || !DELAYED.iter().any(|delayed| delayed.as_bytes() == *name))
        .map(|(name, value)| (text(name), text(value)));
    let values = BTreeMap::from([
        ("topic", record.topic().to_owned()),
        ("queueId", record.queue_id().to_string()),
        ("queueOffset", record.queue_offset().to_string()),
        ("flag", record.flag().to_string()),
        ("sysFlag", record.sys_flag().to_string()),
        ("reconsumeTimes", record.reconsume_times().to_string()),
        ("properties", fold_properties(properties)),
        ("body", text(record.body())),
    ]);
    Message { values }
}

/// Properties in the order of their names, with what varies folded.
fn fold_properties(properties: impl Iterator<Item = (String, String)>) -> String {
    let fold = |(name, value): (String, String)| {
        if VARYING.contains(&name.as_str()) { format!("{name}=#") } else { format!("{name}={value}") }
    };
    let mut folded: Vec<String> = properties.map(fold).collect();
    folded.sort();
    folded.join(" ")
}

fn compare_records(before: &[Message], now: &[Message]) -> Vec<Difference> {
    if before.len() != now.len() {
        return vec![difference("records", &before.len().to_string(), &now.len().to_string())];
    }
    let mut found = Vec::new();
    for (first, second) in before.iter().zip(now) {
        for (name, value) in &first.values {
            if second.values[name] != *value {
                found.push(difference(format!("record:{name}"), value, &second.values[name]));
            }
        }
    }
    found
}
