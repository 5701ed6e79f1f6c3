//! Failures of sources: a code and one sentence.

use std::{fmt, io};

use fairlead_api::{Code, Failure};
use fairlead_store::StoreError;

/// Maximum length of a message of git in a reason, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// Reason why a source has no newer content. The last good content stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {cause}")]
pub(super) struct SourceFailure {
    pub(super) code: Code,
    /// One sentence without a full stop and without secrets.
    pub(super) cause: String,
}

/// Parts of git's and ssh's messages, and their meaning. The first match counts.
const MEANINGS: [(&str, Code); 19] = [
    ("host key verification failed", Code::HostKeyRefused),
    ("host identification has changed", Code::HostKeyRefused),
    ("host key is known for", Code::HostKeyRefused),
    ("permission denied", Code::GitAccessDenied),
    ("authentication failed", Code::GitAccessDenied),
    ("could not read username", Code::GitAccessDenied),
    ("could not read password", Code::GitAccessDenied),
    ("returned error: 401", Code::GitAccessDenied),
    ("returned error: 403", Code::GitAccessDenied),
    ("returned error: 429", Code::SourceUnreachable),
    ("returned error: 503", Code::SourceUnreachable),
    ("couldn't find remote ref", Code::NoSuchRef),
    ("not our ref", Code::NoSuchRef),
    ("does not allow request for unadvertised", Code::NoSuchRef),
    ("could not resolve host", Code::SourceUnreachable),
    ("unable to access", Code::SourceUnreachable),
    (
        "could not read from remote repository",
        Code::SourceUnreachable,
    ),
    ("not found", Code::SourceUnreachable),
    ("connection", Code::SourceUnreachable),
];

/// Parts of messages of git for the statuses 429 and 503, with which a server requests fewer polls.
///
/// Git prints the status, and no `Retry-After`. Its trace of all headers is made for people, and has no stable form.
const OVERLOADS: [&str; 2] = ["returned error: 429", "returned error: 503"];

impl SourceFailure {
    pub(super) fn new(code: Code, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        SourceFailure { code, cause }
    }

    pub(super) fn unreachable(cause: impl Into<String>) -> Self {
        SourceFailure::new(Code::SourceUnreachable, cause)
    }

    pub(super) fn git(cause: impl Into<String>) -> Self {
        SourceFailure::new(Code::GitFailed, cause)
    }

    /// A program that cannot be started.
    pub(super) fn program(program: &str, error: &io::Error) -> Self {
        SourceFailure::git(format!("{program} cannot be started: {error}"))
    }

    /// A folder of the source.
    pub(super) fn folder(path: &str, cause: impl fmt::Display) -> Self {
        SourceFailure::new(Code::BadSourceFolder, format!("folder {path:?}: {cause}"))
    }

    /// Failure of git by its messages.
    pub(super) fn of_messages(messages: &str) -> Self {
        let lower = messages.to_lowercase();
        let meaning = MEANINGS.iter().find(|(part, _)| lower.contains(part));
        let code = meaning.map_or(Code::GitFailed, |(_, code)| *code);
        let part = meaning.map(|(part, _)| *part);
        let lines = || messages.lines().map(str::trim).filter(|it| !it.is_empty());
        let matching = lines().find(|it| part.is_some_and(|part| it.to_lowercase().contains(part)));
        let line = matching
            .or_else(|| lines().next_back())
            .unwrap_or("no message");
        let line = line.trim_end_matches('.').chars();
        let line: String = line.filter(|it| !it.is_control()).collect();
        let line = without_elapsed(&line);
        let short: String = line.chars().take(MAX_MESSAGE_CHARS).collect();
        SourceFailure::new(code, format!("git: {short}"))
    }

    /// True if the server requests fewer polls.
    pub(super) fn is_overload(&self) -> bool {
        let is_unreachable = self.code == Code::SourceUnreachable;
        is_unreachable && OVERLOADS.iter().any(|it| self.cause.contains(it))
    }

    /// Sentence for people, with code and next step.
    pub(super) fn reason(&self) -> String {
        let (code, cause) = (self.code, &self.cause);
        format!("{code}: {}: {cause}. {}", code.title(), code.next_step())
    }
}

/// The line without curl's time of a failed connection, so that equal failures have equal messages.
fn without_elapsed(line: &str) -> String {
    let elapsed = line.split_once(" after ").and_then(|(before, rest)| {
        let unit = rest.trim_start_matches(|it: char| it.is_ascii_digit());
        let units = [" milliseconds", " ms"].into_iter();
        let end = units.filter_map(|it| unit.strip_prefix(it)).next()?;
        (unit.len() < rest.len()).then(|| format!("{before}{end}"))
    });
    elapsed.unwrap_or_else(|| line.to_owned())
}

impl From<StoreError> for SourceFailure {
    fn from(error: StoreError) -> Self {
        let failure = Failure::from(error);
        SourceFailure::new(failure.code, failure.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_429_and_503_are_overloads() {
        for (message, expected) in [
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 429",
                true,
            ),
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 503",
                true,
            ),
            (
                "error: RPC failed; HTTP 429 curl 22 The requested URL returned error: 429\nfatal: expected flush",
                true,
            ),
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 500",
                false,
            ),
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 403",
                false,
            ),
        ] {
            let failure = SourceFailure::of_messages(message);
            assert_eq!(failure.is_overload(), expected, "{message}");
        }
    }

    #[test]
    fn messages_have_codes() {
        for (messages, code, cause) in [
            (
                "@@@@\nHost key verification failed.\nfatal: Could not read from remote repository.\n",
                Code::HostKeyRefused,
                "git: Host key verification failed",
            ),
            (
                "fatal: unable to access 'https://git.test/a/': The requested URL returned error: 403\n",
                Code::GitAccessDenied,
                "git: fatal: unable to access 'https://git.test/a/': The requested URL returned error: 403",
            ),
            (
                "fatal: couldn't find remote ref refs/heads/gone\n",
                Code::NoSuchRef,
                "git: fatal: couldn't find remote ref refs/heads/gone",
            ),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x\n",
                Code::SourceUnreachable,
                "git: fatal: unable to access 'https://x/': Could not resolve host: x",
            ),
            (
                "fatal: unable to access 'https://x/': Failed to connect to x port 443 after 17 ms: Couldn't connect to server\n",
                Code::SourceUnreachable,
                "git: fatal: unable to access 'https://x/': Failed to connect to x port 443: Couldn't connect to server",
            ),
            ("strange\n\n", Code::GitFailed, "git: strange"),
            ("", Code::GitFailed, "git: no message"),
        ] {
            let failure = SourceFailure::of_messages(messages);
            assert_eq!((failure.code, failure.cause.as_str()), (code, cause));
        }
    }
}
