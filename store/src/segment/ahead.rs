//! Asking for memory before it is needed, so that nobody waits for it.

/// Bytes that a processor gets from memory at a time.
pub(crate) const LINE: usize = 64;

/// Asks the processor for the line of memory at an address. Nothing is read there, and the address need not be one.
#[inline(always)]
pub fn ask_for(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch accesses no memory as far as the program can tell; with an address that is none it does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for the memory of a value, at most for as many lines as a processor waits for at once.
#[inline]
pub fn ask_for_all<T>(value: &T) {
    const MOST: usize = 10;
    let here = std::ptr::from_ref(value) as usize;
    let lines = (here % LINE + size_of::<T>()).div_ceil(LINE);
    (0..lines.min(MOST)).for_each(|line| ask_for(here + line * LINE));
}
