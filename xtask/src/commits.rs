//! Subjects of the commits since the rule is there.

use std::{io, path::Path, process::Command};

const MAX_SUBJECT_CHARS: usize = 72;
/// Last commit before the rule.
const LAST_UNCHECKED: &str = "78eaf3a9279a8b317d35e7a4b745bbcfa740aecb";

pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    // A shallow clone has its last commit only, and an unpacked archive has none.
    let since = format!("{LAST_UNCHECKED}..HEAD");
    let log = match subjects(root, &[&since])? {
        None => subjects(root, &["-1"])?,
        log => log,
    };
    Ok(log.as_deref().map_or_else(Vec::new, too_long))
}

/// Lines of abbreviated hash and subject; `None` if git refuses.
fn subjects(root: &Path, range: &[&str]) -> io::Result<Option<String>> {
    let git = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s"])
        .args(range)
        .current_dir(root)
        .output()?;
    let log = String::from_utf8_lossy(&git.stdout).into_owned();
    Ok(git.status.success().then_some(log))
}

fn too_long(log: &str) -> Vec<String> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    commits
        .filter(|(_, subject)| subject.chars().count() > MAX_SUBJECT_CHARS)
        .map(|(hash, subject)| {
            format!("commit {hash}: subject over {MAX_SUBJECT_CHARS} characters: {subject}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subject_is_found() {
        let log = format!("abc dialer: drop silent peers\ndef {}\n", "x".repeat(73));
        assert_eq!(too_long(&log).len(), 1);
    }
}
