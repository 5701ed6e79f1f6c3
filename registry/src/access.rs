//! Authentication and authorisation for the gateway, answered from memory wherever possible.

use std::net::IpAddr;

use async_trait::async_trait;
use fairlead_api::{ClusterId, Code, Failure};
use fairlead_gateway::{Authenticator, Authorizer, Caller, Grant};
use secrecy::SecretString;

use crate::{registry::Registry, rights::visible, tokens};

#[async_trait]
impl Authenticator for Registry {
    async fn authenticate(&self, token: &SecretString, from: IpAddr) -> Result<Caller, Failure> {
        if !tokens::is_one(token) {
            // Only the hub itself checks tokens with its own prefix.
            let issuers = &self.services.issuers;
            let caller = issuers.verify(token, from, self.now()).await?;
            return caller.ok_or(Code::BadToken.into());
        }
        let found = tokens::find(&self.store.view(), token).ok_or(Code::BadToken)?;
        let about = &found.value;
        if self.now() >= about.expires {
            return Err(Code::TokenExpired.into());
        }
        Ok(Caller {
            name: about.caller_name(),
            token: Some(about.id.clone()),
            role: about.role,
            tenant: about.tenant.clone(),
            cluster: about.cluster.clone(),
        })
    }
}

#[async_trait]
impl Authorizer for Registry {
    /// Another tenant's cluster and a missing one take the same lookup and return the same answer.
    async fn authorize(&self, caller: &Caller, cluster: &ClusterId) -> Result<Grant, Failure> {
        let cluster = visible(&self.store.view(), caller, cluster.as_str())?;
        // Permissions inside a cluster are the cluster's own RBAC.
        let role = caller.role.in_clusters().ok_or_else(|| {
            let detail = format!(
                "{:?} has the role {}, which has no access inside clusters",
                caller.name, caller.role
            );
            Failure::because(Code::NotAllowed, detail)
                .next("Use a token with the role admin, operator, viewer or tenant.")
        })?;
        Ok(Grant {
            role,
            tenant: cluster.value.tenant.clone(),
        })
    }
}
