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
    context::Site,
    hub_request,
};

const FIRST: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(60);

/// What is told of one link.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) site: &'a Site,
    pub(crate) link: LinkIndex,
    pub(crate) version: &'a str,
}

impl Named<'_> {
    /// Says it, with the cluster's UID if that is known. Whether it was.
    ///
    /// # Errors
    /// `FL-2112`, or why the hub was not told.
    pub(crate) async fn say(&self, exchanges: &Exchanges) -> Result<bool, Failure> {
        let uid = self.site.uid().await;
        let known = uid.is_some();
        self.tell(exchanges, uid).await?;
        Ok(known)
    }

    /// Waits until the UID is known, and tells the hub. An error is a refusal, after which the hub ends the session.
    ///
    /// # Errors
    /// `FL-2112`.
    pub(crate) async fn say_later(&self, exchanges: &Exchanges) -> Result<(), Failure> {
        let uid = self.site.uid_known().await;
        let mut backoff = Backoff::new(FIRST, CAP);
        loop {
            match self.tell(exchanges, Some(uid.clone())).await {
                Ok(()) => return Ok(()),
                Err(failure) if is_refusal(failure.code) => return Err(failure),
                Err(failure) => {
                    warn!(code = %failure.code, cause = failure.cause, "the hub was not told which cluster this is");
                }
            }
            sleep(backoff.next(chance()).max(FIRST)).await;
        }
    }

    async fn tell(&self, exchanges: &Exchanges, uid: Option<ClusterUid>) -> Result<(), Failure> {
        let hello = Hello {
            instance: self.site.instance,
            link: self.link,
            cluster_uid: uid,
            agent_version: self.version.to_owned(),
        };
        let json = serde_json::to_string(&hello).map_err(|_| Failure::from(Code::Internal))?;
        let HelloResponse {} = hub_request::post(exchanges, HELLO_PATH, json.into()).await?;
        Ok(())
    }
}
