//! What the queues of the recorded broker held, as far as the recorded answers tell.

use std::collections::BTreeMap;

use remoting::Command;
use remoting::RequestCode;
use store::record::RecordView;

use super::arrange::Queue;
use super::session::{Frame, Session};

const RETRY: &str = "%RETRY%";
const DEAD: &str = "%DLQ%";
/// The topic of messages that wait for their delay level; each level has a queue.
const SCHEDULE: &str = "SCHEDULE_TOPIC_XXXX";
/// The topic of first halves of transactions; it has one queue.
const HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// The topic of messages that wait for an arbitrary time; it has one queue.
const TIMER: &str = "rmq_sys_wheel_timer";

/// A message of a recorded queue.
#[derive(Clone, Debug)]
pub struct Known {
    /// Where the record began in the recorded commit log.
    pub physical: u64,
    flag: i32,
    sys_flag: i32,
    born: i64,
    reconsume_times: i32,
    properties: String,
    body: Vec<u8>,
    /// Seen as the broker stored it, not as a client sent it.
    stored: bool,
}

impl Known {
    fn of_record(record: &RecordView<'_>) -> Known {
        Known {
            physical: record.phys_offset().unsigned_abs(),
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            born: record.born_timestamp(),
            reconsume_times: record.reconsume_times(),
            properties: String::from_utf8_lossy(record.property_bytes()).into_owned(),
            body: record.body().to_vec(),
            stored: true,
        }
    }

    fn of_send(request: &Frame, answer: &Frame) -> Option<Known> {
        let number = |name: &str| request.field(name).parse().ok();
        Some(Known {
            physical: physical_of_id(answer.field("msgId"))?,
            flag: number("h")?,
            sys_flag: number("f")?,
            born: request.field("g").parse().ok()?,
            reconsume_times: number("j").unwrap_or_default(),
            properties: request.field("i").to_owned(),
            body: request.body.clone(),
            stored: false,
        })
    }

    /// The message alone in the form that members of a batch have.
    fn batch(&self) -> Vec<u8> {
        let (properties, mut out) = (self.properties.as_bytes(), Vec::new());
        let size = 22 + self.body.len() + properties.len();
        out.extend((size as u32).to_be_bytes());
        // Neither the magic number nor the checksum is looked at.
        out.extend([0; 8]);
        out.extend(self.flag.to_be_bytes());
        out.extend((self.body.len() as u32).to_be_bytes());
        out.extend(&self.body);
        out.extend((properties.len() as u16).to_be_bytes());
        out.extend(properties);
        out
    }

    /// The client's id of the message.
    pub fn id(&self) -> &str {
        property(&self.properties, "UNIQ_KEY").unwrap_or_default()
    }

    /// Whether the broker delivered it later than it came.
    pub fn is_late(&self) -> bool {
        is_delayed(&self.properties)
    }

    /// Whether it carries a property that would delay it once more.
    pub fn would_wait(&self) -> bool {
        property(&self.properties, "DELAY").is_some()
    }

    /// A request that puts such a message into a queue; without its delay level.
    pub fn send(&self, (topic, queue): &Queue) -> Command {
        // Members of a batch lack what the broker adds to a single message.
        if self.reconsume_times == 0 && property(&self.properties, "MSG_REGION").is_none() && self.stored {
            return send(topic, *queue, "")
                .field("sysFlag", self.sys_flag)
                .field("bornTimestamp", self.born)
                .field("flag", 0)
                .field("reconsumeTimes", 0)
                .field("batch", true)
                .body(self.batch());
        }
        let kept = self.properties.split('\u{2}').filter(|pair| !pair.is_empty() && !pair.starts_with("DELAY\u{1}"));
        let properties: String = kept.map(|pair| format!("{pair}\u{2}")).collect();
        send(topic, *queue, &properties)
            .field("sysFlag", self.sys_flag)
            .field("bornTimestamp", self.born)
            .field("flag", self.flag)
            .field("reconsumeTimes", self.reconsume_times)
            .body(self.body.clone())
    }
}

