//! Roles of a caller in one cluster: the strongest of all that cover it, and stronger ones in namespaces; and the
//! permission for TCP connections. Roles for a time are looked up at each request, and at each re-check of a running
//! one.

use std::{collections::BTreeMap, sync::Arc};

use fairlead_api::{
    resources::{AccessState, Role},
    site::OperatorNamespace,
};
use fairlead_seam::{
    Caller, ClusterScope, Grant, GrantKind, GrantScope, NamespaceGrant, ScopedGrant,
};
use fairlead_store::{
    View,
    model::{AccessGrant, AccessHolder, Cluster},
};
use time::OffsetDateTime;

use crate::rights::covers;

/// A role, and the access request that it comes from.
type Source<'a> = (Role, Option<&'a Arc<str>>);

/// Roles in a cluster; `None` without any.
pub(crate) fn grant_of(view: &View, caller: &Caller, cluster: &Cluster) -> Option<Grant> {
    let own = (
        (caller.tenant.as_ref(), &caller.clusters),
        caller.namespaces.as_slice(),
        (caller.role, None),
    );
    let more = caller.grants.iter().filter_map(|it| {
        let access = match &it.kind {
            GrantKind::Standing => None,
            GrantKind::Temporary(id) => Some(id),
            GrantKind::BreakGlass => return None,
        };
        let scope = &it.scope;
        let place = (scope.tenant.as_ref(), &scope.clusters);
        Some((place, scope.namespaces.as_slice(), (it.role, access)))
    });
    let mut whole: Option<Source<'_>> = None;
    let mut single: BTreeMap<&OperatorNamespace, Source<'_>> = BTreeMap::new();
    // Access request behind the permission, `None` inside for a lasting role, which comes first.
    let mut tcp: Option<Option<&Arc<str>>> = None;
    for (scope, namespaces, (role, access)) in std::iter::once(own).chain(more) {
        let opens_tcp = role.opens_tcp() && namespaces.is_empty();
        let role = role.in_clusters();
        if !(opens_tcp || role.is_some()) || !covers(view, scope, cluster) {
            continue;
        }
        if opens_tcp && !matches!(tcp, Some(None)) {
            tcp = Some(access);
        }
        let Some(role) = role else {
            continue;
        };
        let stronger = |known: Option<&Source<'_>>| known.is_none_or(|(it, _)| !it.includes(role));
        if namespaces.is_empty() {
            if stronger(whole.as_ref()) {
                whole = Some((role, access));
            }
            continue;
        }
        for namespace in namespaces {
            if stronger(single.get(namespace)) {
                single.insert(namespace, (role, access));
            }
        }
    }
    single.retain(|_, (role, _)| !whole.is_some_and(|(whole, _)| whole.includes(*role)));
    if whole.is_none() && single.is_empty() && tcp.is_none() {
        return None;
    }
    let sources = whole.iter().chain(single.values());
    let sources = sources.map(|(_, id)| *id).chain(tcp);
    let mut access: Vec<Arc<str>> = Vec::new();
    for id in sources.flatten() {
        if !access.contains(id) {
            access.push(Arc::clone(id));
        }
    }
    let namespaces = single.into_iter();
    Some(Grant {
        role: whole.map(|(role, _)| role),
        namespaces: namespaces
            .map(|(namespace, (role, _))| NamespaceGrant {
                namespace: namespace.clone(),
                role,
            })
            .collect(),
        tcp: tcp.is_some(),
        tenant: cluster.tenant.clone(),
        access,
    })
}

/// The caller as the holder of roles for a time.
#[must_use]
pub fn holder_of(caller: &Caller) -> AccessHolder {
    let subject = caller.subject.as_ref();
    AccessHolder {
        name: caller.name.clone(),
        token: caller.token.clone(),
        subject: subject.map(|it| (it.issuer.to_string(), it.sub.clone())),
    }
}

/// The caller with its roles for a time as of now, in place of earlier ones.
pub(crate) fn with_temporary(view: &View, mut caller: Caller, now: OffsetDateTime) -> Caller {
    let is_temporary = |it: &ScopedGrant| matches!(it.kind, GrantKind::Temporary(_));
    let had = caller.grants.iter().any(is_temporary);
    if !had && view.access_requests().len() == 0 {
        return caller;
    }
    let key = holder_of(&caller).key();
    let active = view.access_of(&key).map(|it| &it.value);
    let active =
        active.filter(|it| it.state(now) == AccessState::Active && is_of_cluster(view, it));
    let active: Vec<ScopedGrant> = active.map(scoped).collect();
    if had || !active.is_empty() {
        let lasting = caller.grants.iter().filter(|it| !is_temporary(it)).cloned();
        caller.grants = lasting.chain(active).collect();
    }
    caller
}

/// True if the cluster is still the one of the request: not deleted, registered again or moved.
fn is_of_cluster(view: &View, access: &AccessGrant) -> bool {
    let cluster = view.cluster(&access.cluster);
    cluster.is_some_and(|it| {
        it.value.tenant == access.tenant && it.value.binding.registration == access.registration
    })
}

fn scoped(access: &AccessGrant) -> ScopedGrant {
    ScopedGrant {
        role: access.role,
        scope: GrantScope {
            tenant: Some(access.tenant.clone()),
            clusters: ClusterScope::One(access.cluster.clone()),
            namespaces: access.namespaces.clone(),
        },
        kind: GrantKind::Temporary(access.id.as_str().into()),
    }
}

/// Reason for the end of a role for a time; `None` while it lasts.
pub(crate) fn end_of(view: &View, id: &str, now: OffsetDateTime) -> Option<String> {
    let Some(access) = view.access_request(id) else {
        return Some(format!("access {id} was removed"));
    };
    let access = &access.value;
    if let Some(act) = &access.revoked {
        let comment = act.comment.as_ref();
        let comment = comment.map_or_else(String::new, |it| format!(": {it}"));
        return Some(format!("access {id} was revoked by {}{comment}", act.by));
    }
    (access.state(now) != AccessState::Active).then(|| format!("access {id} has ended"))
}
