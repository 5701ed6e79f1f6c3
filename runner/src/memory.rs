//! Memory of this process's control group: its limit, its use, and kills for it.

use std::{fs, path::PathBuf, time::Duration};

use tokio::time::sleep;

use crate::table::Table;

const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Share of the limit, in percent, above which a kill for memory is likely.
const PRESSURE_PERCENT: u64 = 80;

/// Number of processes of this control group (version 2) that the kernel has killed for memory; `None` if it cannot be read.
pub(crate) fn oom_kills() -> Option<u64> {
    field(&read("memory.events")?, "oom_kill")
}

/// Memory limit of this control group in bytes; `None` without one.
pub(crate) fn limit() -> Option<u64> {
    read("memory.max")?.trim().parse().ok()
}

/// Marks the work folder while programs use most of the memory. A kill for memory ends the runner as well, in a pod.
pub(crate) async fn watch(table: &Table) {
    let Some(limit) = limit() else {
        return std::future::pending().await;
    };
    let mut running = table.running();
    loop {
        if running.wait_for(|running| *running > 0).await.is_err() {
            return std::future::pending().await;
        }
        let is_high =
            read("memory.stat").is_some_and(|stat| used(&stat) > limit / 100 * PRESSURE_PERCENT);
        table.root().set_pressure(is_high);
        sleep(POLL_INTERVAL).await;
        if *running.borrow() == 0 {
            table.root().set_pressure(false);
        }
    }
}

/// Bytes that cannot be given back. Cached files can.
fn used(stat: &str) -> u64 {
    let parts = ["anon", "shmem", "kernel"].into_iter();
    parts.filter_map(|name| field(stat, name)).sum()
}

fn read(name: &str) -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let file = PathBuf::from("/sys/fs/cgroup").join(group).join(name);
    fs::read_to_string(file).ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_the_line_oom_kill() {
        let events = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(field(events, "oom_kill"), Some(2));
        assert_eq!(field("low 0\n", "oom_kill"), None);
    }

    #[test]
    fn cached_files_are_no_pressure() {
        let stat = "anon 100\nfile 5000\nkernel 7\nkernel_stack 3\nshmem 20\n";
        assert_eq!(used(stat), 127);
    }
}