/// A request for a message whose content nobody looks at, so that a queue gets its message `number`.
pub fn filler((topic, queue): &Queue, number: u64) -> Command {
    // Nobody may write to the schedule's topic, that of halves or the timer's, and dead letters shape theirs: all get there by
    // way of another. (A half that old is given up without a question.)
    let (dead, id) = (topic.strip_prefix(DEAD), format!("UNIQ_KEY\u{1}filler-{topic}-{queue}-{number}\u{2}"));
    let command = match dead {
        _ if topic == SCHEDULE => send("BenchmarkTest", 0, &format!("DELAY\u{1}{}\u{2}{id}", queue + 1)),
        _ if topic == HALF => send("BenchmarkTest", 0, &format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}arranger\u{2}{id}")),
        _ if topic == TIMER => send("BenchmarkTest", 0, &format!("TIMER_DELAY_SEC\u{1}86400\u{2}{id}")),
        Some(group) => send(&format!("{RETRY}{group}"), 0, &id).field("maxReconsumeTimes", 0),
        None => send(topic, *queue, &id),
    };
    command
        .field("sysFlag", 0)
        .field("bornTimestamp", 0)
        .field("flag", 0)
        .field("reconsumeTimes", i32::from(dead.is_some()))
        .body("filler")
}

/// The group whose dead letters a topic holds.
pub fn dead_letters_of(topic: &str) -> Option<&str> {
    topic.strip_prefix(DEAD)
}

fn send(topic: &str, queue: i32, properties: &str) -> Command {
    Command::request(RequestCode::SEND_MESSAGE)
        .field("producerGroup", "arranger")
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("defaultTopicQueueNums", 4)
        .field("queueId", queue)
        .field("properties", properties)
}

/// A property of a message, from its wire form.
pub fn property<'a>(properties: &'a str, name: &str) -> Option<&'a str> {
    let pairs = properties.split('\u{2}').filter_map(|pair| pair.split_once('\u{1}'));
    pairs.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
}

/// Whether properties ask for a later delivery.
pub fn is_delayed(properties: &str) -> bool {
    ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_OUT_MS"]
        .iter()
        .any(|name| property(properties, name).is_some())
}

/// The queue whose offset the answer to a sent message tells.
pub fn destination(request: &Frame, answer: &Frame) -> Option<Queue> {
    let (topic, properties) = (request.field("b"), request.field("i"));
    let number = |name: &str| request.field(name).parse::<i64>().ok();
    let queue = answer.field("queueId").parse().ok()?;
    // A client writes to a retry topic by itself when it consumes in order and gives up: dead at once.
    if let Some(group) = topic.strip_prefix(RETRY) {
        return Some((format!("{DEAD}{group}"), queue));
    }
    if property(properties, "TRAN_MSG") == Some("true") {
        return Some((HALF.to_owned(), 0));
    }
    if let Some(level) = property(properties, "DELAY") {
        return Some((SCHEDULE.to_owned(), level.parse::<i32>().ok()? - 1));
    }
    let at = property(properties, "TIMER_DELIVER_MS").and_then(|at| at.parse().ok());
    let future = at.is_some_and(|at: i64| number("g").is_none_or(|born| at > born));
    if future || is_delayed(properties) {
        return Some((TIMER.to_owned(), 0));
    }
    Some((topic.to_owned(), queue))
}

/// The offset in the commit log from a message id (of several, the first).
pub fn physical_of_id(id: &str) -> Option<u64> {
    u64::from_str_radix(id.split(',').next()?.get(16..32)?, 16).ok()
}

/// Records of an answer's body; none when it is something else.
pub fn records(mut body: &[u8]) -> Vec<RecordView<'_>> {
    let mut found = Vec::new();
    while let Some(size) = body.first_chunk::<4>() {
        let Some((record, rest)) = body.split_at_checked(u32::from_be_bytes(*size) as usize) else { break };
        let Ok(view) = RecordView::parse(record) else { break };
        found.push(view);
        body = rest;
    }
    found
}

/// Known messages by queue and offset.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    queues: BTreeMap<Queue, BTreeMap<u64, Known>>,
}

