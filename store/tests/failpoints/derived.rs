//! A sync of queues, compacted logs or index that fails: what the device has lost then no later sync brings back, so the
//! checkpoint stays where it was, and the end of that life is not clean.

use std::path::Path;
use std::process::{Command, Stdio};

use store::checkpoint::Checkpoint;
use store::failpoint::{self, Action, Plan, Point};

use crate::compaction_support::{COMPACTED, all_of, try_send};
use crate::faults_support::{Dir, messages, open_at, send};
use crate::{EIO, ENOSPC, plan_of_env, plan_to_env};

/// Nothing is flushed by itself.
const QUIET: &str = "flushIntervalConsumeQueue=6000000\ncompactionScheduleInternal=100000000\n";

/// The process on the failing device. Does nothing in the ordinary run of all tests.
#[test]
fn the_other_process_on_a_failing_device() {
    let Ok(root) = std::env::var("DERIVED_ROOT") else { return };
    let root = Path::new(&root);
    let plan = plan_of_env();
    let store = open_at(root, &std::env::var("FAILPOINT_CONF").unwrap()).unwrap();
    store.set_topic_policy("C", COMPACTED).unwrap();
    let fill = || {
        for number in 0..130 {
            send(&store, "T", 0, &format!("key{number} more{number} most{number}"), b"body");
            try_send(&store, "C", 0, "key", "body").unwrap();
        }
    };
    let noted = || {
        let checkpoint = Checkpoint::open(&root.join("checkpoint")).unwrap();
        (checkpoint.logics_phys_offset.get(), checkpoint.index_msg_timestamp.get())
    };
    fill();
    store.sync_all().unwrap();
    let before = noted();
    assert!(before.0 > 0 && before.1 > 0);
    fill();
    failpoint::arm(plan);
    store.sync_all().unwrap_err();
    failpoint::arm(None);
    fill();
    store.sync_all().unwrap();
    assert_eq!(noted(), before);
    store.close();
    assert_eq!(noted(), before);
    assert!(root.join("abort").exists());
}

#[test]
fn a_sync_that_fails_holds_the_checkpoint() {
    // Also when it is for want of room: what the system could not write it does not write later.
    for (point, error) in [Point::QueueFlush, Point::CompactFlush, Point::IndexFlush]
        .into_iter()
        .flat_map(|point| [(point, EIO), (point, ENOSPC)])
    {
        let dir = Dir::new().with(QUIET);
        let plan = Plan { point, action: Action::Fail(error), after: 0, times: 1 };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "derived::the_other_process_on_a_failing_device", "--nocapture"])
            .env("DERIVED_ROOT", dir.root())
            .env("FAILPOINT_CONF", dir.conf())
            .stdout(Stdio::null());
        plan_to_env(&mut command, &plan);
        assert!(command.status().unwrap().success(), "{point:?}");
        let store = dir.open();
        store.set_topic_policy("C", COMPACTED).unwrap();
        assert_eq!(messages(&store).iter().filter(|message| message.topic == "T").count(), 390);
        assert_eq!(all_of(&store, "C", 0).len(), 390);
        store.close();
        assert!(!dir.path("abort").exists(), "{point:?}");
    }
}
