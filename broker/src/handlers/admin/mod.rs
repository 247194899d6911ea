//! What tools ask of a broker, one file a request code.

mod all_groups;
mod all_topics;
mod broker_consume_stats;
mod clean_expired_consume_queue;
mod clean_unused_topic;
mod clone_group_offset;
mod cold_data;
mod connections;
mod consume_directly;
mod consume_queue;
mod consume_stats;
mod consumer_offsets;
mod consumer_status;
mod correction_offset;
mod create_static_topic;
mod create_topic;
mod delay_offsets;
mod delete_expired_commitlog;
mod delete_group;
mod delete_topic;
mod group_config;
mod group_forbidden;
mod group_topics;
mod ha_status;
mod least_broker_id;
mod read_ahead;
mod request_mode;
mod reset_offset;
mod rocksdb;
mod running_info;
mod runtime_info;
mod settings;
mod subscription;
mod system_topics;
mod time_span;
mod timer_check_point;
mod timer_engine;
mod timer_metrics;
mod topic_config;
mod topic_groups;
mod topic_stats;
mod update_group;
mod view_stats;

use std::ops::Range;
use std::sync::Arc;

use remoting::RequestCode;
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use remoting::server::Lane;

use super::Row;
use crate::wiring::Parts;

/// The codes of tools.
pub(super) fn list(parts: &Parts) -> Vec<Row> {
    use RequestCode as Code;
    let Parts {
        identity,
        config,
        store_config,
        store,
        topics,
        groups,
        offsets,
        clients,
        stats,
        link,
        static_topics,
        ..
    } = parts;
    let ha_info = ha_status::HaInfo::new(identity.clone(), parts.store_config.clone(), store.clone(), parts.ha.clone());
    vec![
        (
            Code::UPDATE_AND_CREATE_TOPIC,
            Lane::Blocking,
            Arc::new(create_topic::CreateTopic::new(config.clone(), topics.clone(), link.clone())),
        ),
        (
            Code::UPDATE_AND_CREATE_TOPIC_LIST,
            Lane::Blocking,
            Arc::new(create_topic::CreateTopicList::new(config.clone(), topics.clone(), link.clone())),
        ),
        (
            Code::UPDATE_AND_CREATE_STATIC_TOPIC,
            Lane::Blocking,
            Arc::new(create_static_topic::CreateStaticTopic {
                config: config.clone(),
                topics: topics.clone(),
                static_topics: static_topics.clone(),
                link: link.clone(),
            }),
        ),
        (
            Code::DELETE_TOPIC_IN_BROKER,
            Lane::Blocking,
            Arc::new(delete_topic::DeleteTopic {
                config: config.clone(),
                topics: topics.clone(),
                static_topics: static_topics.clone(),
                offsets: offsets.clone(),
                stats: stats.clone(),
                store: store.clone(),
                timer: parts.timer.clone(),
            }),
        ),
        (
            Code::GET_ALL_TOPIC_CONFIG,
            Lane::Blocking,
            Arc::new(all_topics::AllTopics::new(config.clone(), topics.clone(), static_topics.clone())),
        ),
        (
            Code::GET_TOPIC_CONFIG,
            Lane::Inline,
            Arc::new(topic_config::TopicSettings::new(topics.clone(), static_topics.clone())),
        ),
        (
            Code::GET_TOPIC_STATS_INFO,
            Lane::Blocking,
            Arc::new(topic_stats::TopicStatsInfo::new(identity.clone(), topics.clone(), stats.clone(), store.clone())),
        ),
        (
            Code::QUERY_TOPIC_CONSUME_BY_WHO,
            Lane::Inline,
            Arc::new(topic_groups::TopicGroups::new(clients.consumers.clone(), offsets.clone())),
        ),
        (
            Code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            Lane::Inline,
            Arc::new(system_topics::ListSystemTopics::new(topics.system.clone())),
        ),
        (
            Code::CLEAN_EXPIRED_CONSUMEQUEUE,
            Lane::Blocking,
            Arc::new(clean_expired_consume_queue::CleanExpiredConsumeQueue::new(topics.system.clone(), store.clone())),
        ),
        (
            Code::CLEAN_UNUSED_TOPIC,
            Lane::Blocking,
            Arc::new(clean_unused_topic::CleanUnusedTopic {
                config: config.clone(),
                topics: topics.clone(),
                stats: stats.clone(),
                store: store.clone(),
            }),
        ),
        (
            Code::DELETE_EXPIRED_COMMITLOG,
            Lane::Inline,
            Arc::new(delete_expired_commitlog::DeleteExpiredCommitlog::new(store.clone())),
        ),
        (
            Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            Lane::Blocking,
            Arc::new(update_group::UpdateGroup::new(groups.clone())),
        ),
        (
            Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            Lane::Blocking,
            Arc::new(update_group::UpdateGroupList::new(groups.clone())),
        ),
        (
            Code::DELETE_SUBSCRIPTIONGROUP,
            Lane::Blocking,
            Arc::new(delete_group::DeleteGroup::new(config.clone(), groups.clone(), offsets.clone(), stats.clone())),
        ),
        (
            Code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            Lane::Blocking,
            Arc::new(all_groups::AllGroups::new(config.clone(), groups.clone())),
        ),
        (Code::GET_SUBSCRIPTIONGROUP_CONFIG, Lane::Blocking, Arc::new(group_config::GroupConfig::new(groups.clone()))),
        (
            Code::GET_CONSUME_STATS,
            Lane::Blocking,
            Arc::new(consume_stats::GroupStats {
                identity: identity.clone(),
                topics: topics.clone(),
                static_topics: static_topics.clone(),
                offsets: offsets.clone(),
                consumers: clients.consumers.clone(),
                stats: stats.clone(),
                store: store.clone(),
            }),
        ),
        (
            Code::QUERY_CONSUME_TIME_SPAN,
            Lane::Blocking,
            Arc::new(time_span::TimeSpan {
                identity: identity.clone(),
                topics: topics.clone(),
                offsets: offsets.clone(),
                store: store.clone(),
            }),
        ),
        (
            Code::QUERY_TOPICS_BY_CONSUMER,
            Lane::Inline,
            Arc::new(group_topics::GroupTopics::new(identity.clone(), offsets.clone())),
        ),
        (
            Code::QUERY_SUBSCRIPTION_BY_CONSUMER,
            Lane::Inline,
            Arc::new(subscription::Subscription::new(clients.consumers.clone())),
        ),
        (
            Code::INVOKE_BROKER_TO_RESET_OFFSET,
            Lane::Blocking,
            Arc::new(reset_offset::ResetOffset {
                config: config.clone(),
                store_config: store_config.clone(),
                identity: identity.clone(),
                topics: topics.clone(),
                groups: groups.clone(),
                offsets: offsets.clone(),
                consumers: clients.consumers.clone(),
                store: store.clone(),
            }),
        ),
        (
            Code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            Lane::Inline,
            Arc::new(consumer_status::ConsumerStatusOf::new(clients.consumers.clone())),
        ),
        (
            Code::CLONE_GROUP_OFFSET,
            Lane::Inline,
            Arc::new(clone_group_offset::CloneGroupOffset::new(
                topics.clone(),
                clients.consumers.clone(),
                offsets.clone(),
            )),
        ),
        (
            Code::QUERY_CORRECTION_OFFSET,
            Lane::Blocking,
            Arc::new(correction_offset::CorrectionOffset::new(offsets.clone(), store.clone())),
        ),
        (
            Code::UPDATE_AND_GET_GROUP_FORBIDDEN,
            Lane::Blocking,
            Arc::new(group_forbidden::GroupForbidden::new(groups.clone())),
        ),
        (
            Code::GET_ALL_CONSUMER_OFFSET,
            Lane::Blocking,
            Arc::new(consumer_offsets::ConsumerOffsets::new(offsets.clone())),
        ),
        (
            Code::GET_CONSUMER_CONNECTION_LIST,
            Lane::Inline,
            Arc::new(connections::ConsumerConnections::new(clients.consumers.clone())),
        ),
        (
            Code::GET_PRODUCER_CONNECTION_LIST,
            Lane::Inline,
            Arc::new(connections::ProducerConnections::new(clients.producers.clone())),
        ),
        (
            Code::GET_ALL_PRODUCER_INFO,
            Lane::Blocking,
            Arc::new(connections::AllProducers::new(clients.producers.clone())),
        ),
        (
            Code::GET_CONSUMER_RUNNING_INFO,
            Lane::Inline,
            Arc::new(running_info::RunningInfo::new(clients.consumers.clone())),
        ),
        (
            Code::CONSUME_MESSAGE_DIRECTLY,
            Lane::Blocking,
            Arc::new(consume_directly::ConsumeDirectly {
                identity: identity.clone(),
                topics: topics.clone(),
                groups: groups.clone(),
                consumers: clients.consumers.clone(),
                store: store.clone(),
            }),
        ),
        (Code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG, Lane::Inline, Arc::new(cold_data::SetLimits(parts.cold.clone()))),
        (Code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG, Lane::Inline, Arc::new(cold_data::RemoveLimit(parts.cold.clone()))),
        (Code::GET_COLD_DATA_FLOW_CTR_INFO, Lane::Blocking, Arc::new(cold_data::ColdReads(parts.cold.clone()))),
        (Code::SET_COMMITLOG_READ_MODE, Lane::Blocking, Arc::new(read_ahead::SetReadMode::new(store_config.clone()))),
        (Code::GET_ALL_DELAY_OFFSET, Lane::Blocking, Arc::new(delay_offsets::DelayOffsets(parts.schedule.clone()))),
        (Code::CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Lane::Inline, Arc::new(rocksdb::CheckQueues)),
        (Code::EXPORT_ROCKSDB_CONFIG_TO_JSON, Lane::Inline, Arc::new(rocksdb::ExportSettings)),
        (
            Code::SET_MESSAGE_REQUEST_MODE,
            Lane::Blocking,
            Arc::new(request_mode::SetMode::new(topics.clone(), groups.clone(), parts.request_modes.clone())),
        ),
        (
            Code::GET_ALL_MESSAGE_REQUEST_MODE,
            Lane::Blocking,
            Arc::new(request_mode::AllModes(parts.request_modes.clone())),
        ),
        (Code::EXCHANGE_BROKER_HA_INFO, Lane::Inline, Arc::new(ha_info)),
        (Code::GET_BROKER_HA_STATUS, Lane::Inline, Arc::new(ha_status::HaState::new(parts.ha.clone()))),
        (
            Code::RESET_MASTER_FLUSH_OFFSET,
            Lane::Inline,
            Arc::new(ha_status::ResetFlushOffset::new(identity.clone(), store.clone())),
        ),
        (Code::GET_BROKER_EPOCH_CACHE, Lane::Inline, Arc::new(ha_status::EpochCache)),
        (
            Code::NOTIFY_MIN_BROKER_ID_CHANGE,
            Lane::Inline,
            Arc::new(least_broker_id::LeastBrokerId(parts.succession.clone())),
        ),
        (
            Code::VIEW_BROKER_STATS_DATA,
            Lane::Inline,
            Arc::new(view_stats::ViewStats::new(topics.clone(), stats.clone())),
        ),
        (
            Code::GET_BROKER_CONSUME_STATS,
            Lane::Blocking,
            Arc::new(broker_consume_stats::BrokerConsumeStats {
                identity: identity.clone(),
                topics: topics.clone(),
                groups: groups.clone(),
                offsets: offsets.clone(),
                consumers: clients.consumers.clone(),
                stats: stats.clone(),
                store: store.clone(),
            }),
        ),
        (
            Code::QUERY_CONSUME_QUEUE,
            Lane::Blocking,
            Arc::new(consume_queue::QueueEntries::new(clients.consumers.clone(), parts.filters.clone(), store.clone())),
        ),
        (
            Code::GET_BROKER_RUNTIME_INFO,
            Lane::Blocking,
            Arc::new(runtime_info::RuntimeInfo {
                config: config.clone(),
                store_config: store_config.clone(),
                stats: stats.clone(),
                store: store.clone(),
                schedule: parts.schedule.clone(),
                timer: parts.timer.clone(),
                duties: parts.duties.clone(),
            }),
        ),
        (
            Code::GET_TIMER_CHECK_POINT,
            Lane::Blocking,
            Arc::new(timer_check_point::TimerCheckPoint::new(parts.timer.clone())),
        ),
        (Code::GET_TIMER_METRICS, Lane::Blocking, Arc::new(timer_metrics::TimerMetrics::new(parts.timer.clone()))),
        (
            Code::SWITCH_TIMER_ENGINE,
            Lane::Blocking,
            Arc::new(timer_engine::SwitchTimerEngine {
                timer: parts.timer.clone(),
                store_config: store_config.clone(),
                settings: parts.settings.clone(),
            }),
        ),
        (
            Code::GET_BROKER_CONFIG,
            Lane::Blocking,
            Arc::new(settings::GetSettings::new(parts.settings.clone(), parts.settings_version)),
        ),
        (
            Code::UPDATE_BROKER_CONFIG,
            Lane::Blocking,
            Arc::new(settings::UpdateSettings::new(
                config.clone(),
                parts.settings.clone(),
                topics.clone(),
                link.clone(),
            )),
        ),
    ]
}

