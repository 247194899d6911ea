//! JSON bodies, one file each, and fastjson's dialect.

pub mod broker_member;
pub mod broker_stats;
pub mod cluster;
pub mod connections;
pub mod consume_queue;
pub mod consume_stats;
pub mod consumer_list;
pub mod data_version;
pub mod fastjson;
pub mod group_list;
pub mod ha;
pub mod heartbeat;
pub mod kv;
pub mod lock;
pub mod message_queue;
mod number;
pub mod offset_table;
pub mod register;
pub mod request_mode;
pub mod route;
pub mod subscription_group;
pub mod topic;
pub mod topic_config_list;
pub mod topic_list;
pub mod topic_queue_mapping;
pub mod topic_stats;
