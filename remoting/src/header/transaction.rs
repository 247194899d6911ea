//! Transactions: the end of a half message, and the question to its producer.

use std::borrow::Cow;

use crate::header;

header! {
    /// END_TRANSACTION (37): commit, roll back, or still unknown.
    pub struct EndTransaction<'a>: rpc {
        "topic" topic: Option<Cow<'a, str>>,
        "producerGroup" producer_group: Cow<'a, str>,
        "tranStateTableOffset" tran_state_table_offset: i64,
        "commitLogOffset" commit_log_offset: i64,
        "commitOrRollback" commit_or_rollback: i32,
        "fromTransactionCheck" from_transaction_check: bool = false,
        "msgId" msg_id: Cow<'a, str>,
        "transactionId" transaction_id: Option<Cow<'a, str>>,
    }
}

header! {
    /// The answer to [`EndTransaction`] has no fields.
    pub struct EndTransactionResponse {}
}

header! {
    /// CHECK_TRANSACTION_STATE (39): the broker asks a producer how a transaction ended.
    pub struct CheckTransactionState<'a>: rpc {
        "topic" topic: Option<Cow<'a, str>>,
        "tranStateTableOffset" tran_state_table_offset: i64,
        "commitLogOffset" commit_log_offset: i64,
        "msgId" msg_id: Option<Cow<'a, str>>,
        "transactionId" transaction_id: Option<Cow<'a, str>>,
        "offsetMsgId" offset_msg_id: Option<Cow<'a, str>>,
    }
}

header! {
    /// How the transaction ended. (Producers answer with [`EndTransaction`] instead.)
    pub struct CheckTransactionStateResponse<'a> {
        "producerGroup" producer_group: Cow<'a, str>,
        "tranStateTableOffset" tran_state_table_offset: i64,
        "commitLogOffset" commit_log_offset: i64,
        "commitOrRollback" commit_or_rollback: i32,
    }
}

header! {
    /// RESUME_CHECK_HALF_MESSAGE (323): a half message that was given up is checked again.
    pub struct ResumeCheckHalfMessage<'a> {
        "topic" topic: Option<Cow<'a, str>>,
        "msgId" msg_id: Option<Cow<'a, str>>,
    }
}
