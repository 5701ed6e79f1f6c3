//! Names in requests, parsed at the socket: none of them can be read as a flag or leave its folder.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

const MAX_RELEASE_CHARS: usize = 53;
const MAX_NAMESPACE_CHARS: usize = 63;
const MAX_PATH_BYTES: usize = 1024;
const MAX_COMPONENT_BYTES: usize = 255;
const MAX_PATH_COMPONENTS: usize = 32;

/// Error of parsing a name of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name of a release is invalid.
    #[error(
        "a release has up to 53 lower-case letters, digits, inner dashes and inner dots, not {0:?}"
    )]
    Release(String),
    /// The name of a namespace is invalid.
    #[error("a namespace has up to 63 lower-case letters, digits and inner dashes, not {0:?}")]
    Namespace(String),
    /// The path of a file is invalid.
    #[error("a file has a relative path of plain names, not {0:?}")]
    Path(String),
    /// The key of a run is invalid.
    #[error("a run is named by its id, a dot and its attempt, not {0:?}")]
    Key(String),
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr, $error:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err($error(text.to_owned())) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Name of a Helm release: a DNS name of 53 characters at most.
    ReleaseName,
    |text| text.len() <= MAX_RELEASE_CHARS && text.split('.').all(is_label),
    NameError::Release
);

name!(
    /// Name of a namespace: a DNS label.
    Namespace,
    |text| text.len() <= MAX_NAMESPACE_CHARS && is_label(text),
    NameError::Namespace
);

name!(
    /// Path of a file below the folder of a run, with `/` between plain names.
    FilePath,
    |text| text.len() <= MAX_PATH_BYTES
        && text.split('/').count() <= MAX_PATH_COMPONENTS
        && text.split('/').all(is_component),
    NameError::Path
);

impl FilePath {
    /// Whether `other` is this path, or in the folder of this path.
    #[must_use]
    pub fn contains(&self, other: &FilePath) -> bool {
        let rest = other.0.strip_prefix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn to_path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }
}

fn is_label(text: &str) -> bool {
    let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_component(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && text.len() <= MAX_COMPONENT_BYTES
        && !text.chars().any(|c| c.is_control() || c == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../b",
            "a//b",
            "a/",
            "./a",
            "a/.",
            "a\0b",
            "a\nb",
            "a\\b",
            &"x".repeat(256),
            &"a/".repeat(40),
            &format!("{}a", "abcdefgh/".repeat(200)),
        ] {
            assert!(bad.parse::<FilePath>().is_err(), "{bad:?} must be refused");
        }
        for good in [
            "a",
            "chart/templates/_helpers.tpl",
            "…/ü.yaml",
            "..a/b..",
            "-f",
            ".helmignore",
        ] {
            assert!(
                good.parse::<FilePath>().is_ok(),
                "{good:?} must be accepted"
            );
        }
    }

    #[test]
    fn folder_contains_its_files_only() {
        let folder: FilePath = "chart".parse().unwrap();
        for (path, inside) in [
            ("chart", true),
            ("chart/Chart.yaml", true),
            ("charts/x", false),
            ("x/chart", false),
        ] {
            assert_eq!(folder.contains(&path.parse().unwrap()), inside, "{path}");
        }
    }

    #[test]
    fn names_that_are_flags_are_refused() {
        for bad in [
            "",
            "-f",
            "--post-renderer=x",
            "A",
            "a b",
            "a;b",
            "a..b",
            ".a",
            "a-",
            "a/b",
            "ä",
        ] {
            assert!(bad.parse::<ReleaseName>().is_err(), "{bad:?}");
            assert!(bad.parse::<Namespace>().is_err(), "{bad:?}");
        }
        assert!("a.b".parse::<ReleaseName>().is_ok());
        assert!("a.b".parse::<Namespace>().is_err());
        assert!("x".repeat(54).parse::<ReleaseName>().is_err());
    }
}
