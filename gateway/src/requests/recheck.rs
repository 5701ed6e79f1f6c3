//! Re-checks the access of running requests: after each change of access in the store, and every few
//! seconds.
//!
//! One check covers all requests of a credential and a cluster, so a hundred thousand watches cost one pass over the table.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{ClusterId, Code, Failure, resources::Role};
use fairlead_seam::{AuthenticateError, Authenticator, Authorizer, Caller, Grant, NamespaceGrant};
use futures_util::StreamExt;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tracing::info;

use super::{
    RequestAccess, RequestTable, Running, SHARD_COUNT,
    reviews::{self, ReviewedToken},
};
use crate::{hub::Hub, services::ServiceTable};

/// Longest time from one pass to the next: credentials and temporary access end without a change of the store.
const MAX_PASS_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest time from one pass to the next, and time for a last message to be flushed.
const MIN_PASS_INTERVAL: Duration = Duration::from_millis(500);

/// The table, and the parts of the hub that check access.
struct Recheck<'a, R> {
    requests: &'a RequestTable<R>,
    authenticator: &'a dyn Authenticator,
    authorizer: &'a dyn Authorizer,
    services: &'a ServiceTable,
}

/// Re-checks running requests until the process drains and no session is left.
pub(crate) async fn supervise(hub: Arc<Hub>) {
    let recheck = Recheck {
        requests: &*hub.requests,
        authenticator: hub.seam.authenticator.as_ref(),
        authorizer: hub.seam.authorizer.as_ref(),
        services: &hub.services,
    };
    hub.sessions_ended
        .run_until_cancelled(recheck.repeat())
        .await;
}

impl<R: Running> Recheck<'_, R> {
    async fn repeat(&self) {
        let reviewed = Notify::new();
        let reviewing = reviews::repeat(&self.requests.reviewed, self.authenticator, &reviewed);
        tokio::join!(self.repeat_passes(&reviewed), reviewing);
    }

    async fn repeat_passes(&self, reviewed: &Notify) {
        let mut changes = self.authorizer.access_changes();
        loop {
            let started = Instant::now();
            let is_any_ending = Pass::new(self).run().await;
            sleep(MIN_PASS_INTERVAL).await;
            if is_any_ending {
                continue;
            }
            tokio::select! {
                Some(()) = changes.next() => {}
                () = reviewed.notified() => {}
                () = self.requests.ended.notified() => {}
                () = sleep_until(started + MAX_PASS_INTERVAL) => {}
            }
        }
    }
}

/// One pass over the table, with the results of its checks.
struct Pass<'a, R> {
    recheck: &'a Recheck<'a, R>,
    hasher: RandomState,
    callers: HashMap<u64, Result<Arc<Caller>, Failure>>,
    grants: HashMap<(u64, ClusterId), Result<Grant, Failure>>,
}

impl<'a, R: Running> Pass<'a, R> {
    fn new(recheck: &'a Recheck<'a, R>) -> Self {
        Pass {
            recheck,
            hasher: RandomState::new(),
            callers: HashMap::new(),
            grants: HashMap::new(),
        }
    }

    /// Ends requests without access; true if a request is about to end.
    async fn run(mut self) -> bool {
        let terminations = self.recheck.authorizer.terminations();
        let mut is_any_ending = false;
        for shard in 0..SHARD_COUNT {
            for record in self.recheck.requests.shard(shard) {
                if record.is_ending() {
                    record.wake();
                    is_any_ending = true;
                    continue;
                }
                let Some(access) = record.access() else {
                    continue;
                };
                let ordered = terminations.iter().find(|order| {
                    let request = record.snapshot();
                    request.is_some_and(|it| {
                        it.started < order.started_before && order.filter.matches(&it)
                    })
                });
                let failure = match ordered {
                    Some(order) => Some(order.failure.clone()),
                    None => self.check(record.as_ref(), &access).await.err(),
                };
                if let Some(failure) = failure {
                    let request = record.snapshot().map(|it| it.id);
                    info!(request, caller = access.caller.name, code = %failure.code, cause = failure.cause, "running request ended");
                    record.end(&failure);
                    is_any_ending = true;
                }
            }
            tokio::task::yield_now().await;
        }
        is_any_ending
    }

