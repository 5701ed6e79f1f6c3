//! Roles of a caller in one cluster: the strongest of all that cover it, and stronger ones in namespaces.

use std::{collections::BTreeMap, sync::Arc};

use fairlead_api::{resources::Role, site::OperatorNamespace};
use fairlead_seam::{Caller, Grant, GrantKind, NamespaceGrant};
use fairlead_store::{View, model::Cluster};

use crate::rights::covers;

/// A role, and the access request that it comes from.
type Source<'a> = (Role, Option<&'a Arc<str>>);

/// Roles in a cluster; `None` without any.
pub(crate) fn grant_of(view: &View, caller: &Caller, cluster: &Cluster) -> Option<Grant> {
    let own = (
        (caller.tenant.as_ref(), caller.cluster.as_ref()),
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
        let place = (scope.tenant.as_ref(), scope.cluster.as_ref());
        Some((place, scope.namespaces.as_slice(), (it.role, access)))
    });
    let mut whole: Option<Source<'_>> = None;
    let mut single: BTreeMap<&OperatorNamespace, Source<'_>> = BTreeMap::new();
    for (scope, namespaces, (role, access)) in std::iter::once(own).chain(more) {
        let Some(role) = role.in_clusters() else {
            continue;
        };
        if !covers(view, scope, cluster) {
            continue;
        }
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
    if whole.is_none() && single.is_empty() {
        return None;
    }
    let sources = whole.iter().chain(single.values());
    let mut access: Vec<Arc<str>> = sources.filter_map(|(_, id)| id.cloned()).collect();
    access.dedup();
    let namespaces = single.into_iter();
    Some(Grant {
        role: whole.map(|(role, _)| role),
        namespaces: namespaces
            .map(|(namespace, (role, _))| NamespaceGrant {
                namespace: namespace.clone(),
                role,
            })
            .collect(),
        tenant: cluster.tenant.clone(),
        access,
    })
}
