//! Files that are replaced as a whole: after a crash the old content is there or the new one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Replaces a file: writes a new one beside it with this mode, syncs it, and renames it into place.
///
/// The folder is synced too, so the new content survives a crash of the machine. The new file is `<name>.new` at first,
/// so one process at a time may replace a file; see [`replace_concurrently`].
///
/// # Errors
/// The system's error; the old file is untouched then, and the new one is removed.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace_by(path, ".new", content, mode)
}

/// As [`replace`], for files that several processes may replace at once: the last one wins.
///
/// # Errors
/// As [`replace`].
pub fn replace_concurrently(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace_by(path, &format!(".{}.new", std::process::id()), content, mode)
}

fn replace_by(path: &Path, suffix: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    let draft = Path::new(&name);
    // A draft that a crash left behind may have other permissions, or be a link.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(draft)?;
    let moved = file.write_all(content).and_then(|()| rename(draft, path));
    if moved.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(draft);
    }
    moved
}

/// Gives a draft its final name, and syncs it and its folder, so that the new content survives a crash of the machine.
///
/// # Errors
/// The system's error. The draft remains where it is, unless only the sync of the folder failed.
pub fn rename(draft: &Path, path: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    fs::rename(draft, path)?;
    sync_folder_of(path)
}

/// Gives a draft its final name, as [`rename`], unless a file has that name. The draft remains as a second name.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`], and other errors of the system.
pub fn link(draft: &Path, path: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    fs::hard_link(draft, path)?;
    sync_folder_of(path)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn content_and_mode_are_replaced_and_no_draft_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::write(folder.path().join("file.new"), "half a draft").unwrap();
        replace(&path, b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn link_never_replaces_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, path) = (folder.path().join("draft"), folder.path().join("file"));
        fs::write(&draft, "new").unwrap();
        link(&draft, &path).unwrap();
        fs::write(&path, "old").unwrap();
        let error = link(&draft, &path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"new", 0o600).is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