impl Contents {
    /// Reads sends, and what was pulled or queried.
    pub fn of(sessions: &[Session]) -> Contents {
        let mut found = Contents::default();
        for (request, answer) in sessions.iter().flat_map(Session::exchanges) {
            match RequestCode(request.code) {
                RequestCode::SEND_MESSAGE_V2 if answer.code == 0 => {
                    let offset = answer.field("queueOffset").parse();
                    let queue = destination(request, answer).filter(|(topic, _)| topic == request.field("b"));
                    if let (Some(queue), Ok(offset), Some(known)) = (queue, offset, Known::of_send(request, answer)) {
                        found.queues.entry(queue).or_default().entry(offset).or_insert(known);
                    }
                }
                RequestCode::PULL_MESSAGE
                | RequestCode::LITE_PULL_MESSAGE
                | RequestCode::QUERY_MESSAGE
                | RequestCode::VIEW_MESSAGE_BY_ID => {
                    for record in records(&answer.body) {
                        let queue = (record.topic().to_owned(), record.queue_id());
                        let offset = record.queue_offset().unsigned_abs();
                        found.queues.entry(queue).or_default().insert(offset, Known::of_record(&record));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The message at an offset.
    pub fn get(&self, queue: &Queue, offset: u64) -> Option<&Known> {
        self.queues.get(queue)?.get(&offset)
    }

    /// Where the message with an id is.
    pub fn find(&self, id: &str) -> Option<(&Queue, u64)> {
        let mut all = self.queues.iter().flat_map(|(queue, known)| known.iter().map(move |known| (queue, known)));
        all.find(|(_, (_, known))| known.id() == id).map(|(queue, (offset, _))| (queue, *offset))
    }

    /// Whether both can be of one broker: they say the same of every place that both know.
    pub fn agrees(&self, other: &Contents) -> bool {
        let all = other.queues.iter().flat_map(|(queue, known)| known.iter().map(move |known| (queue, known)));
        all.into_iter().all(|(queue, (offset, known))| {
            self.get(queue, *offset).is_none_or(|own| own.id() == known.id() && own.physical == known.physical)
        })
    }

    /// Adds what another recording of the same broker knows.
    pub fn merge(&mut self, other: &Contents) {
        for (queue, known) in &other.queues {
            let own = self.queues.entry(queue.clone()).or_default();
            for (offset, known) in known {
                own.entry(*offset).or_insert_with(|| known.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(fields: &[(&str, &str)]) -> Frame {
        Frame {
            to_server: true,
            code: 310,
            request: String::new(),
            opaque: 1,
            flag: 0,
            remark: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Vec::new(),
            raw: Vec::new(),
            version: 0,
        }
    }

    #[test]
    fn where_a_message_goes() {
        let answer = frame(&[("queueId", "3"), ("queueOffset", "7")]);
        let to = |topic: &str, properties: &str| {
            let properties = properties.replace('=', "\u{1}").replace(';', "\u{2}");
            destination(&frame(&[("b", topic), ("g", "1000"), ("i", &properties)]), &answer)
        };
        let queue = |topic: &str, id| Some((topic.to_owned(), id));
        assert_eq!(to("T", "KEYS=k;"), queue("T", 3));
        assert_eq!(to("T", "KEYS=k;DELAY=5;"), queue(SCHEDULE, 4));
        assert_eq!(to("%RETRY%G", "DELAY=5;"), queue("%DLQ%G", 3));
        assert_eq!(to("T", "TIMER_DELIVER_MS=999;"), queue("T", 3));
        assert_eq!(to("T", "TRAN_MSG=true;"), queue(HALF, 0));
        for elsewhere in ["TIMER_DELIVER_MS=1001;", "TIMER_DELAY_SEC=1;"] {
            assert_eq!(to("T", elsewhere), queue(TIMER, 0), "{elsewhere}");
        }
    }

    #[test]
    fn an_id_tells_the_place_in_the_log() {
        assert_eq!(physical_of_id("7F000001000029D70000000000000FEB"), Some(4075));
        assert_eq!(physical_of_id("7F000001000029D70000000000000010,x"), Some(16));
        assert_eq!(physical_of_id(""), None);
    }
}
