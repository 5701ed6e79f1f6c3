//! Hello of the agent on a new session, before it serves, and again when the cluster's UID becomes known.

use std::time::Duration;

use fairlead_api::{
    ClusterUid, Code, Failure, HubUrl,
    hello::{HELLO_PATH, Hello, HelloResponse, LinkIndex},
};
use fairlead_exchange::Exchanges;
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

/// Sender of the hello of one link.
#[derive(Clone, Copy)]
pub(crate) struct HelloSender<'a> {
    pub(crate) context: &'a AgentContext,
    pub(crate) link: LinkIndex,
    pub(crate) version: &'a str,
}

/// An accepted hello.
pub(crate) struct Greeted {
    /// Whether the cluster's UID was in it.
    pub(crate) uid_sent: bool,
    /// Address by which the hub lists itself.
    pub(crate) hub: Option<HubUrl>,
}

impl HelloSender<'_> {
    /// Sends the hello, with the cluster's UID if known.
    ///
    /// # Errors
    ///
    /// `FL-2112`, or the reason for the failed request.
    pub(crate) async fn send(&self, exchanges: &Exchanges) -> Result<Greeted, Failure> {
        let uid = self.context.cluster_uid().await;
        let uid_sent = uid.is_some();
        let HelloResponse { hub } = self.post(exchanges, uid).await?;
        Ok(Greeted { uid_sent, hub })
    }

    /// Waits for the UID, then repeats the hello with it.
    ///
    /// # Errors
    ///
    /// `FL-2112`: the hub rejects the UID and ends the session.
    pub(crate) async fn send_when_known(&self, exchanges: &Exchanges) -> Result<(), Failure> {
        let uid = self.context.wait_for_cluster_uid().await;
        let mut backoff = Backoff::new(HELLO_BACKOFF_MIN, HELLO_BACKOFF_MAX);
        loop {
            match self.post(exchanges, Some(uid.clone())).await {
                Ok(_) => return Ok(()),
                Err(failure) if is_refusal(failure.code) => return Err(failure),
                Err(failure) => {
                    warn!(code = %failure.code, cause = failure.cause, "hello with the cluster UID failed; retrying");
                }
            }
            sleep(backoff.next(chance()).max(HELLO_BACKOFF_MIN)).await;
        }
    }

    async fn post(
        &self,
        exchanges: &Exchanges,
        uid: Option<ClusterUid>,
    ) -> Result<HelloResponse, Failure> {
        let hello = Hello {
            instance: self.context.instance,
            link: self.link,
            cluster_uid: uid,
            agent_version: self.version.to_owned(),
        };
        let json = serde_json::to_string(&hello).map_err(|_| Failure::from(Code::Internal))?;
        Ok(hub_request::post(exchanges, HELLO_PATH, json.into()).await?)
    }
}
