//! Limit of open files: a hub has one for each agent and each client.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit to the maximum that the system allows; returns it, or `None` for no limit.
///
/// The initial limit is often 1,024, for programs that use `select`.
pub fn open_as_many_as_allowed() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // If the system refuses, the returned limit shows it.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_raised_to_the_maximum() {
        let allowed = getrlimit(Resource::Nofile).maximum;
        let mut low = getrlimit(Resource::Nofile);
        low.current = Some(500);
        setrlimit(Resource::Nofile, low).unwrap();
        assert_eq!(open_as_many_as_allowed(), allowed);
    }
}
