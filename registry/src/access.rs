//! Authentication and authorisation for the gateway, answered from memory wherever possible.

use std::net::IpAddr;

use async_trait::async_trait;
use fairlead_api::ClusterId;
use fairlead_gateway::{
    Authenticator, Authorizer, Caller, Grant,
    seam::{AuthenticateError, AuthorizeError},
};
use secrecy::SecretString;

use crate::{registry::Registry, rights::visible, tokens};

#[async_trait]
impl Authenticator for Registry {
    async fn authenticate(
        &self,
        token: &SecretString,
        from: IpAddr,
    ) -> Result<Caller, AuthenticateError> {
        if !tokens::is_one(token) {
            // Only the hub itself checks tokens with its own prefix.
            let issuers = &self.services.issuers;
            let caller = issuers.verify(token, from, self.now()).await?;
            return caller.ok_or(AuthenticateError::BadToken(None));
        }
        let found =
            tokens::find(&self.store.view(), token).ok_or(AuthenticateError::BadToken(None))?;
        let about = &found.value;
        if self.now() >= about.expires {
            return Err(AuthenticateError::Expired);
        }
        Ok(Caller {
            name: about.caller_name(),
            token: Some(about.id.clone()),
            role: about.role,
            tenant: about.tenant.clone(),
            cluster: about.cluster.clone(),
            subject: None,
            expires: Some(about.expires),
        })
    }
}

#[async_trait]
impl Authorizer for Registry {
    /// Another tenant's cluster and a missing one take the same lookup and return the same answer.
    async fn authorize(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError> {
        let cluster = visible(&self.store.view(), caller, cluster.as_str())
            .map_err(|_| AuthorizeError::NoSuchCluster)?;
        // Permissions inside a cluster are the cluster's own RBAC.
        let not_allowed = || AuthorizeError::NotAllowed {
            caller: caller.name.clone(),
            role: caller.role,
        };
        let role = caller.role.in_clusters().ok_or_else(not_allowed)?;
        Ok(Grant {
            role,
            tenant: cluster.value.tenant.clone(),
        })
    }
}
