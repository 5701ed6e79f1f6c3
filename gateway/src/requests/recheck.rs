//! Re-checks the access of running requests: after each change of the store, and every two seconds for credentials that
//! expire.
//!
//! One check covers all requests of a credential and a cluster, so a hundred thousand watches cost one pass over the table.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use fairlead_api::{ClusterId, Code, Failure, resources::Role};
use fairlead_seam::{AuthenticateError, Caller, Grant, NamespaceGrant};
use futures_util::StreamExt;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::info;

use super::SHARD_COUNT;
use crate::{
    front::record::{RequestAccess, RequestRecord},
    hub::Hub,
};

/// Interval without changes of the store: a credential expires without one.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest time from one pass to the next, and time for a last message to be flushed.
const MIN_PASS_INTERVAL: Duration = Duration::from_millis(500);

/// Re-checks running requests until the process drains and no session is left.
pub(crate) async fn supervise(hub: Arc<Hub>) {
    let mut changes = hub.seam.authorizer.access_changes();
    let watching = async {
        loop {
            let is_any_ending = Pass::new(&hub).run().await;
            sleep(MIN_PASS_INTERVAL).await;
            if is_any_ending {
                continue;
            }
            let next = Instant::now() + (RECHECK_INTERVAL - MIN_PASS_INTERVAL);
            tokio::select! {
                Some(()) = changes.next() => {}
                () = sleep_until(next) => {}
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = hub.sessions_ended.cancelled() => {}
    }
}

/// One pass over the table, with the results of its checks.
struct Pass<'a> {
    hub: &'a Hub,
    hasher: RandomState,
    callers: HashMap<u64, Result<Arc<Caller>, Failure>>,
    grants: HashMap<(u64, ClusterId), Result<Grant, Failure>>,
}

impl<'a> Pass<'a> {
    fn new(hub: &'a Hub) -> Self {
        Pass {
            hub,
            hasher: RandomState::new(),
            callers: HashMap::new(),
            grants: HashMap::new(),
        }
    }

    /// Ends requests without access; true if a request is about to end.
    async fn run(mut self) -> bool {
        let terminations = self.hub.seam.authorizer.terminations();
        let mut is_any_ending = false;
        for shard in 0..SHARD_COUNT {
            for record in self.hub.requests.shard(shard) {
                let record = RequestRecord::from(record);
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
                    None => self.check(&record, &access).await.err(),
                };
                if let Some(failure) = failure {
                    info!(request = record.id(), caller = access.caller.name, code = %failure.code, cause = failure.cause, "running request ended");
                    record.end(&failure);
                    is_any_ending = true;
                }
            }
            tokio::task::yield_now().await;
        }
        is_any_ending
    }

    async fn check(
        &mut self,
        record: &RequestRecord,
        access: &RequestAccess,
    ) -> Result<(), Failure> {
        let key = self.key(&access.caller);
        let caller = match self.callers.get(&key) {
            Some(known) => known.clone(),
            None => {
                let checked = self.caller(record, &access.caller).await;
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
                let authorizer = &self.hub.seam.authorizer;
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
        let authorizer = &self.hub.seam.authorizer;
        let ended = grant.access.iter().filter(|id| !now.access.contains(id));
        let mut ended = ended.filter_map(|id| authorizer.end_of_access(id));
        match ended.next() {
            Some(reason) => Err(changed(reason)),
            None => Err(changed(role_now(&now, grant))),
        }
    }

    /// The caller now. A failure to check keeps the request, as it keeps requests of the hub's own routes.
    async fn caller(
        &self,
        record: &RequestRecord,
        caller: &Arc<Caller>,
    ) -> Result<Arc<Caller>, Failure> {
        let authenticator = &self.hub.seam.authenticator;
        let checked = match record.opaque_token() {
            Some((token, from)) => match authenticator.authenticate(&token, from).await {
                Ok(now) => Ok(now),
                Err(error) => Err(error),
            },
            None => authenticator.recheck(caller).await,
        };
        match checked {
            Ok(now) => Ok(Arc::new(now)),
            Err(error) if error.is_temporary() => Ok(Arc::clone(caller)),
            Err(AuthenticateError::BadToken(_)) => {
                Err(changed("the caller's token was deleted or revoked"))
            }
            Err(AuthenticateError::Expired) => Err(changed("the caller's token has expired")),
            Err(error) => Err(error.into()),
        }
    }

    fn key(&self, caller: &Caller) -> u64 {
        self.hasher.hash_one((
            &caller.name,
            &caller.token,
            &caller.subject,
            caller.expires,
            caller.role.as_str(),
            caller.tenant.as_ref().map(|it| it.as_str()),
            caller.cluster.as_ref().map(|it| it.as_str()),
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
    before.role.is_none_or(has) && before.namespaces.iter().all(has_in)
}

fn role_now(now: &Grant, before: &Grant) -> String {
    match (now.role, now.role == before.role) {
        (Some(role), false) => format!("the caller's role in the cluster is {role} now"),
        (None, false) => "the caller has a role in namespaces of the cluster only now".to_owned(),
        (_, true) => "the caller's roles in namespaces of the cluster have changed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(role: Option<Role>, namespaces: &[(&str, Role)]) -> Grant {
        let namespaces = namespaces.iter().map(|(name, role)| NamespaceGrant {
            namespace: name.parse().unwrap(),
            role: *role,
        });
        Grant {
            role,
            namespaces: namespaces.collect(),
            tenant: "t-a".parse().unwrap(),
            access: Vec::new(),
        }
    }

    #[test]
    fn only_a_stronger_role_covers_another() {
        let of = |role| grant(Some(role), &[]);
        assert!(covers(&of(Role::Admin), &of(Role::Viewer)));
        assert!(covers(&of(Role::Operator), &of(Role::Viewer)));
        assert!(covers(&of(Role::Viewer), &of(Role::Viewer)));
        assert!(!covers(&of(Role::Viewer), &of(Role::Operator)));
        assert!(!covers(&of(Role::Operator), &of(Role::Admin)));
        assert!(!covers(&grant(None, &[]), &of(Role::Viewer)));
    }

    #[test]
    fn each_namespace_is_covered_by_itself_or_the_whole_cluster() {
        let shop = grant(None, &[("shop", Role::Operator)]);
        let both = grant(None, &[("shop", Role::Operator), ("web", Role::Viewer)]);
        assert!(covers(&both, &shop));
        assert!(!covers(&shop, &both));
        assert!(covers(&grant(Some(Role::Operator), &[]), &both));
        assert!(!covers(&grant(Some(Role::Viewer), &[]), &both));
        assert!(!covers(&grant(None, &[("shop", Role::Viewer)]), &shop));
    }
}
