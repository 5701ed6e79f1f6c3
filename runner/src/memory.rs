//! Kills for memory in this process's control group.

use std::{fs, path::PathBuf};

/// Number of processes of this control group (version 2) that the kernel has killed for memory; `None` if it cannot be read.
pub(crate) fn oom_kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let file = PathBuf::from("/sys/fs/cgroup")
        .join(group)
        .join("memory.events");
    parse(&fs::read_to_string(file).ok()?)
}

fn parse(events: &str) -> Option<u64> {
    let count = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_the_line_oom_kill() {
        let events = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(parse(events), Some(2));
        assert_eq!(parse("low 0\n"), None);
    }
}
