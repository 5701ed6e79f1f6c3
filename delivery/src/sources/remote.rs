//! References of a remote repository, and the one that a source names.

use std::collections::BTreeMap;

use fairlead_api::Code;
use semver::{Version, VersionReq};

use super::{
    access::GitAccess,
    failure::SourceFailure,
    git::{Git, GitCall},
};

/// Prefix of a range of versions.
const SEMVER: &str = "semver:";
/// Limit of the list of references, in bytes.
const MAX_REFERENCES_BYTES: u64 = 16 * 1024 * 1024;

/// Reference that a source names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reference {
    /// A commit.
    Commit(String),
    /// Newest tag in a range of versions.
    Versions(VersionReq),
    /// A branch, or else a tag.
    Name(String),
}

/// Error of parsing a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error("expected a branch, a tag, a commit, or `semver:` and a range")]
    Form,
    #[error("`semver:` needs a range like `1.x` or `>=1.2, <2`: {0}")]
    Range(String),
}

impl std::str::FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if let Some(range) = text.strip_prefix(SEMVER) {
            let range = VersionReq::parse(range.trim());
            let range = range.map_err(|error| ReferenceError::Range(error.to_string()))?;
            return Ok(Reference::Versions(range));
        }
        if text.len() == 40
            && text
                .bytes()
                .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Ok(Reference::Commit(text.to_owned()));
        }
        // Rules of `git check-ref-format`, a little narrower.
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./+@#".contains(it);
        let is_name = !text.is_empty()
            && text.len() <= 255
            && text.chars().all(is_plain)
            && !text.starts_with(['-', '.', '/'])
            && !text.ends_with(['.', '/'])
            && !text.ends_with(".lock")
            && !["..", "//", "/.", "@{"].iter().any(|it| text.contains(it));
        match is_name {
            true => Ok(Reference::Name(text.to_owned())),
            false => Err(ReferenceError::Form),
        }
    }
}

/// Target of a reference in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteTarget {
    /// Commit at the time of the poll.
    pub(super) commit: String,
    /// Full name to fetch, or the commit itself.
    pub(super) fetch: String,
}

/// Finds the target of a reference.
///
/// # Errors
/// [`SourceFailure`] of git, or `FL-6604`.
pub(super) async fn resolve(
    git: &Git,
    access: &GitAccess,
    (url, reference): (&str, &Reference),
) -> Result<RemoteTarget, SourceFailure> {
    if let Reference::Commit(commit) = reference {
        return Ok(RemoteTarget {
            commit: commit.clone(),
            fetch: commit.clone(),
        });
    }
    let mut call = GitCall::new(["ls-remote", "--heads", "--tags", "--", url]);
    call.max_output = MAX_REFERENCES_BYTES;
    let output = git.run(None, call.environment(&access.environment)).await?;
    let output = String::from_utf8_lossy(&output);
    target(&parse(&output), reference)
}

/// Commits by full name of their reference; of annotated tags the commit behind them.
fn parse(output: &str) -> BTreeMap<&str, &str> {
    let mut references = BTreeMap::new();
    for line in output.lines() {
        let Some((commit, name)) = line.split_once('\t') else {
            continue;
        };
        match name.strip_suffix("^{}") {
            Some(tag) => drop(references.insert(tag, commit)),
            // The line with the commit of an annotated tag comes after that of the tag.
            None => drop(references.insert(name, commit)),
        }
    }
    references
}

fn target(
    references: &BTreeMap<&str, &str>,
    reference: &Reference,
) -> Result<RemoteTarget, SourceFailure> {
    let of_name = |name: String| {
        let commit = references.get(name.as_str())?;
        Some(RemoteTarget {
            commit: (*commit).to_owned(),
            fetch: name,
        })
    };
    let missing = |cause: String| SourceFailure::new(Code::NoSuchRef, cause);
    match reference {
        Reference::Commit(commit) => Ok(RemoteTarget {
            commit: commit.clone(),
            fetch: commit.clone(),
        }),
        Reference::Name(name) => {
            let branch = of_name(format!("refs/heads/{name}"));
            let found = branch.or_else(|| of_name(format!("refs/tags/{name}")));
            found.ok_or_else(|| missing(format!("there is no branch and no tag {name:?}")))
        }
        Reference::Versions(range) => {
            let newest = newest(references, range);
            let found = newest.and_then(|tag| of_name(tag.to_owned()));
            found.ok_or_else(|| missing(format!("no tag is a version in the range {range}")))
        }
    }
}

/// Full name of the newest tag in the range. A leading `v` is allowed.
fn newest<'a>(references: &BTreeMap<&'a str, &str>, range: &VersionReq) -> Option<&'a str> {
    let versions = references.keys().filter_map(|name| {
        let tag = name.strip_prefix("refs/tags/")?;
        let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
        range.matches(&version).then_some((version, *name))
    });
    versions.max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "aa\trefs/heads/main\nbb\trefs/heads/v1.0.0\ncc\trefs/tags/v1.0.0\ndd\trefs/tags/v1.0.0^{}\n\
        ee\trefs/tags/v1.10.0\nff\trefs/tags/1.9.0\n11\trefs/tags/v2.0.0-rc.1\n22\trefs/tags/latest\n";

    fn found(reference: &str) -> Result<RemoteTarget, Code> {
        let found = target(&parse(LIST), &reference.parse().unwrap());
        found.map_err(|it| it.code)
    }

    #[test]
    fn branches_come_before_tags() {
        let target = |commit: &str, fetch: &str| {
            Ok(RemoteTarget {
                commit: commit.to_owned(),
                fetch: fetch.to_owned(),
            })
        };
        assert_eq!(found("main"), target("aa", "refs/heads/main"));
        assert_eq!(found("v1.0.0"), target("bb", "refs/heads/v1.0.0"));
        assert_eq!(found("latest"), target("22", "refs/tags/latest"));
        assert_eq!(found("gone"), Err(Code::NoSuchRef));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(found(commit), target(commit, commit));
    }

    #[test]
    fn newest_version_of_a_range_wins() {
        let name = |range: &str| found(range).map(|it| it.fetch);
        assert_eq!(name("semver:1.x").unwrap(), "refs/tags/v1.10.0");
        assert_eq!(name("semver:<1.10").unwrap(), "refs/tags/1.9.0");
        assert_eq!(name("semver:=1.0.0").unwrap(), "refs/tags/v1.0.0");
        assert_eq!(found("semver:=1.0.0").unwrap().commit, "dd");
        assert_eq!(name("semver:>=2"), Err(Code::NoSuchRef));
    }

    #[test]
    fn references_that_git_would_misread_are_refused() {
        for bad in [
            "",
            "-x",
            "--upload-pack=x",
            "a b",
            "a..b",
            "a:b",
            "/a",
            "a/",
            "a.lock",
            "a@{1}",
            "semver:1.x.y.z",
            "ä",
            "HEAD^",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad:?}");
        }
    }
}
