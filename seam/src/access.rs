//! Authentication of callers, and their authorization for clusters.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::ClusterId;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use secrecy::SecretString;

use crate::{
    caller::{Caller, Grant},
    error::{AuthenticateError, AuthorizeError},
    requests::Termination,
};

/// Authenticates callers.
///
/// Called for every request: an implementation caches checks that cost a signature or a network round trip.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// Authenticates a token that came from this address. The address bounds the cost that one client may cause.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    async fn authenticate(
        &self,
        token: &SecretString,
        from: IpAddr,
    ) -> Result<Caller, AuthenticateError>;

    /// The caller of a token that was authenticated before, if [`authenticate`](Self::authenticate) would return the same.
    ///
    /// Called for every request, before `authenticate`; must cost little. Counts as a use of the token.
    fn known_caller(&self, _token: &str) -> Option<Arc<Caller>> {
        None
    }

    /// Authenticates a caller again, without its token: the caller now, with the rights of now.
    ///
    /// Called periodically for running requests, from memory.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    async fn recheck(&self, caller: &Caller) -> Result<Caller, AuthenticateError> {
        Ok(caller.clone())
    }
}

/// Authorizes callers for clusters. Called for every request to a cluster.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// Returns the caller's permission in a cluster.
    ///
    /// # Errors
    /// [`AuthorizeError::NoSuchCluster`] if there is no such cluster *or* the caller may not see it, in the same time.
    async fn authorize(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError>;

    /// The permission that [`authorize`](Self::authorize) would return, for a [known caller](Authenticator::known_caller).
    ///
    /// Called first for such a caller. `None`: `authorize` has to decide.
    fn known_grant(&self, _caller: &Arc<Caller>, _cluster: &ClusterId) -> Option<Arc<Grant>> {
        None
    }

    /// Reason for the end of a temporary role, for its holder; `None` if it has not ended.
    fn end_of_access(&self, _id: &str) -> Option<String> {
        None
    }

    /// Notified of changes that may end the access of running requests.
    fn access_changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }

    /// Recent orders of admins to end running requests.
    fn terminations(&self) -> Vec<Termination> {
        Vec::new()
    }
}