    async fn check(&mut self, record: &R, access: &RequestAccess) -> Result<(), Failure> {
        if let Some(service) = &access.service {
            self.recheck.services.check(service)?;
        }
        let reviewed = record.reviewed_token();
        let key = self.key(&access.caller, reviewed.as_ref());
        let caller = match self.callers.get(&key) {
            Some(known) => known.clone(),
            None => {
                let latest = reviewed.and_then(|it| it.latest());
                let checked = self.caller(latest, &access.caller).await;
                self.callers.insert(key, checked.clone());
                checked
            }
        }?;
        let (Some(cluster), Some(grant)) = (&access.cluster, &access.grant) else {
            return match access.cluster.is_some() || caller.keeps_rights_of(&access.caller) {
                // Not authorized yet: the request itself is about to be.
                true => Ok(()),
                false => Err(changed("the role or scope of the caller has changed")),
            };
        };
        let id = (key, cluster.clone());
        let now = match self.grants.get(&id) {
            Some(known) => known.clone(),
            None => {
                let authorizer = self.recheck.authorizer;
                let granted = authorizer.authorize(&caller, cluster).await;
                let granted = granted.map_err(Failure::from);
                self.grants.insert(id, granted.clone());
                granted
            }
        }?;
        if now.tenant != grant.tenant {
            return Err(changed("the cluster has moved to another tenant"));
        }
        if covers(&now, grant) {
            return Ok(());
        }
        let authorizer = self.recheck.authorizer;
        let ended = grant.access.iter().filter(|id| !now.access.contains(id));
        let mut ended = ended.filter_map(|id| authorizer.end_of_access(id));
        match ended.next() {
            Some(reason) => Err(changed(reason)),
            None => Err(changed(role_now(&now, grant))),
        }
    }

    /// The caller now, by the latest review of its token if there is one. A failure to check keeps the request.
    async fn caller(
        &self,
        latest: Option<Result<Arc<Caller>, AuthenticateError>>,
        caller: &Arc<Caller>,
    ) -> Result<Arc<Caller>, Failure> {
        let checked = match latest.unwrap_or_else(|| Ok(Arc::clone(caller))) {
            Ok(caller) => self.recheck.authenticator.recheck(&caller).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(now) => Ok(Arc::new(now)),
            Err(error) if error.is_temporary() => Ok(Arc::clone(caller)),
            Err(AuthenticateError::BadToken(None)) => {
                Err(changed("the caller's token was deleted or revoked"))
            }
            Err(AuthenticateError::BadToken(Some(cause))) => Err(changed(cause)),
            Err(AuthenticateError::Expired) => Err(changed("the caller's token has expired")),
            Err(error @ AuthenticateError::NoRole(_)) => Err(changed(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Two tokens of one account are two credentials.
    fn key(&self, caller: &Caller, reviewed: Option<&Arc<ReviewedToken>>) -> u64 {
        self.hasher.hash_one((
            reviewed.map(|it| Arc::as_ptr(it).addr()),
            &caller.name,
            &caller.token,
            &caller.subject,
            caller.expires,
            caller.role.as_str(),
            caller.tenant.as_ref().map(|it| it.as_str()),
            &caller.clusters,
            &caller.namespaces,
            &caller.grants,
        ))
    }
}

fn changed(cause: impl std::fmt::Display) -> Failure {
    Failure::because(Code::AccessEnded, cause)
}

/// True if `now` allows everything in a cluster that `before` allows.
fn covers(now: &Grant, before: &Grant) -> bool {
    let has = |role: Role| now.role.is_some_and(|own| own.includes(role));
    let has_in = |it: &NamespaceGrant| {
        let mut namespaces = now.namespaces.iter();
        has(it.role)
            || namespaces.any(|own| own.namespace == it.namespace && own.role.includes(it.role))
    };
    let has_tcp = now.tcp || !before.tcp;
    has_tcp && before.role.is_none_or(has) && before.namespaces.iter().all(has_in)
}

fn role_now(now: &Grant, before: &Grant) -> String {
    let has_same_role = before.role.is_none() || before.role == now.role;
    if before.tcp && !now.tcp && has_same_role {
        return "the caller has no role for TCP connections in the cluster now".to_owned();
    }
    match (now.role, now.role == before.role) {
        (Some(role), false) => format!("the caller's role in the cluster is {role} now"),
        (None, false) => "the caller has a role in namespaces of the cluster only now".to_owned(),
        (_, true) => "the caller's roles in namespaces of the cluster have changed".to_owned(),
    }
}

#[cfg(test)]
mod tests;
