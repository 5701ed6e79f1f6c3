//! What the gateway asks for every request, answered from memory: who is this, and may they.

use async_trait::async_trait;
use fairlead_api::{ClusterId, Code, Failure};
use fairlead_gateway::{Authenticator, Authorizer, Caller, Grant};
use secrecy::SecretString;

use super::{Registry, tokens};

#[async_trait]
impl Authenticator for Registry {
    async fn authenticate(&self, token: &SecretString) -> Result<Caller, Failure> {
        let about = tokens::find(&self.0.store, token).ok_or(Code::BadToken)?;
        if self.0.now() >= about.expires {
            return Err(Code::TokenExpired.into());
        }
        Ok(Caller {
            name: about.name,
            role: about.role,
            tenant: about.tenant,
        })
    }
}

#[async_trait]
impl Authorizer for Registry {
    /// Another tenant's cluster and none at all are one look-up and one answer.
    async fn authorize(&self, caller: &Caller, cluster: &ClusterId) -> Result<Grant, Failure> {
        let home = self.0.store.home(cluster);
        let visible = home.filter(|home| {
            let own = caller.tenant.as_ref();
            own.is_none_or(|own| *own == home.tenant)
        });
        let home = visible.ok_or(Code::NoSuchCluster)?;
        // Every role may ask; what it may do in there is for the cluster's own RBAC to say.
        Ok(Grant {
            role: caller.role,
            tenant: home.tenant,
        })
    }
}
