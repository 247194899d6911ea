//! Tells brokers which member of their name has the least id now (NOTIFY_MIN_BROKER_ID_CHANGE, one-way).

use std::time::Duration;

use remoting::client::Client;
use remoting::header::NotifyMinBrokerIdChange;
use remoting::{Command, RequestCode};
use tokio::sync::mpsc;

use crate::routes::MinIdChange;

/// How long a broker may take to accept the connection.
const TIMEOUT: Duration = Duration::from_millis(300);
/// News that may wait; more than that is dropped and logged.
const QUEUE: usize = 1024;

/// A queue of news and the task's end of it.
pub fn queue() -> (mpsc::Sender<MinIdChange>, mpsc::Receiver<MinIdChange>) {
    mpsc::channel(QUEUE)
}

/// Sends news until the queue is closed.
pub async fn run(mut news: mpsc::Receiver<MinIdChange>, client: Client) {
    while let Some(change) = news.recv().await {
        let Some((id, addr)) = change.addrs.first_key_value() else { continue };
        let header = NotifyMinBrokerIdChange {
            min_broker_id: Some(*id),
            min_broker_addr: Some(addr.into()),
            offline_broker_addr: change.offline_addr.as_deref().map(Into::into),
            ha_broker_addr: change.ha_addr.as_deref().map(Into::into),
            ..NotifyMinBrokerIdChange::default()
        };
        for addr in audience(&change) {
            let command = Command::request(RequestCode::NOTIFY_MIN_BROKER_ID_CHANGE).header(&header);
            if let Err(error) = client.oneway(addr, command, TIMEOUT).await {
                tracing::warn!(%error, "least broker id not told");
            }
        }
    }
    client.close();
}

/// When a member left, or there is one only: all. When one came: the others.
fn audience(change: &MinIdChange) -> Vec<&str> {
    let skip = usize::from(change.offline_addr.is_none() && change.addrs.len() > 1);
    change.addrs.values().skip(skip).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_member_need_not_be_told_of_itself() {
        let addrs = [(0, "m".to_owned()), (1, "s".to_owned()), (2, "t".to_owned())];
        let mut change = MinIdChange { addrs: addrs.into(), offline_addr: None, ha_addr: None };
        assert_eq!(audience(&change), ["s", "t"]);
        change.offline_addr = Some("x".into());
        assert_eq!(audience(&change), ["m", "s", "t"]);
        let alone = MinIdChange { addrs: [(2, "t".to_owned())].into(), offline_addr: None, ha_addr: None };
        assert_eq!(audience(&alone), ["t"]);
    }
}
