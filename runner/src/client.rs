//! The agent's side of the socket. Each call has a connection of its own, so a restarted runner needs no reconnect.

use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::{body::Frame, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{net::UnixStream, time::timeout};

use crate::{
    frame,
    names::FilePath,
    refusal::Refusal,
    request::{FileEntry, RunKey, RunRequest},
    routes::OutputHead,
    status::{RunStatus, RunnerInfo},
};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Longest answer: a piece of output, or the states of all runs.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The runner cannot be reached: it has not started, or has ended.
    #[error("cannot connect to the runner at {}", .path.display())]
    Unreachable {
        /// Socket.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The connection broke. The call may have taken effect; each call can be repeated.
    #[error("connection to the runner broke")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The runner did not answer in time. The call may have taken effect.
    #[error("runner did not answer in time")]
    Timeout,
    /// The runner refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// File of a run, with its content.
#[derive(Debug, Clone)]
pub struct RunFile {
    /// Path in the folder of the run.
    pub path: FilePath,
    /// Content.
    pub content: Bytes,
}

/// Piece of a run's output.
#[derive(Debug, Clone)]
pub struct OutputPiece {
    /// Offset of the first byte. Bytes between the requested offset and this one were cut: see [`crate::cut_mark`].
    pub offset: u64,
    /// Bytes; empty if none arrived in time.
    pub bytes: Bytes,
    /// State of the run. The output is complete once the run has ended and [`OutputPiece::next`] is its length.
    pub status: RunStatus,
}

impl OutputPiece {
    /// Offset of the next call.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Whether the run has ended and no output follows.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.status.ending().is_some() && self.next() >= self.status.output_bytes
    }
}

type Body = BoxBody<Bytes, Infallible>;

/// Client of a runner. Dropping the future of a call closes its connection.
#[derive(Debug, Clone)]
pub struct Runner {
    socket: PathBuf,
}

impl Runner {
    /// Client of the runner at this socket. No connection is made yet.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Runner {
            socket: socket.into(),
        }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// State of the runner itself. Any call counts as contact of an agent.
    ///
    /// # Errors
    /// [`RunnerError`], as of every call.
    pub async fn info(&self) -> Result<RunnerInfo, RunnerError> {
        self.get("/v1/info").await
    }

    /// States of all runs that were not acknowledged.
    ///
    /// # Errors
    /// [`RunnerError`].
    pub async fn runs(&self) -> Result<Vec<RunStatus>, RunnerError> {
        self.get("/v1/runs").await
    }

    /// Starts a program with these files; `request.files` is set from them. Repeating the call starts nothing anew.
    ///
    /// # Errors
    /// [`RunnerError`]; [`Refusal::Busy`] while as many programs run as the runner starts at once.
    pub async fn start(
        &self,
        key: &RunKey,
        mut request: RunRequest,
        files: Vec<RunFile>,
    ) -> Result<RunStatus, RunnerError> {
        let entry = |file: &RunFile| FileEntry {
            path: file.path.clone(),
            size: file.content.len() as u64,
        };
        request.files = files.iter().map(entry).collect();
        let head = frame::encode(&request, &[]);
        let pieces = std::iter::once(head).chain(files.into_iter().map(|file| file.content));
        let pieces = pieces.map(|bytes| Ok(Frame::data(bytes)));
        let body = BodyExt::boxed(StreamBody::new(stream::iter(pieces.collect::<Vec<_>>())));
        let path = format!("/v1/runs/{key}");
        let (status, _) = self.call(Method::PUT, &path, body, START_TIMEOUT).await?;
        Ok(status)
    }

    /// State of one run.
    ///
    /// # Errors
    /// [`RunnerError`]; [`Refusal::UnknownRun`] if the runner was started anew or the run acknowledged.
    pub async fn status(&self, key: &RunKey) -> Result<RunStatus, RunnerError> {
        self.get(&format!("/v1/runs/{key}")).await
    }

    /// Output from this offset. Waits until there is some, the run has ended, or the time (60 s at most) is over.
    ///
    /// # Errors
    /// [`RunnerError`].
    pub async fn output(
        &self,
        key: &RunKey,
        from: u64,
        wait: Duration,
    ) -> Result<OutputPiece, RunnerError> {
        let path = format!(
            "/v1/runs/{key}/output?from={from}&wait={}",
            wait.as_millis()
        );
        let call = self.call(Method::GET, &path, empty(), CALL_TIMEOUT + wait);
        let (head, bytes): (OutputHead, Bytes) = call.await?;
        Ok(OutputPiece {
            offset: head.offset,
            bytes,
            status: head.status,
        })
    }

    /// Replaces the token of a running run; Helm reads the file again within a minute.
    ///
    /// # Errors
    /// [`RunnerError`]; [`Refusal::Ended`] if the run has ended.
    pub async fn replace_token(&self, key: &RunKey, token: &str) -> Result<(), RunnerError> {
        let path = format!("/v1/runs/{key}/token");
        let body = full(Bytes::copy_from_slice(token.as_bytes()));
        let call = self.call(Method::PUT, &path, body, CALL_TIMEOUT);
        let _: (RunStatus, Bytes) = call.await?;
        Ok(())
    }

    /// Cancels a run: SIGTERM to its process group and SIGKILL after 30 s, or SIGKILL at once if `hard`.
    ///
    /// The run has ended once its state says so.
    ///
    /// # Errors
    /// [`RunnerError`].
    pub async fn cancel(&self, key: &RunKey, hard: bool) -> Result<RunStatus, RunnerError> {
        let path = format!("/v1/runs/{key}/cancel{}", if hard { "?hard" } else { "" });
        let (status, _) = self
            .call(Method::POST, &path, empty(), CALL_TIMEOUT)
            .await?;
        Ok(status)
    }

    /// Has the runner forget an ended run. An unknown one was forgotten already.
    ///
    /// # Errors
    /// [`RunnerError`]; [`Refusal::NotEnded`] while the program runs.
    pub async fn acknowledge(&self, key: &RunKey) -> Result<(), RunnerError> {
        let path = format!("/v1/runs/{key}");
        match self
            .send(Method::DELETE, &path, empty(), CALL_TIMEOUT)
            .await
        {
            Ok(_) | Err(RunnerError::Refused(Refusal::UnknownRun)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RunnerError> {
        let (head, _) = self.call(Method::GET, path, empty(), CALL_TIMEOUT).await?;
        Ok(head)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Body,
        time: Duration,
    ) -> Result<(T, Bytes), RunnerError> {
        let answer = self.send(method, path, body, time).await?;
        Ok(frame::decode(answer)?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Body,
        time: Duration,
    ) -> Result<Bytes, RunnerError> {
        let exchange = timeout(time, self.exchange(method, path, body)).await;
        let (status, answer) = exchange.map_err(|_| RunnerError::Timeout)??;
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let (refusal, _): (Refusal, Bytes) = frame::decode(answer)?;
        Err(refusal.into())
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<(StatusCode, Bytes), RunnerError> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|source| RunnerError::Unreachable {
            path: self.socket.clone(),
            source,
        })?;
        let broken = |error: hyper::Error| RunnerError::Broken(error.into());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let request = Request::builder().method(method).uri(path);
        let request = request.header(http::header::HOST, "runner").body(body);
        let request = request.map_err(|error| RunnerError::Broken(error.into()))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
            let body = body.collect().await.map_err(RunnerError::Broken)?;
            Ok((status, body.to_bytes()))
        };
        let mut answer = std::pin::pin!(answer);
        // The connection is driven here, without a task that could outlive the call.
        tokio::select! {
            answer = &mut answer => answer,
            _ = connection => answer.await,
        }
    }
}

fn empty() -> Body {
    full(Bytes::new())
}

fn full(bytes: Bytes) -> Body {
    BodyExt::boxed(Full::new(bytes))
}
