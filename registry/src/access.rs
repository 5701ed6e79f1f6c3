//! Authentication and authorisation for the gateway, answered from memory wherever possible.

use std::{net::IpAddr, sync::Arc};

use async_trait::async_trait;
use fairlead_api::ClusterId;
use fairlead_seam::{
    AuthenticateError, Authenticator, AuthorizeError, Authorizer, Caller, Grant, Termination,
};
use fairlead_store::{View, model::LockTarget};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    grants, locks, orders, registry::Registry, rights::visible, services::Verified, signed_in,
    tokens,
};

#[async_trait]
impl Authenticator for Registry {
    async fn authenticate(
        &self,
        token: &SecretString,
        from: IpAddr,
    ) -> Result<Caller, AuthenticateError> {
        if !tokens::is_one(token) {
            // Boxed, because it is many times as large as the rest of the future.
            return Box::pin(self.authenticate_by_issuer(token, from)).await;
        }
        let view = self.store.view();
        let hash = tokens::hash_of(token.expose_secret());
        let found = hash.and_then(|hash| Some((hash, tokens::find_by_hash(&view, &hash)?)));
        let (hash, found) = found.ok_or(AuthenticateError::BadToken(None))?;
        let caller = self.caller_of(&view, &found.value)?;
        self.store.token_used(&found.value.id);
        self.end_replaced(&found.value);
        self.keep_caller(&view, hash, &found.value, &caller);
        Ok(caller)
    }

    fn known_caller(&self, token: &str) -> Option<Arc<Caller>> {
        self.recall_caller(&tokens::hash_of(token)?)
    }

    /// A token of an issuer keeps its claims until it expires, or until a newer one of its person has fewer rights.
    async fn recheck(&self, caller: &Caller) -> Result<Caller, AuthenticateError> {
        let view = self.store.view();
        let Some(id) = &caller.token else {
            if caller.expires.is_some_and(|expires| self.now() >= expires) {
                return Err(AuthenticateError::Expired);
            }
            signed_in::check(&view, caller)?;
            return self.unless_locked(&view, caller.clone());
        };
        let token = view.token(id).ok_or(AuthenticateError::BadToken(None))?;
        self.caller_of(&view, &token.value)
    }
}

impl Registry {
    async fn authenticate_by_issuer(
        &self,
        token: &SecretString,
        from: IpAddr,
    ) -> Result<Caller, AuthenticateError> {
        // Only the hub itself checks tokens with its own prefix.
        let issuers = &self.services.issuers;
        match issuers.verify(token, from, self.now()).await? {
            Verified::Caller(caller) => {
                if let Some(subject) = &caller.subject {
                    signed_in::note(self, subject, Some(&caller)).await;
                    signed_in::check(&self.store.view(), &caller)?;
                    self.note_rights(subject, &caller);
                }
                self.unless_locked(&self.store.view(), caller)
            }
            Verified::NoRole(person) => {
                if let Some(subject) = &person.subject {
                    signed_in::note(self, subject, None).await;
                    self.note_no_role(subject, person.credential_ends);
                }
                Err(AuthenticateError::NoRole(person.cause))
            }
            Verified::Unknown => Err(AuthenticateError::BadToken(None)),
        }
    }
}

impl Registry {
    /// Another tenant's cluster and a missing one take the same lookup and return the same answer.
    fn grant_in(
        &self,
        view: &View,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError> {
        let cluster =
            visible(view, caller, cluster.as_str()).map_err(|_| AuthorizeError::NoSuchCluster)?;
        if let Some(lock) = locks::lock_of_cluster(view, &cluster.value, self.now()) {
            return Err(AuthorizeError::Locked(lock));
        }
        // Permissions inside a cluster are the cluster's own RBAC.
        grants::grant_of(view, caller, &cluster.value).ok_or_else(|| AuthorizeError::NotAllowed {
            caller: caller.name.clone(),
            role: caller.role,
        })
    }
}

#[async_trait]
impl Authorizer for Registry {
    async fn authorize(
        &self,
        caller: &Caller,
        cluster: &ClusterId,
    ) -> Result<Grant, AuthorizeError> {
        self.grant_in(&self.store.view(), caller, cluster)
    }

    fn known_grant(&self, caller: &Arc<Caller>, cluster: &ClusterId) -> Option<Arc<Grant>> {
        if let Some(grant) = self.recall_grant(caller, cluster) {
            return Some(grant);
        }
        let view = self.store.view();
        let grant = Arc::new(self.grant_in(&view, caller, cluster).ok()?);
        self.keep_grant(&view, caller, cluster, &grant);
        Some(grant)
    }

    fn end_of_access(&self, id: &str) -> Option<String> {
        grants::end_of(&self.store.view(), id, self.now())
    }

    fn access_changes(&self) -> BoxStream<'static, ()> {
        let state = (self.store.watch(), self.store.clone(), self.store.view());
        stream::unfold(state, async |(mut revisions, store, mut known)| {
            // Facts change all the time, and access seldom.
            loop {
                revisions.changed().await.ok()?;
                let view = store.view();
                let is_same = view.has_same_access(&known);
                known = view;
                if !is_same {
                    return Some(((), (revisions, store, known)));
                }
            }
        })
        .boxed()
    }

    fn terminations(&self) -> Vec<Termination> {
        let view = self.store.view();
        let now = self.now();
        let orders = view.locks().filter(|it| it.value.is_active(now));
        let orders = orders.filter_map(|it| match &it.value.target {
            LockTarget::Requests(selected) => Some((&it.value, selected)),
            LockTarget::Named { .. } => None,
        });
        let orders = orders.map(|(order, selected)| Termination {
            filter: orders::order_filter(&view, selected),
            started_before: order.created,
            failure: orders::order_failure(order),
        });
        orders.collect()
    }
}
