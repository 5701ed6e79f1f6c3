//! Token for Vault, read anew for each use, so that a replaced file is used at once.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use secrecy::SecretString;

/// Limit of a file with a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;
/// Bit of a file mode: users other than owner and group may read.
const OTHERS_READ: u32 = 0o004;

/// Reads the token. The errors contain neither token nor path.
///
/// # Errors
/// The reason.
pub(crate) fn read(path: &Path) -> Result<SecretString, String> {
    let at = |cause: String| format!("token_file: {cause}");
    let metadata = fs::metadata(path).map_err(|error| at(error.to_string()))?;
    if metadata.mode() & OTHERS_READ != 0 {
        let cause = "all users may read the file; remove that right (chmod o-r)";
        return Err(at(cause.to_owned()));
    }
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
