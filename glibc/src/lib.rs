//! Calls of the C library that have no safe interface. The only crate with `unsafe` code, so that all others can forbid it.

mod lookups;
mod program;

pub use lookups::use_built_in_lookups;
pub use program::release_program_pages;

/// Returns the free pages of all heaps to the kernel. True if it returned memory.
///
/// glibc returns by itself only the free end of a heap: what lies below a living block stays with the process after a
/// burst. The call takes the lock of each heap in turn; threads that allocate from it wait. With another C library it
/// does nothing.
pub fn trim() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `malloc_trim` takes no pointer, has no precondition and is safe in several threads (MT-Safe).
        #[expect(unsafe_code, reason = "glibc has no safe interface to its heaps")]
        let returned = unsafe { libc::malloc_trim(0) };
        returned == 1
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory in pages: the second field of `statm`, proc(5).
    fn resident_pages() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn free_pages_below_a_living_block_are_returned() {
        const BLOCK_COUNT: usize = 8_192;
        let mut blocks: Vec<Vec<u8>> = (0..BLOCK_COUNT).map(|_| vec![1; 4_096]).collect();
        let last = blocks.pop();
        drop(blocks);
        let before = resident_pages();
        assert!(trim());
        let returned = before.saturating_sub(resident_pages());
        assert!(returned > BLOCK_COUNT / 2, "{returned} pages");
        drop(last);
    }
}
