//! Reader and writer of backup files: plain, or encrypted with `age`.

use std::io::{self, BufRead, BufReader, Write};

use age::{DecryptError, Decryptor, Encryptor, Identity, Recipient, stream::StreamWriter, x25519};
use fairlead_api::{Code, Failure};
use secrecy::{ExposeSecret, SecretString};

/// Prefix of an encrypted file.
const MAGIC: &[u8] = b"age-encryption.org/";

/// Destination of a backup.
pub struct Sink(Inner);

enum Inner {
    Plain(Box<dyn Write + Send>),
    Sealed(Box<StreamWriter<Box<dyn Write + Send>>>),
}

impl Sink {
    /// Encrypts for `recipients` (`age1..`); with none, writes plain text.
    ///
    /// # Errors
    /// `FL-4101` for an invalid recipient, `FL-4112` if `to` rejects the header.
    pub fn new(to: Box<dyn Write + Send>, recipients: &[String]) -> Result<Self, Failure> {
        if recipients.is_empty() {
            return Ok(Sink(Inner::Plain(to)));
        }
        let parsed = recipients.iter().map(|text| {
            let parsed = text.parse::<x25519::Recipient>();
            parsed.map_err(|error| {
                Failure::because(Code::BadConfig, format_args!("--recipient {text}: {error}"))
            })
        });
        let parsed: Vec<x25519::Recipient> = parsed.collect::<Result<_, _>>()?;
        let parsed = parsed.iter().map(|recipient| recipient as &dyn Recipient);
        let encryptor = Encryptor::with_recipients(parsed)
            .map_err(|error| Failure::because(Code::BadConfig, error))?;
        let writer = encryptor
            .wrap_output(to)
            .map_err(|error| Failure::because(Code::CannotWrite, error))?;
        Ok(Sink(Inner::Sealed(Box::new(writer))))
    }

    /// Required: an encrypted file without its last block cannot be read.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.0 {
            Inner::Plain(mut to) => to.flush(),
            Inner::Sealed(writer) => writer.finish()?.flush(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Plain(to) => to.write(bytes),
            Inner::Sealed(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Inner::Plain(to) => to.flush(),
            Inner::Sealed(to) => to.flush(),
        }
    }
}

/// Opens a backup, decrypting it if needed; `identities` is a file written by `age-keygen`.
///
/// # Errors
/// `FL-4122` if it is encrypted and none of `identities` opens it, `FL-4109` if it is damaged.
pub fn opened(
    mut from: Box<dyn BufRead + Send>,
    identities: Option<&SecretString>,
) -> Result<Box<dyn BufRead + Send>, Failure> {
    let invalid = |detail: &dyn std::fmt::Display| {
        Failure::because(Code::Invalid, format_args!("the backup: {detail}"))
    };
    let start = from.fill_buf().map_err(|error| invalid(&error))?;
    if !start.starts_with(MAGIC) {
        return Ok(from);
    }
    let text =
        identities.ok_or_else(|| wrong_key("it is encrypted, and no --identity was given"))?;
    let keys = text.expose_secret().lines().map(str::trim);
    let keys = keys.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Result<Vec<x25519::Identity>, _> = keys.map(str::parse).collect();
    let keys = keys.map_err(|_| wrong_key("--identity is not a key file of age-keygen"))?;
    if keys.is_empty() {
        return Err(wrong_key("the file of --identity has no key"));
    }
    let decryptor = Decryptor::new_buffered(from).map_err(|error| invalid(&error))?;
    let keys = keys.iter().map(|key| key as &dyn Identity);
    let reader = decryptor.decrypt(keys).map_err(|error| match error {
        DecryptError::NoMatchingKeys => wrong_key("no key of --identity opens it"),
        error => invalid(&error),
    })?;
    Ok(Box::new(BufReader::new(reader)))
}

fn wrong_key(detail: &str) -> Failure {
    Failure::because(Code::WrongKey, detail)
}
