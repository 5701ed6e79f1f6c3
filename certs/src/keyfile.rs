//! Key files: readable by their owner alone, and written as a whole.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use fairlead_runtime::atomic_file;
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

/// Writes a key file as a whole, mode 0600; replaces an existing one.
///
/// # Errors
/// `FL-4103` if it cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), CertsError> {
    atomic_file::replace(path, text.as_bytes(), 0o600).map_err(|error| CertsError::io(path, error))
}

/// Writes a new file that is not secret, mode 0644.
pub(crate) fn create_public(path: &Path, text: &str) -> Result<(), CertsError> {
    write_new(path, text, 0o644)
}

/// Writes a draft beside the target, syncs it, and renames it. After a crash the whole file is there or none.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CertsError> {
    if path.symlink_metadata().is_ok() {
        return Err(CertsError::file(
            path,
            "it exists already and is never overwritten",
        ));
    }
    atomic_file::replace(path, text.as_bytes(), mode).map_err(|error| CertsError::io(path, error))
}

#[cfg(test)]
mod tests {
    use std::fs;

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
