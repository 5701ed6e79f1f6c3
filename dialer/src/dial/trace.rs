//! Record of a dial: the stages that it has passed, and the answer of a peer that refused.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderName, StatusCode, header};
use tokio::time::Instant;

use super::error::DialStage;
use crate::sync::lock;

/// Limit of a quoted body, in characters.
const MAX_BODY_CHARS: usize = 200;
/// Limit of a quoted header, in characters.
const MAX_HEADER_CHARS: usize = 200;

/// Stages that a dial has passed, with their times. Clones share one record.
#[derive(Debug, Clone)]
pub struct DialTrace(Arc<Mutex<Recorded>>);

#[derive(Debug)]
struct Recorded {
    /// End of the last passed stage, or the begin of the dial.
    since: Instant,
    passed: Vec<PassedStage>,
}

/// A stage that a dial has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedStage {
    /// The stage.
    pub stage: DialStage,
    /// Time since the stage before it.
    pub took: Duration,
    /// Found address, protocol or boxes: one clause without secrets, or empty.
    pub detail: String,
}

impl Default for DialTrace {
    fn default() -> Self {
        DialTrace(Arc::new(Mutex::new(Recorded {
            since: Instant::now(),
            passed: Vec::new(),
        })))
    }
}

impl DialTrace {
    /// Record of the stages passed so far.
    #[must_use]
    pub fn passed_stages(&self) -> Vec<PassedStage> {
        lock(&self.0).passed.clone()
    }

    /// Time since the last passed stage: that of the present one.
    #[must_use]
    pub fn present_stage_time(&self) -> Duration {
        lock(&self.0).since.elapsed()
    }

    pub(super) fn pass(&self, stage: DialStage, detail: impl fmt::Display) {
        let mut recorded = lock(&self.0);
        let took = recorded.since.elapsed();
        recorded.since = Instant::now();
        recorded.passed.push(PassedStage {
            stage,
            took,
            detail: detail.to_string(),
        });
    }
}

/// Answer of a peer that refused a CONNECT or an upgrade, as evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalEvidence {
    /// HTTP status.
    pub status: u16,
    /// Header `Server`.
    pub server: Option<String>,
    /// Header `Via`, or another one that names a box on the path.
    pub via: Option<String>,
    /// Header `Location` of a redirect, without its query.
    pub location: Option<String>,
    /// First 200 printable characters of the body.
    pub body: String,
}

impl RefusalEvidence {
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        // A login page may get the address of its visitor, or a session, in the query.
        let location = text(headers, &header::LOCATION);
        let location = location.map(|it| it.split(['?', '#']).next().unwrap_or("").to_owned());
        RefusalEvidence {
            status: status.as_u16(),
            server: text(headers, &header::SERVER),
            via: boxes(headers),
            location,
            body: printable(&String::from_utf8_lossy(body), MAX_BODY_CHARS),
        }
    }
}

impl fmt::Display for RefusalEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        for (name, value) in [
            ("Server", &self.server),
            ("Via", &self.via),
            ("Location", &self.location),
        ] {
            if let Some(value) = value {
                write!(f, "; {name}: {value}")?;
            }
        }
        match self.body.as_str() {
            "" => Ok(()),
            body => write!(f, "; body: {body}"),
        }
    }
}

/// Boxes on the path that a response names.
pub(super) fn boxes(headers: &HeaderMap) -> Option<String> {
    text(headers, &header::VIA)
        .or_else(|| text(headers, &HeaderName::from_static("x-squid-error")))
        .or_else(|| text(headers, &HeaderName::from_static("proxy-agent")))
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = String::from_utf8_lossy(headers.get(name)?.as_bytes());
    Some(printable(&value, MAX_HEADER_CHARS)).filter(|value| !value.is_empty())
}

/// Printable characters, with one blank in place of each gap.
fn printable(text: &str, limit: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let text = words.join(" ");
    text.chars()
        .filter(|c| *c != char::REPLACEMENT_CHARACTER)
        .take(limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_short_and_printable() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::SERVER, "squid/6.1"),
            (header::VIA, "1.1 corp-proxy"),
            (header::LOCATION, "https://login.example/start?ticket=42"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let body = [b"<html>\r\n\x1b[31m\xff".as_slice(), &[b'x'; 400]].concat();
        let evidence = RefusalEvidence::new(StatusCode::FORBIDDEN, &headers, &body);
        assert_eq!(evidence.body.chars().count(), MAX_BODY_CHARS);
        assert!(evidence.body.starts_with("<html> [31mxxx"), "{evidence}");
        let shown = evidence.to_string();
        let head = "status 403; Server: squid/6.1; Via: 1.1 corp-proxy; Location: https://login.example/start; body: ";
        assert!(shown.starts_with(head), "{shown}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_stage_has_its_own_time() {
        let trace = DialTrace::default();
        let clone = trace.clone();
        tokio::time::advance(Duration::from_millis(3)).await;
        clone.pass(DialStage::Dns, "::1");
        tokio::time::advance(Duration::from_millis(5)).await;
        trace.pass(DialStage::Tcp, "");
        tokio::time::advance(Duration::from_millis(7)).await;
        let passed = trace.passed_stages();
        let took: Vec<_> = passed.iter().map(|it| it.took.as_millis()).collect();
        assert_eq!((took, passed[0].detail.as_str()), (vec![3, 5], "::1"));
        assert_eq!(trace.present_stage_time(), Duration::from_millis(7));
    }
}
