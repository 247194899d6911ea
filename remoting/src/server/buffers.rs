//! Buffers of the worker threads. A connection borrows them between two awaits, so that an idle one holds none.

use std::cell::RefCell;

/// Bytes that one read takes at most.
pub(crate) const READ_SIZE: usize = 128 * 1024;

/// A buffer larger than this is given back to the system after use.
const KEEP: usize = 1024 * 1024;

thread_local! {
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The worker's read buffer ([`READ_SIZE`] bytes) and its output buffer (empty).
///
/// Not reentrant: the connection's task uses it, and nothing that it calls does.
pub(crate) fn with_io<R>(use_them: impl FnOnce(&mut [u8], &mut Vec<u8>) -> R) -> R {
    READ.with_borrow_mut(|read| {
        if read.is_empty() {
            read.resize(READ_SIZE, 0);
        }
        OUT.with_borrow_mut(|out| {
            out.clear();
            let result = use_them(read, out);
            out.clear();
            out.shrink_to(KEEP);
            result
        })
    })
}

/// An empty buffer for one frame that is sent at once. A use inside a use gets a fresh one.
pub(crate) fn with_scratch<R>(use_it: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut frame) => {
            frame.clear();
            let result = use_it(&mut frame);
            frame.clear();
            frame.shrink_to(KEEP);
            result
        }
        Err(_) => use_it(&mut Vec::new()),
    })
}
