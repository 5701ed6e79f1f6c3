//! Resident pages of the program itself.

/// Unmaps the pages of the program's code and constants. True if it unmapped any.
///
/// Pages that only the start or a burst has used no longer count as memory of the process, and the kernel reclaims them first.
/// A page that is used again is mapped from the page cache, in about a microsecond. Pages with relocations stay: they belong to
/// segments that were writable.
pub fn release_program_pages() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let mut released = false;
        for segment in linux::read_only_segments() {
            released |= linux::release(segment);
        }
        released
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::{ffi::c_void, ops::Range, ptr, slice};

    use libc::{c_int, dl_phdr_info, size_t};

    /// Addresses of the program's segments that are never written, in whole pages.
    pub(super) fn read_only_segments() -> Vec<Range<usize>> {
        let mut segments = Vec::new();
        // SAFETY: `visit` has the right signature, and gets the pointer to `segments`, which outlives the call.
        #[expect(unsafe_code, reason = "glibc has no safe interface to program headers")]
        unsafe {
            libc::dl_iterate_phdr(Some(visit), ptr::from_mut(&mut segments).cast());
        }
        segments
    }

    /// Collects the segments of the first object, which is the program, and ends the iteration.
    extern "C" fn visit(info: *mut dl_phdr_info, _size: size_t, data: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr(3) passes a valid `info` with `dlpi_phnum` headers, and `data` as it was given to it.
        #[expect(unsafe_code, reason = "glibc passes pointers")]
        let (base, headers, segments) = unsafe {
            let info = &*info;
            let headers = slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            (
                info.dlpi_addr,
                headers,
                &mut *data.cast::<Vec<Range<usize>>>(),
            )
        };
        let page = page_size();
        for header in headers {
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
                continue;
            }
            let start = (base + header.p_vaddr) as usize;
            let end = start + header.p_memsz as usize;
            segments.push(start - start % page..end.next_multiple_of(page));
        }
        1
    }

    fn page_size() -> usize {
        // SAFETY: `sysconf` takes no pointer.
        #[expect(unsafe_code, reason = "a call of the C library")]
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    }

    /// Marks the pages as the next to reclaim, and unmaps them.
    pub(super) fn release(segment: Range<usize>) -> bool {
        let start = ptr::without_provenance_mut(segment.start);
        // SAFETY: the pages are of a private mapping of a file and were never written, so their content comes back from the
        // file. An advice that the kernel does not know is an error without an effect.
        #[expect(unsafe_code, reason = "pages of the program have no safe interface")]
        unsafe {
            libc::madvise(start, segment.len(), libc::MADV_COLD);
            libc::madvise(start, segment.len(), libc::MADV_DONTNEED) == 0
        }
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// Resident bytes of the mappings of the program that are never written: `Rss` of smaps, proc(5).
    fn resident_bytes() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut counts = false;
        let mut kibibytes = 0;
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            match (fields.next(), fields.next()) {
                (Some("Rss:"), Some(size)) if counts => kibibytes += size.parse::<usize>().unwrap(),
                (Some(range), Some(_)) if range.contains('-') => {
                    let (start, end) = range.split_once('-').unwrap();
                    let address = |text| usize::from_str_radix(text, 16).unwrap();
                    let range = address(start)..address(end);
                    let segments = linux::read_only_segments();
                    counts = segments
                        .iter()
                        .any(|it| it.start <= range.start && range.end <= it.end);
                }
                _ => {}
            }
        }
        kibibytes * 1024
    }

    /// Constants that nothing reads.
    static UNUSED: [u8; 1 << 20] = [1; 1 << 20];

    #[test]
    fn pages_that_are_not_used_are_released() {
        std::hint::black_box(&UNUSED);
        let segments = linux::read_only_segments();
        assert!(!segments.is_empty());
        for segment in segments {
            let start = std::ptr::without_provenance_mut(segment.start);
            // SAFETY: reading the pages of the program into memory changes none of them.
            #[expect(unsafe_code, reason = "advice needs a pointer")]
            unsafe {
                libc::madvise(start, segment.len(), libc::MADV_POPULATE_READ);
            }
        }
        let before = resident_bytes();
        assert!(release_program_pages());
        let after = resident_bytes();
        assert!(
            before - after > UNUSED.len() / 2,
            "{before} to {after} bytes"
        );
    }
}
