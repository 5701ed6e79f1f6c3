//! Paths inside of a folder.

use super::{
    error::{FolderError, PathProblem},
    limits::MAX_PATH_BYTES,
};

/// Bits of a mode with the type of a file.
const TYPE_MASK: u32 = 0o170_000;

/// The path without `.` and empty names; `None` for the folder itself and for anything below `.git`.
pub(super) fn checked(bytes: &[u8]) -> Result<Option<String>, FolderError> {
    let error = |problem| {
        Err(FolderError::Path {
            path: shown(bytes),
            problem,
        })
    };
    if bytes.len() > MAX_PATH_BYTES {
        return error(PathProblem::Length);
    }
    let Ok(text) = str::from_utf8(bytes) else {
        return error(PathProblem::Encoding);
    };
    if text.is_empty() {
        return error(PathProblem::Empty);
    }
    if text.starts_with('/') {
        return error(PathProblem::Absolute);
    }
    if text.contains(|c: char| c.is_control() || c == '\\') {
        return error(PathProblem::Character);
    }
    let mut path = String::with_capacity(text.len());
    for name in text.split('/') {
        match name {
            "" | "." => continue,
            ".." => return error(PathProblem::Parent),
            _ => {}
        }
        if name.eq_ignore_ascii_case(".git") {
            return Ok(None);
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name);
    }
    Ok((!path.is_empty()).then_some(path))
}

/// Start of a path for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(100).collect()
}

/// Accepts modes of regular files, with or without a type.
pub(super) fn check_mode(path: &str, mode: u32) -> Result<(), FolderError> {
    let kind = match mode & TYPE_MASK {
        0 | 0o100_000 => return Ok(()),
        0o120_000 => "symbolic link",
        0o160_000 => "Git submodule",
        0o040_000 => "folder",
        _ => "special file",
    };
    let path = shown(path.as_bytes());
    Err(FolderError::Kind { path, kind })
}

/// Refuses paths that are one file on systems without case, and files below files.
pub(super) fn check_conflicts<'a>(paths: impl Iterator<Item = &'a str>) -> Result<(), FolderError> {
    let mut paths: Vec<(Vec<String>, &str)> = paths
        .map(|path| (path.split('/').map(str::to_lowercase).collect(), path))
        .collect();
    // Paths with the same folded prefix are neighbours, so each conflict shows in a pair of neighbours.
    paths.sort_unstable();
    for pair in paths.windows(2) {
        let [(folded_a, a), (folded_b, b)] = pair else {
            continue;
        };
        let names = a.split('/').zip(b.split('/'));
        let mut is_same = true;
        for ((a_name, b_name), (a_folded, b_folded)) in names.zip(folded_a.iter().zip(folded_b)) {
            if a_folded != b_folded {
                is_same = false;
                break;
            }
            if a_name != b_name {
                return Err(FolderError::Case((*a).to_owned(), (*b).to_owned()));
            }
        }
        if is_same {
            return Err(FolderError::FileAndFolder((*a).to_owned()));
        }
    }
    Ok(())
}
