//! Key files: readable by their owner alone, written as a whole, and never overwritten.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use secrecy::SecretString;

use crate::error::CertsError;

/// Limit of a key file in bytes; real ones are far smaller.
const MAX_KEY_FILE_BYTES: u64 = 64 * 1024;

/// Reads a key file; `Ok(None)` if there is none.
///
/// # Errors
/// `FL-4103` if others than its owner have access, or it cannot be read as text.
pub fn read(path: &Path) -> Result<Option<SecretString>, CertsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CertsError::io(path, error)),
    };
    let about = file
        .metadata()
        .map_err(|error| CertsError::io(path, error))?;
    if !about.is_file() {
        return Err(CertsError::file(path, "it is not a file"));
    }
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let detail = format!("others may touch it (mode {mode:04o}); run `chmod 600` on it");
        return Err(CertsError::file(path, detail));
    }
    let mut text = String::new();
    file.take(MAX_KEY_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| CertsError::io(path, error))?;
    Ok(Some(text.into()))
}

/// Writes a new key file, mode 0600.
///
/// # Errors
/// `FL-4103` if it exists or cannot be written.
pub fn create(path: &Path, text: &str) -> Result<(), CertsError> {
    write_new(path, text, 0o600)
}

/// Writes a new file that is not secret, mode 0644.
pub(crate) fn create_public(path: &Path, text: &str) -> Result<(), CertsError> {
    write_new(path, text, 0o644)
}

/// Writes a draft beside the target, syncs it, and renames it. After a crash the whole file is there or none.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CertsError> {
    let fail = |error| CertsError::io(path, error);
    if path.symlink_metadata().is_ok() {
        return Err(CertsError::file(
            path,
            "it exists already and is never overwritten",
        ));
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = Path::new(&draft);
    // A draft that a crash left behind may have other permissions.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(draft)
        .map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    fs::rename(draft, path).map_err(fail)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlead_api::Code;
    use secrecy::ExposeSecret;

    #[test]
    fn key_file_is_private_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.key");
        assert!(read(&path).unwrap().is_none());
        create(&path, "secret").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(read(&path).unwrap().unwrap().expose_secret(), "secret");
        assert_eq!(create(&path, "other").unwrap_err().code(), Code::DataDir);
        assert_eq!(read(&path).unwrap().unwrap().expose_secret(), "secret");
    }

    #[test]
    fn draft_of_a_crash_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.key");
        fs::write(dir.path().join("some.key.new"), "half").unwrap();
        create(&path, "whole").unwrap();
        assert_eq!(read(&path).unwrap().unwrap().expose_secret(), "whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_file_that_others_may_touch_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.key");
        create(&path, "secret").unwrap();
        for mode in [0o640, 0o604, 0o660, 0o610, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let failure = read(&path).unwrap_err();
            assert_eq!(failure.code(), Code::DataDir, "{mode:o}");
            assert!(failure.to_string().contains("chmod 600"));
        }
    }
}
