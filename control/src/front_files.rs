//! Files of the front's certificate (`--tls-cert`, `--tls-key`), which another program renews.

use std::{fs, path::PathBuf};

use fairlead_api::{Code, Failure};
use fairlead_certs::Leaf;

/// Paths of the configured certificate of the front.
#[derive(Debug, Clone)]
pub struct FrontFiles {
    /// Certificate chain in PEM, leaf first.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

impl FrontFiles {
    /// Reads both files. It blocks.
    ///
    /// # Errors
    /// `FL-4119` if a file cannot be read; `FL-4101` if they are damaged or do not belong together.
    pub(crate) fn read(&self) -> Result<Leaf, Failure> {
        let text = |path: &PathBuf| {
            fs::read_to_string(path).map_err(|error| {
                Failure::because(Code::CannotRead, format!("{}: {error}", path.display()))
            })
        };
        Ok(Leaf::from_pem(
            &text(&self.certificate)?,
            &text(&self.key)?,
        )?)
    }
}