/// Which entries of a sorted table a request for a part of it gets: from `seq` on, at most `max` and at most
/// `splitMetadataSize` of them. A peer that has not started with this very version of the table starts over.
fn part(
    seq: i32,
    max: Option<i32>,
    known: Option<&str>,
    version: &DataVersion,
    split: i32,
    total: usize,
) -> Range<usize> {
    let sent = known.filter(|text| !text.trim().is_empty());
    let same = sent
        .is_some_and(|text| fastjson::from_slice::<DataVersion>(text.as_bytes()).is_ok_and(|sent| sent == *version));
    let start = if same { usize::try_from(seq).unwrap_or(0) } else { 0 };
    let count = usize::try_from(max.unwrap_or(i32::MAX).min(split)).unwrap_or(0);
    start.min(total)..start.saturating_add(count).min(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_table() {
        let version = DataVersion { counter: 3, state_version: 0, timestamp: 7 };
        let json = r#"{"counter":3,"stateVersion":0,"timestamp":7}"#;
        assert_eq!(part(0, Some(2), Some(""), &version, 1000, 5), 0..2);
        assert_eq!(part(2, Some(2), Some(json), &version, 1000, 5), 2..4);
        assert_eq!(part(4, None, Some(json), &version, 1000, 5), 4..5);
        assert_eq!(part(2, Some(2), Some(r#"{"counter":2}"#), &version, 1000, 5), 0..2);
        assert_eq!(part(9, Some(2), Some(json), &version, 1000, 5), 5..5);
        assert_eq!(part(-1, Some(-1), Some(json), &version, 1000, 5), 0..0);
        assert_eq!(part(0, Some(9), None, &version, 3, 5), 0..3);
    }
}
