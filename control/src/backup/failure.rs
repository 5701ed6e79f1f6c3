//! The failure of a file in the data directory.

use std::path::Path;

use fairlead_api::{Code, Failure};

/// `FL-4103` with the path and the error.
pub(super) fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(Code::DataDir, format_args!("{}: {error}", path.display()))
}
