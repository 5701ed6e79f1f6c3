//! Names this agent to the hub on a new session, before that serves, and again once the agent knows which cluster it is in.

use std::time::Duration;

use fairlead_api::{
    ClusterUid, Code, Failure,
    hello::{HELLO_PATH, Hello, HelloResponse, LinkIndex},
};
use fairlead_dialer::Exchanges;
use tokio::time::sleep;
use tracing::warn;

use super::retry::is_refusal;
use crate::{
    backoff::{Backoff, chance},
    context::AgentContext,
    hub_request,
};

const HELLO_BACKOFF_MIN: Duration = Duration::from_secs(1);
const HELLO_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What is told of one link.
#[derive(Clone, Copy)]
pub(crate) struct HelloSender<'a> {
    pub(crate) context: &'a AgentContext,
    pub(crate) link: LinkIndex,
    pub(crate) version: &'a str,
}

impl HelloSender<'_> {
    /// Says it, with the cluster's UID if that is known. Whether it was.
    ///
    /// # Errors
    /// `FL-2112`, or why the hub was not told.
    pub(crate) async fn send(&self, exchanges: &Exchanges) -> Result<bool, Failure> {
        let uid = self.context.cluster_uid().await;
        let known = uid.is_some();
        self.post(exchanges, uid).await?;
        Ok(known)
    }

    /// Waits until the UID is known, and tells the hub. An error is a refusal, after which the hub ends the session.
    ///
    /// # Errors
    /// `FL-2112`.
    pub(crate) async fn send_when_known(&self, exchanges: &Exchanges) -> Result<(), Failure> {
        let uid = self.context.wait_for_cluster_uid().await;
        let mut backoff = Backoff::new(HELLO_BACKOFF_MIN, HELLO_BACKOFF_MAX);
        loop {
            match self.post(exchanges, Some(uid.clone())).await {
                Ok(()) => return Ok(()),
                Err(failure) if is_refusal(failure.code) => return Err(failure),
                Err(failure) => {
                    warn!(code = %failure.code, cause = failure.cause, "the hub was not told which cluster this is");
                }
            }
            sleep(backoff.next(chance()).max(HELLO_BACKOFF_MIN)).await;
        }
    }

    async fn post(&self, exchanges: &Exchanges, uid: Option<ClusterUid>) -> Result<(), Failure> {
        let hello = Hello {
            instance: self.context.instance,
            link: self.link,
            cluster_uid: uid,
            agent_version: self.version.to_owned(),
        };
        let json = serde_json::to_string(&hello).map_err(|_| Failure::from(Code::Internal))?;
        let HelloResponse {} = hub_request::post(exchanges, HELLO_PATH, json.into()).await?;
        Ok(())
    }
}
