//! Subjects of the commits since the rule is there.

use std::{io, path::Path, process::Command};

const MAX_SUBJECT_CHARS: usize = 72;
/// Last commit before the rule.
const LAST_UNCHECKED: &str = "78eaf3a9279a8b317d35e7a4b745bbcfa740aecb";

/// Checks the commits of `HEAD` after [`LAST_UNCHECKED`], on a branch as on a detached head.
pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    // An unpacked archive has no commits. A worktree has a file of this name.
    if !root.join(".git").exists() {
        return Ok(Vec::new());
    }
    let since = format!("{LAST_UNCHECKED}..HEAD");
    let log = match git(root, &["log", "--no-merges", "--format=%h %s", &since]) {
        // The commit is missing in a shallow clone: all of its commits are younger.
        Err(_) => git(root, &["log", "--no-merges", "--format=%h %s", "HEAD"])?,
        Ok(log) => log,
    };
    Ok(too_long(&log))
}

/// Output of git. A failure of git is an error, so that a skipped check is not taken for a passed one.
fn git(root: &Path, args: &[&str]) -> io::Result<String> {
    let git = Command::new("git").args(args).current_dir(root).output()?;
    if !git.status.success() {
        let cause = String::from_utf8_lossy(&git.stderr);
        return Err(io::Error::other(format!("git: {}", cause.trim())));
    }
    Ok(String::from_utf8_lossy(&git.stdout).into_owned())
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
