//! The answer to VIEW_BROKER_STATS_DATA (315).

use serde::{Deserialize, Serialize};

/// One figure over three windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsData {
    /// The last day.
    pub stats_day: BrokerStatsItem,
    /// The last hour.
    pub stats_hour: BrokerStatsItem,
    /// The last minute.
    pub stats_minute: BrokerStatsItem,
}

/// What was counted in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsItem {
    /// [`BrokerStatsItem::sum`] by the number of additions, 0 without any.
    pub avgpt: f64,
    /// Everything added in the window.
    pub sum: i64,
    /// [`BrokerStatsItem::sum`] a second.
    pub tps: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    #[test]
    fn as_java_writes_it() {
        let text = r#"{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},"statsMinute":{"avgpt":0.0,"sum":0,"tps":0.0}}"#;
        assert_eq!(String::from_utf8(fastjson::to_vec(&BrokerStatsData::default()).unwrap()).unwrap(), text);
    }
}
