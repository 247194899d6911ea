//! VIEW_BROKER_STATS_DATA (315): one figure of the statistics, over a minute, an hour and a day.

use std::sync::Arc;

use remoting::body::broker_stats::{BrokerStatsData, BrokerStatsItem};
use remoting::header::ViewBrokerStatsData;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::handlers::json;
use crate::stats::{Figure, Rate, Stats, Window};
use crate::topics::TopicTable;

/// Answers with the figure of a name and a key.
pub struct ViewStats {
    topics: Arc<TopicTable>,
    stats: Arc<Stats>,
}

impl ViewStats {
    /// The handler.
    pub fn new(topics: Arc<TopicTable>, stats: Arc<Stats>) -> ViewStats {
        ViewStats { topics, stats }
    }

    fn find(&self, name: &str, key: &str) -> Option<Figure> {
        self.stats.figure(name, key, |topic| self.topics.get(topic).map(|topic| topic.stats.clone()))
    }
}

impl Handler for ViewStats {
    type Request<'a> = ViewBrokerStatsData<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let ViewBrokerStatsData { stats_name, stats_key } = &request;
        let Some(figure) = self.find(stats_name, stats_key) else {
            let remark = format!("The stats <{stats_name}> <{stats_key}> not exist");
            return Reply::error(ResponseCode::SYSTEM_ERROR, remark).into();
        };
        json(&BrokerStatsData {
            stats_day: item(figure.rate(Window::Day)),
            stats_hour: item(figure.rate(Window::Hour)),
            stats_minute: item(figure.rate(Window::Minute)),
        })
        .into()
    }
}

fn item(rate: Rate) -> BrokerStatsItem {
    BrokerStatsItem {
        avgpt: if rate.times > 0 { rate.sum as f64 / rate.times as f64 } else { 0.0 },
        sum: i64::try_from(rate.sum).unwrap_or(i64::MAX),
        tps: rate.per_second,
    }
}
