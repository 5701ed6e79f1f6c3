//! Manifests as `kubectl` reads them: YAML 1.1 scalars, documents between `---` lines, JSON, opened lists.
//!
//! Two rules are stricter. A key that occurs twice is refused; `kubectl` takes the last one. Text after `...` is refused;
//! `kubectl` drops it. The scanner is one of YAML 1.2, so U+0085, U+2028 and U+2029 are no line breaks.

mod json;
mod objects;
mod scalars;
mod split;
mod tree;

use std::{fmt, sync::Arc};

use serde_json::Value;

/// Largest number of objects of a bundle.
pub const MAX_OBJECTS: usize = 10_000;

/// Position of a document in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Path in the bundle.
    pub file: Arc<str>,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// Line in the file, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            file,
            document,
            line,
        } = self;
        write!(f, "{file}, document {document}, line {line}")
    }
}

/// An object of a bundle and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object. It has `apiVersion`, `kind` and `metadata.name`.
    pub object: Value,
    /// First line of its document.
    pub place: Place,
}

/// A file that is no list of objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ManifestError {
    /// Position of the problem.
    pub place: Place,
    /// Cause.
    pub problem: Problem,
}

/// Cause of a [`ManifestError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file is not UTF-8.
    #[error("the file is not UTF-8")]
    Encoding,
    /// The document breaks the grammar of YAML or JSON.
    #[error("{0}")]
    Syntax(String),
    /// A key occurs twice in one map.
    #[error("key {0:?} occurs twice")]
    DuplicateKey(String),
    /// The value has no form in JSON.
    #[error("{0:?} has no form in JSON")]
    NoJson(String),
    /// The value does not fit its tag.
    #[error("{value:?} is no {tag}")]
    Tag {
        /// Text of the scalar.
        value: String,
        /// Tag, like `!!int`.
        tag: String,
    },
    /// A list, map or null serves as a key.
    #[error("a key must be a string, a number or a boolean")]
    Key,
    /// The value of `<<` is no map.
    #[error("the value of `<<` must be a map or a list of maps")]
    Merge,
    /// An anchor contains an alias of itself.
    #[error("an anchor contains itself")]
    Cycle,
    /// Aliases multiply the document.
    #[error("aliases make the document larger than {0} bytes")]
    Aliases(usize),
    /// The document is no map.
    #[error("an object must be a map")]
    NoMap,
    /// A field of every object is missing.
    #[error("{0} is missing, or is no string")]
    Missing(&'static str),
    /// The name is left to the API server.
    #[error("generateName makes a new object on each apply; set metadata.name")]
    GeneratedName,
    /// The bundle has too many objects.
    #[error("the bundle has more than {MAX_OBJECTS} objects")]
    TooMany,
}

/// True for files that hold manifests, by their path in the bundle.
#[must_use]
pub fn is_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let hidden = path.split('/').any(|it| it.starts_with('.'));
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    !hidden
        && matches!(extension, Some("yaml" | "yml" | "json"))
        && !matches!(path, "fairlead.yaml" | "fairlead.yml")
}

/// Reads the objects of one file.
///
/// # Errors
/// The first problem of the file.
pub fn parse(file: &str, content: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    append(&mut manifests, file, content)?;
    Ok(manifests)
}

/// Reads the objects of all files, in their order.
///
/// # Errors
/// The first problem of the files.
pub fn parse_all<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for (file, content) in files {
        append(&mut manifests, file, content)?;
    }
    Ok(manifests)
}

/// Reads the documents of a file as values, without the checks of objects.
///
/// # Errors
/// The first problem of the file.
pub fn values(file: &str, content: &[u8]) -> Result<Vec<(Value, Place)>, ManifestError> {
    let file: Arc<str> = file.into();
    let text = std::str::from_utf8(content).map_err(|_| ManifestError {
        place: Place {
            file: file.clone(),
            document: 1,
            line: 1,
        },
        problem: Problem::Encoding,
    })?;
    let mut documents = Vec::new();
    let rest = json::documents(&file, text, &mut documents)?;
    for chunk in split::chunks(&file, text, rest, documents.len() + 1) {
        let chunk = chunk?;
        let line = chunk.place.line;
        let value = tree::value(&chunk.text).map_err(|(at, problem)| ManifestError {
            place: Place {
                line: line + at.saturating_sub(1),
                ..chunk.place.clone()
            },
            problem,
        })?;
        documents.extend(value.map(|it| (it, chunk.place)));
    }
    Ok(documents)
}

fn append(manifests: &mut Vec<Manifest>, file: &str, content: &[u8]) -> Result<(), ManifestError> {
    for (value, place) in values(file, content)? {
        objects::open(value, &place, 0, manifests)
            .map_err(|problem| ManifestError { place, problem })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
