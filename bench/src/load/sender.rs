//! Sender of requests over a connection of HTTP/1.1, or over the one connection of HTTP/2 that all clients share.

use bytes::Bytes;
use http_body_util::{Either, Empty};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Mutex;

use super::target::Upload;
use crate::dial::{Dial, Io};

pub(super) type RequestBody = Either<Empty<Bytes>, Upload>;

pub(super) enum HttpSender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
}

impl HttpSender {
    /// Opens a connection of HTTP/1.1.
    pub(super) async fn http1(io: TokioIo<Box<dyn Io>>) -> hyper::Result<Self> {
        let (sender, driver) = http1::handshake(io).await?;
        // The task ends with its connection. An error on it fails the request in flight.
        drop(tokio::spawn(driver.with_upgrades()));
        Ok(Self::Http1(sender))
    }

    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    pub(super) async fn send_request(
        &mut self,
        request: Request<RequestBody>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

/// The connection of HTTP/2 whose streams are the clients.
#[derive(Default)]
pub(super) struct SharedConnection(Mutex<Option<http2::SendRequest<RequestBody>>>);

impl SharedConnection {
    /// A sender of the open connection, or of a new one if that has ended.
    pub(super) async fn sender(&self, dial: &Dial) -> anyhow::Result<HttpSender> {
        let mut shared = self.0.lock().await;
        if let Some(sender) = &*shared
            && !sender.is_closed()
        {
            return Ok(HttpSender::Http2(sender.clone()));
        }
        let (sender, driver) = http2::handshake(TokioExecutor::new(), dial.open().await?).await?;
        // The task ends with its connection. An error on it fails the requests in flight.
        drop(tokio::spawn(driver));
        *shared = Some(sender.clone());
        Ok(HttpSender::Http2(sender))
    }
}
