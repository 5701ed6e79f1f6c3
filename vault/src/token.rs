//! Files with credentials for Vault, read anew for each use, so that a replaced one is used at once.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use secrecy::SecretString;

/// Limit of such a file, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;
/// Bit of a file mode: users other than owner and group may read.
const OTHERS_READ: u32 = 0o004;

/// Reads the file of a setting. The errors contain neither content nor path.
///
/// # Errors
/// The reason, with the name of the setting.
pub(crate) fn read(field: &str, path: &Path) -> Result<SecretString, String> {
    let metadata = fs::metadata(path).map_err(|error| format!("{field}: {error}"))?;
    if metadata.mode() & OTHERS_READ != 0 {
        let cause = "all users may read the file; remove that right (chmod o-r)";
        return Err(format!("{field}: {cause}"));
    }
    read_mounted(field, path)
}

/// As [`read`], for a file that Kubernetes mounts into a pod: there all users of the container may read it.
///
/// # Errors
/// The reason, with the name of the setting.
pub(crate) fn read_mounted(field: &str, path: &Path) -> Result<SecretString, String> {
    let at = |cause: String| format!("{field}: {cause}");
    let metadata = fs::metadata(path).map_err(|error| at(error.to_string()))?;
    if metadata.len() > MAX_TOKEN_BYTES {
        return Err(at("the file is too large".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    match text.trim() {
        "" => Err(at("the file is empty".to_owned())),
        token if token.chars().any(|it| !it.is_ascii_graphic()) => {
            Err(at("the token has invalid characters".to_owned()))
        }
        token => Ok(token.to_owned().into()),
    }
}
