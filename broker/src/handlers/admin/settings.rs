//! GET_BROKER_CONFIG (26) and UPDATE_BROKER_CONFIG (25): an administrator reads or changes the configuration.

use std::sync::Arc;

use config::properties::Properties;
use config::{BrokerConfig, Live, LiveFile};
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::namesrv_link::NamesrvLink;
use crate::topics::TopicTable;

/// Keys that nobody changes from afar, besides those of `configBlackList`.
const FORBIDDEN: [&str; 3] = ["brokerConfigPath", "rocketmqHome", "configBlackList"];

/// Answers with all keys and their values.
pub struct GetSettings {
    settings: Arc<LiveFile>,
    /// The version of the values at the start.
    version: DataVersion,
}

impl GetSettings {
    /// The handler.
    pub fn new(settings: Arc<LiveFile>, version: DataVersion) -> GetSettings {
        GetSettings { settings, version }
    }
}

impl Handler for GetSettings {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        let counter = i64::try_from(self.settings.version()).unwrap_or(i64::MAX);
        let version = fastjson::to_vec(&DataVersion { counter, ..self.version }).unwrap_or_default();
        Reply::ok().field("version", String::from_utf8_lossy(&version)).body(self.settings.dump()).into()
    }
}

/// Changes the keys that the request names. Keys that nobody knows are ignored, as in Java; a value that its key cannot
/// take is refused, where Java silently keeps the old one.
pub struct UpdateSettings {
    config: Arc<Live<BrokerConfig>>,
    settings: Arc<LiveFile>,
    topics: Arc<TopicTable>,
    link: Arc<NamesrvLink>,
}

impl UpdateSettings {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        settings: Arc<LiveFile>,
        topics: Arc<TopicTable>,
        link: Arc<NamesrvLink>,
    ) -> UpdateSettings {
        UpdateSettings { config, settings, topics, link }
    }
}

impl Handler for UpdateSettings {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let Ok(properties) = Properties::parse(cx.body()) else {
            return Reply::error(ResponseCode::SYSTEM_ERROR, "string2Properties error").into();
        };
        let pairs: Vec<_> = properties.entries().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect();
        if pairs.is_empty() {
            return Reply::ok().into();
        }
        let config = self.config.load_full();
        let listed: Vec<&str> = config.config_black_list.split(';').collect();
        if pairs.iter().any(|(key, _)| FORBIDDEN.contains(key) || listed.contains(key)) {
            return Reply::error(ResponseCode::NO_PERMISSION, "Can not update config in black list.").into();
        }
        match self.settings.update(&pairs) {
            Ok(taken) => {
                let taken: Vec<_> = taken.iter().map(|key| key.name).collect();
                tracing::info!(?taken, peer = %cx.conn().client(), "the configuration was changed");
            }
            Err(error) => return Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
        if !pairs.iter().any(|(key, _)| *key == "brokerPermission") {
            return Reply::ok().into();
        }
        // Routes show the permission of every topic.
        self.topics.touch();
        let link = self.link.clone();
        Outcome::Later(Box::pin(async move {
            link.register_all(true).await;
            Reply::ok()
        }))
    }
}
