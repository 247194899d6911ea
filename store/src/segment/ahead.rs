//! Asking for memory before it is needed, so that nobody waits for it.

/// Asks the processor for the line of memory at an address. Nothing is read there, and the address need not be one.
#[inline(always)]
pub(crate) fn ask_for(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch accesses no memory as far as the program can tell; with an address that is none it does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
