//! Processes that work in a folder: leftovers of a program that ended, or of an earlier runner.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpgid};

/// Rounds of [`end_all_in`]: a process may start another one meanwhile.
const MAX_ROUNDS: usize = 8;

/// Sends a signal to a process group; false if it has no member.
pub(crate) fn signal_group(group: Pid, signal: Signal) -> bool {
    kill_process_group(group, signal).is_ok()
}

/// Kills every process with its current folder below `folder`, and returns their number.
///
/// Such a process may have left its process group. Another user's processes cannot be read, and are left alone.
pub(crate) fn end_all_in(folder: &Path) -> usize {
    let mut killed = 0;
    for _ in 0..MAX_ROUNDS {
        let found: Vec<Pid> = members(folder).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            killed += usize::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
    killed
}

fn members(folder: &Path) -> impl Iterator<Item = Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // A zombie has no current folder any more, so each round finds living processes only.
        let current = fs::read_link(entry.path().join("cwd")).ok()?;
        current.starts_with(folder).then(|| Pid::from_raw(pid))?
    })
}

/// Reaps members of a group that this process inherited as the first process of its container.
pub(crate) fn reap_group(group: Pid) {
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
}
