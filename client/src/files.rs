//! Atomic writing of files, and reading of secrets. A file is written under a temporary name and then renamed.

use fairlead_runtime::atomic_file;
use std::{
    fmt::Display,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure, error_chain};
use secrecy::SecretString;

/// Unusable file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file or folder cannot be read.
    #[error("{name}")]
    Read {
        /// Path, or the name of an input.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{name}")]
    Write {
        /// Path of the file.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The token file is empty.
    #[error("{0} is empty")]
    NoToken(String),
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let because = |code| Failure::because(code, error_chain(&error));
        match &error {
            FileError::Read { .. } => because(Code::CannotRead),
            FileError::Write { .. } => because(Code::CannotWrite),
            FileError::NoToken(_) => {
                because(Code::BadConfig).next("Put a token from `fairlead token create` into it.")
            }
        }
    }
}

/// Writes a file atomically, readable by its owner only.
///
/// # Errors
/// [`FileError::Write`]
pub fn write(path: &Path, content: &str) -> Result<(), FileError> {
    write_with_mode(path, content, 0o600)
}

/// As [`write`], with another mode.
pub(crate) fn write_with_mode(path: &Path, content: &str, mode: u32) -> Result<(), FileError> {
    // A symbolic link stays; its target is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A device or pipe is written directly, because a rename would replace it by a file.
        if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
            let mut file = OpenOptions::new().write(true).open(path)?;
            return file.write_all(content.as_bytes());
        }
        atomic_file::replace_concurrently(path, content.as_bytes(), mode)
    };
    write().map_err(|source| FileError::Write {
        name: path.display().to_string(),
        source,
    })
}

/// Reads a text file.
///
/// # Errors
/// [`FileError::Read`]
pub fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|error| unreadable(path.display(), error))
}

fn unreadable(name: impl Display, source: io::Error) -> FileError {
    FileError::Read {
        name: name.to_string(),
        source,
    }
}

/// Reads a bearer token from a file, or from standard input for `-`.
///
/// # Errors
/// [`FileError::Read`], [`FileError::NoToken`]
pub fn token(path: &Path) -> Result<SecretString, FileError> {
    let (name, text) = match path.as_os_str() == "-" {
        true => from_standard_input()?,
        false => {
            let name = format!("the token file {}", path.display());
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| unreadable(&name, error))?;
            (name, text)
        }
    };
    let token = text.trim();
    if token.is_empty() {
        return Err(FileError::NoToken(name));
    }
    Ok(token.into())
}

/// Reads a secret from a file, without the line end. An empty file is an error.
///
/// # Errors
/// A sentence with the file and the error.
pub fn read_secret(path: &Path) -> Result<SecretString, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    let text = text.and_then(|text| match text.trim().is_empty() {
        true => Err("the file is empty".to_owned()),
        false => Ok(text.trim_end_matches(['\r', '\n']).into()),
    });
    text.map_err(|cause| format!("{}: {cause}", path.display()))
}

/// Reads the files of `-f`, each text with its name. A folder stands for its YAML and JSON files in order of their names, and
/// `-` for standard input.
///
/// # Errors
/// [`FileError::Read`]
pub fn texts(paths: &[PathBuf]) -> Result<Vec<(String, String)>, FileError> {
    let mut texts = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            texts.push(from_standard_input()?);
            continue;
        }
        let files = match path.is_dir() {
            true => objects_in(path)?,
            false => vec![path.clone()],
        };
        for file in files {
            texts.push((file.display().to_string(), read(&file)?));
        }
    }
    Ok(texts)
}

fn from_standard_input() -> Result<(String, String), FileError> {
    const NAME: &str = "standard input";
    let mut text = String::new();
    let read = io::stdin().lock().read_to_string(&mut text);
    read.map_err(|error| unreadable(NAME, error))?;
    Ok((NAME.to_owned(), text))
}

fn objects_in(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let told = |error| unreadable(folder.display(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let extension = path.extension().and_then(|it| it.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, symlink},
    };

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn missing_or_empty_token_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let missing = Failure::from(token(&file).unwrap_err());
        assert!(missing.cause.contains("No such file"), "{missing:?}");
        assert!(missing.next_step().contains("path"), "{missing:?}");
        fs::write(&file, " \n").unwrap();
        let empty = Failure::from(token(&file).unwrap_err());
        assert!(empty.cause.ends_with("is empty"), "{empty:?}");
        fs::write(&file, "flt_x\n").unwrap();
        assert_eq!(token(&file).unwrap().expose_secret(), "flt_x");
    }

    #[test]
    fn link_and_device_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o600);
        // Like the reader of `>(...)` in a shell.
        let (mut reader, writer) = io::pipe().unwrap();
        let pipe = format!("/proc/self/fd/{}", writer.as_raw_fd());
        write(Path::new(&pipe), "text").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn empty_secret_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let read = || read_secret(&file);
        assert!(read().unwrap_err().contains("No such file"));
        fs::write(&file, "\n").unwrap();
        let cause = read().unwrap_err();
        assert!(cause.contains("secret: the file is empty"), "{cause}");
        fs::write(&file, " a b\r\n").unwrap();
        assert_eq!(read().unwrap().expose_secret(), " a b");
    }
}
