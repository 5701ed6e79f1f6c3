//! Log of a run: once, or followed to its end. A cut connection continues after the last piece, so no byte is lost or repeated.

use std::time::Duration;

use bytes::Bytes;
use fairlead_api::{Code, Failure, RunId, delivery::Run};
use fairlead_runtime::backoff::ExponentialDelay;
use serde::Deserialize;
use tokio::time::sleep;

use crate::{
    changes::HubOutage,
    hub_client::{HubClient, HubError, events::ServerEvent},
};

/// First and longest delay before a cut connection is opened again.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(250);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// Data of an event of type `log`.
#[derive(Deserialize)]
struct LogPiece {
    text: String,
}

/// Reader of the log of one run.
pub struct RunLog<'a> {
    hub: &'a HubClient,
    run: RunId,
    report: fn(HubOutage<'_>),
    delay: ExponentialDelay,
    /// Id of the last event: the offset behind its bytes.
    last_id: Option<String>,
}

impl<'a> RunLog<'a> {
    /// Reader from the first byte on; `report` is called at the begin and the end of an outage.
    #[must_use]
    pub fn new(hub: &'a HubClient, run: RunId, report: fn(HubOutage<'_>)) -> Self {
        RunLog {
            hub,
            run,
            report,
            delay: ExponentialDelay::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX),
            last_id: None,
        }
    }

    fn path(&self) -> String {
        format!("/v1/runs/{}/log", self.run)
    }

    /// Hands over the stored bytes, until `write` returns false.
    ///
    /// # Errors
    /// Failures of the hub and of `write`.
    pub async fn read(
        &self,
        mut write: impl FnMut(&Bytes) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let path = self.path();
        let mut offset = 0;
        loop {
            let Some(mut bytes) = self.hub.download(&path, offset).await? else {
                return Ok(());
            };
            let start = offset;
            loop {
                match bytes.next().await {
                    Ok(Some(piece)) => {
                        offset += piece.len() as u64;
                        if !write(&piece)? {
                            return Ok(());
                        }
                    }
                    Ok(None) => return Ok(()),
                    // A cut transfer continues at its offset; without progress it fails.
                    Err(error) if error.is_temporary() && offset > start => break,
                    Err(error) => return Err(error.into()),
                }
            }
            sleep(RETRY_DELAY_MIN).await;
        }
    }

    /// Hands over pieces as they arrive, until the run has ended or `write` returns false.
    ///
    /// # Errors
    /// Failures of the hub and of `write`.
    pub async fn follow(
        &mut self,
        mut write: impl FnMut(&str) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let (hub, path) = (self.hub, self.path());
        loop {
            let error = match hub.events(&path, self.last_id.as_deref()).await {
                Err(error) => Some(error),
                Ok(mut events) => loop {
                    match events.next().await {
                        Ok(Some(event)) => {
                            self.recovered();
                            if !self.take(event, &mut write)? {
                                return Ok(());
                            }
                        }
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                },
            };
            match error {
                None => {
                    let run: Run = hub.get(&format!("/v1/runs/{}", self.run)).await?;
                    if run.state.is_final() {
                        return Ok(());
                    }
                    sleep(RETRY_DELAY_MIN).await;
                }
                Some(error) => self.wait_to_retry(error).await?,
            }
        }
    }

    /// Hands over an event; false at the end of the log.
    fn take(
        &mut self,
        event: ServerEvent,
        write: &mut impl FnMut(&str) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        if event.id.is_some() {
            self.last_id = event.id;
        }
        match event.kind.as_str() {
            "end" => Ok(false),
            "log" => {
                let piece: LogPiece = serde_json::from_str(&event.data).map_err(|error| {
                    let detail = format_args!("its event is not understood: {error}");
                    Failure::because(Code::HubUnreachable, detail)
                })?;
                write(&piece.text)
            }
            _ => Ok(true),
        }
    }

    async fn wait_to_retry(&mut self, error: HubError) -> Result<(), Failure> {
        if !error.is_temporary() {
            return Err(error.into());
        }
        if self.delay.is_reset() {
            (self.report)(HubOutage::Began(error.failure()));
        }
        sleep(self.delay.next_delay()).await;
        Ok(())
    }

    fn recovered(&mut self) {
        if !self.delay.is_reset() {
            (self.report)(HubOutage::Ended);
            self.delay.reset();
        }
    }
}

#[cfg(test)]
mod tests;
