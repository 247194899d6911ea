//! Messages in and out: sends, pulls, offsets, look-ups.

mod consumer_send_back;
mod earliest_store_time;
mod end_transaction;
mod max_offset;
mod min_offset;
mod pull_message;
mod query_consumer_offset;
mod query_message;
mod recall_message;
mod reply_message;
mod resume_check_half_message;
mod search_offset;
mod send_message;
mod update_consumer_offset;
mod view_message;

use std::sync::Arc;

use remoting::RequestCode;
use remoting::server::Lane;

use super::Row;
use crate::wiring::Parts;

/// The rows of the list.
pub(super) fn list(parts: &Parts) -> Vec<Row> {
    let (store, topics, groups, offsets) = (&parts.store, &parts.topics, &parts.groups, &parts.offsets);
    let v2 = Arc::new(send_message::SendV2::new(parts.sender.clone()));
    let producers = &parts.clients.producers;
    let reply = reply_message::ReplyMessage::new(parts.sender.clone(), producers.clone());
    let reply_v2 = reply_message::ReplyMessageV2::new(parts.sender.clone(), producers.clone());
    let pull = pull_message::Pull::new(parts.puller.clone(), false);
    let lite_pull = pull_message::Pull::new(parts.puller.clone(), true);
    let broker = &parts.config;
    let logical = &parts.logical;
    let update = update_consumer_offset::UpdateConsumerOffset::new(
        broker.clone(),
        groups.clone(),
        topics.clone(),
        offsets.clone(),
        logical.clone(),
    );
    let send_back = consumer_send_back::SendBack::new(
        broker.clone(),
        groups.clone(),
        topics.clone(),
        store.clone(),
        parts.sender.clone(),
        parts.stats.clone(),
    );
    let query_offset = query_consumer_offset::QueryConsumerOffset::new(offsets.clone(), store.clone(), logical.clone());
    let resume = resume_check_half_message::ResumeCheckHalfMessage::new(store.clone());
    let query = query_message::QueryMessage::new(parts.store_config.clone(), store.clone());
    let recall = recall_message::Recall {
        config: broker.clone(),
        store_config: parts.store_config.clone(),
        identity: parts.identity.clone(),
        topics: topics.clone(),
        sender: parts.sender.clone(),
    };
    vec![
        (RequestCode::SEND_MESSAGE, Lane::Inline, Arc::new(send_message::Send::new(parts.sender.clone()))),
        (RequestCode::SEND_MESSAGE_V2, Lane::Inline, v2.clone()),
        (RequestCode::SEND_BATCH_MESSAGE, Lane::Inline, v2),
        (RequestCode::SEND_REPLY_MESSAGE, Lane::Inline, Arc::new(reply)),
        (RequestCode::SEND_REPLY_MESSAGE_V2, Lane::Inline, Arc::new(reply_v2)),
        (RequestCode::PULL_MESSAGE, Lane::Inline, Arc::new(pull)),
        (RequestCode::LITE_PULL_MESSAGE, Lane::Inline, Arc::new(lite_pull)),
        (RequestCode::QUERY_MESSAGE, Lane::Blocking, Arc::new(query)),
        (RequestCode::QUERY_CONSUMER_OFFSET, Lane::Inline, Arc::new(query_offset)),
        (RequestCode::UPDATE_CONSUMER_OFFSET, Lane::Inline, Arc::new(update)),
        (
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP,
            Lane::Blocking,
            Arc::new(search_offset::SearchOffset::new(store.clone(), logical.clone())),
        ),
        (
            RequestCode::GET_MAX_OFFSET,
            Lane::Inline,
            Arc::new(max_offset::MaxOffset::new(store.clone(), logical.clone())),
        ),
        (
            RequestCode::GET_MIN_OFFSET,
            Lane::Inline,
            Arc::new(min_offset::MinOffset::new(store.clone(), logical.clone())),
        ),
        (
            RequestCode::GET_EARLIEST_MSG_STORETIME,
            Lane::Blocking,
            Arc::new(earliest_store_time::EarliestStoreTime::new(store.clone(), logical.clone())),
        ),
        (RequestCode::VIEW_MESSAGE_BY_ID, Lane::Blocking, Arc::new(view_message::ViewMessage::new(store.clone()))),
        (
            RequestCode::END_TRANSACTION,
            Lane::Inline,
            Arc::new(end_transaction::EndTransaction::new(parts.ending.clone())),
        ),
        (RequestCode::RESUME_CHECK_HALF_MESSAGE, Lane::Blocking, Arc::new(resume)),
        (RequestCode::CONSUMER_SEND_MSG_BACK, Lane::Blocking, Arc::new(send_back)),
        (RequestCode::RECALL_MESSAGE, Lane::Inline, Arc::new(recall)),
    ]
}
