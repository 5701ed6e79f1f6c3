//! Start of a session, before its driver: the handshake of the inner TLS. Deadlines are up to the callers.

use std::{future::poll_fn, task::Poll, time::Duration};

use tokio::time::{Instant, timeout};

use super::{HANDSHAKE_BYTES, Resumable, Resumption, SessionHandle, Wire};
use crate::{close::CloseReason, link::LinkEnd};

/// Time to send an alert.
const ALERT_TIMEOUT: Duration = Duration::from_secs(2);

impl Wire {
    /// Sends the peer the reason why its handshake ends, as far as that takes no time.
    pub(crate) async fn refuse(&mut self, reason: CloseReason) {
        poll_fn(|cx| Poll::Ready(self.poll_close(cx, reason).is_ready())).await;
    }

    /// Performs the handshake of the inner TLS. On failure the peer receives an alert.
    pub(crate) async fn handshake(&mut self) -> Result<(), LinkEnd> {
        let outcome = self.shake().await;
        if outcome.is_err() {
            let last = poll_fn(|cx| self.poll_close(cx, CloseReason::Protocol));
            let _ = timeout(ALERT_TIMEOUT, last).await;
        }
        outcome
    }

    async fn shake(&mut self) -> Result<(), LinkEnd> {
        loop {
            self.queue_records(HANDSHAKE_BYTES, Instant::now());
            if !self.channel.is_handshaking() {
                return self.flush().await;
            }
            self.fill().await?;
            while self.step()? {}
        }
    }

    /// First byte of the peer's plaintext, which is consumed.
    pub(crate) async fn first_byte(&mut self) -> Result<u8, LinkEnd> {
        loop {
            if let Some(mut piece) = self.next()? {
                let first = piece.split_to(1.min(piece.len()));
                self.channel.put_back(piece);
                if let Some(&first) = first.first() {
                    return Ok(first);
                }
            } else {
                self.fill().await?;
            }
        }
    }

    /// Sends `plain` at once.
    pub(crate) async fn send_now(&mut self, plain: &[u8]) -> Result<(), LinkEnd> {
        self.seal(Instant::now(), &mut |out| out.extend_from_slice(plain));
        self.flush().await
    }

    async fn fill(&mut self) -> Result<(), LinkEnd> {
        poll_fn(|cx| {
            let now = Instant::now();
            if let Poll::Ready(Err(end)) = self.poll_flush(cx, now) {
                return Poll::Ready(Err(end));
            }
            self.poll_fill(cx, now)
        })
        .await
    }

    async fn flush(&mut self) -> Result<(), LinkEnd> {
        poll_fn(|cx| self.poll_flush(cx, Instant::now())).await
    }

    /// Makes the session resumable, if the hub keeps sessions. `known` is the hub's list.
    pub(crate) fn make_resumable(&mut self, known: Option<&Resumable>) -> Result<(), LinkEnd> {
        if self.agreed.ends_with_link() || self.limits.resume_window.is_zero() {
            self.retransmit.disable();
            return Ok(());
        }
        let id = self.agreed.session;
        let secret = self.channel.secret(&id).map_err(LinkEnd::Secure)?;
        let handle = SessionHandle::new(id, secret);
        if let Some(known) = known {
            known.enter(&handle);
        }
        self.resumption = Some(Resumption { handle });
        Ok(())
    }
}
