//! Long calls of kubectl that a test ends: exec, watch, logs and port-forward.

use std::{process::ExitStatus, time::Duration};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::kubectl::{Kubectl, RunningKubectl};

/// Time in which each running request without access ends.
pub const END_DEADLINE: Duration = Duration::from_secs(10);
/// Kinds of the calls in the list of running requests.
pub const CALL_KINDS: [&str; 4] = ["exec", "watch", "log", "port-forward"];
const ECHO_PORT: u16 = 7;
/// Deadline of an answer through a new port-forward.
const ECHO_DEADLINE: Duration = Duration::from_secs(30);
/// Name of an object, or message of the `Status` in the last event.
const WATCHED_FIELDS: &str = "jsonpath={.metadata.name}{.message}{'\\n'}";

/// An exec, a watch, a log and a port-forward with an open connection.
#[derive(Debug)]
pub struct RunningCalls {
    label: String,
    calls: Vec<(&'static str, RunningKubectl)>,
    forwarded: TcpStream,
}

impl RunningCalls {
    /// Starts all four; the exec goes to the first pod, the others to the second.
    ///
    /// The log of the second pod must have a line, and must not end: with its container `kubectl logs -f` ends, too.
    ///
    /// # Errors
    /// One of them does not start.
    pub async fn start(
        label: impl Into<String>,
        kubectl: impl Fn() -> Kubectl,
        pods: [&str; 2],
    ) -> anyhow::Result<Self> {
        let [exec_pod, other_pod] = pods;
        let lines: [(&str, &[&str]); 3] = [
            (
                "exec",
                &[
                    "exec",
                    "-i",
                    exec_pod,
                    "--",
                    "sh",
                    "-c",
                    "echo started; sleep 120",
                ],
            ),
            ("watch", &["get", "namespaces", "-w", "-o", WATCHED_FIELDS]),
            ("logs", &["logs", "-f", other_pod]),
        ];
        let mut calls = Vec::new();
        for (name, args) in lines {
            let mut running = kubectl().args(args).spawn()?;
            let line = running.next_line().await?;
            line.with_context(|| format!("{name} prints a line"))?;
            calls.push((name, running));
        }
        let target = format!("pod/{other_pod}");
        let (port, forward) = kubectl().port_forward(&target, ECHO_PORT).await?;
        calls.push(("port-forward", forward));
        let mut forwarded = TcpStream::connect(("127.0.0.1", port)).await?;
        forwarded.write_all(b"ping").await?;
        let mut answer = [0; 4];
        timeout(ECHO_DEADLINE, forwarded.read_exact(&mut answer)).await??;
        ensure!(&answer == b"ping", "{answer:?}");
        Ok(Self {
            label: label.into(),
            calls,
            forwarded,
        })
    }

    /// Waits until all have ended, each with this reason in its own form. Returns the longest time.
    ///
    /// # Errors
    /// One of them runs longer than [`END_DEADLINE`], or ends without the reason.
    pub async fn all_end(self, since: Instant, reason: &str) -> anyhow::Result<Duration> {
        let left = END_DEADLINE.saturating_sub(since.elapsed());
        let mut waiting = JoinSet::new();
        for (name, mut kubectl) in self.calls {
            let (label, reason) = (self.label.clone(), reason.to_owned());
            waiting.spawn(async move {
                let Ok(ended) = timeout(left, kubectl_end(&mut kubectl)).await else {
                    return Ok(Some(format!("{label}: {name} still runs")));
                };
                let (status, text) = ended?;
                // kubectl prints the `Status` of a watch like any object, also that of an API server, and exits with 0.
                let expected = if name == "watch" { 0 } else { 1 };
                let is_good = status.code() == Some(expected) && text.contains(&reason);
                anyhow::Ok((!is_good).then(|| format!("{label}: {name}: {status}: {text}")))
            });
        }
        let mut failed = Vec::new();
        while let Some(ended) = waiting.join_next().await {
            failed.extend(ended??);
        }
        drop(self.forwarded);
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(since.elapsed())
    }
}

/// Reads all output until the end; returns the exit status, and both outputs.
async fn kubectl_end(kubectl: &mut RunningKubectl) -> anyhow::Result<(ExitStatus, String)> {
    let mut printed = String::new();
    while let Some(line) = kubectl.next_line().await? {
        printed.push_str(&line);
        printed.push('\n');
    }
    let status = kubectl.wait().await?;
    Ok((status, format!("{printed}{}", kubectl.stderr())))
}
