//! Lookups of host names and users in a static program.

/// Makes a static program look names up without libraries of the machine; false if glibc refuses that.
///
/// Also in a static program glibc loads the libraries that `/etc/nsswitch.conf` names, with the machine's own C library
/// beside the linked one. That works only if both are the same build. The two services `files` and `dns` are part of
/// libc.a (glibc 2.34), so only these are used: `/etc/hosts`, then the servers of `/etc/resolv.conf`.
///
/// A dynamic program must not call it, so that it keeps the services of its machine. Call it before the first lookup.
/// With another C library it does nothing.
#[must_use]
pub fn use_built_in_lookups() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        configure(c"hosts", c"files dns") && configure(c"passwd", c"files")
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    true
}

/// Sets the services of one database of nsswitch.conf(5) for this process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn configure(database: &std::ffi::CStr, services: &std::ffi::CStr) -> bool {
    use std::ffi::{c_char, c_int};

    #[expect(unsafe_code, reason = "the crate libc lacks this function of <nss.h>")]
    unsafe extern "C" {
        /// Returns 0 on success.
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    // SAFETY: both pointers are to texts that end with NUL. glibc copies what it keeps, and takes a lock meanwhile.
    #[expect(unsafe_code, reason = "glibc has no safe interface to its lookups")]
    let refused = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    refused == 0
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs;

    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn names_are_found_with_the_built_in_lookups() {
        assert!(use_built_in_lookups());
        assert!(!configure(c"no-such-database", c"files"));
        let found = ("localhost", 0).to_socket_addrs().unwrap();
        assert!(found.into_iter().all(|address| address.ip().is_loopback()));
    }
}
