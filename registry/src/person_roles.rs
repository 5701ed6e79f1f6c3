//! Roles of people as the store keeps them.

use fairlead_api::{
    resources::{CallerGrant, CallerGrantKind},
    site::OperatorNamespace,
};
use fairlead_seam::{Caller, ClusterScope, GrantKind, GrantScope, ScopedGrant};
use fairlead_store::model::PersonRole;

/// All lasting roles of a caller, the own one first. Temporary ones are not of its credential. A new part of a caller that is a
/// right belongs here, too.
#[must_use]
pub fn roles_of(caller: &Caller) -> Vec<PersonRole> {
    let Caller {
        role,
        tenant,
        clusters,
        namespaces,
        grants,
        name: _,
        token: _,
        subject: _,
        expires: _,
    } = caller;
    let texts = |all: &[OperatorNamespace]| all.iter().map(|it| it.as_str().to_owned()).collect();
    let own = PersonRole {
        role: *role,
        tenant: tenant.clone(),
        cluster: clusters.id().cloned(),
        selector: clusters.selector().cloned(),
        namespaces: texts(namespaces),
        break_glass: false,
    };
    let lasting = grants.iter().filter(|it| match &it.kind {
        GrantKind::Standing | GrantKind::BreakGlass => true,
        GrantKind::Temporary(_) => false,
    });
    let more = lasting.map(|it| PersonRole {
        role: it.role,
        tenant: it.scope.tenant.clone(),
        cluster: it.scope.clusters.id().cloned(),
        selector: it.scope.clusters.selector().cloned(),
        namespaces: texts(&it.scope.namespaces),
        break_glass: it.kind == GrantKind::BreakGlass,
    });
    std::iter::once(own).chain(more).collect()
}

/// The caller with these roles in place of its own; `None` if one of them cannot be read.
pub(crate) fn with_roles(caller: Caller, roles: &[PersonRole]) -> Option<Caller> {
    let roles: Vec<ScopedGrant> = roles.iter().map(scoped).collect::<Option<_>>()?;
    let mut roles = roles.into_iter();
    let Some(own) = roles.next() else {
        return Some(caller);
    };
    Some(Caller {
        role: own.role,
        tenant: own.scope.tenant,
        clusters: own.scope.clusters,
        namespaces: own.scope.namespaces,
        grants: roles.collect(),
        ..caller
    })
}

/// An emergency's role is not of a token, so it cannot be read here.
fn scoped(role: &PersonRole) -> Option<ScopedGrant> {
    let selector = role.selector.clone().map(Into::into);
    let namespaces = role.namespaces.iter().map(|it| it.parse().ok());
    let grant = ScopedGrant {
        role: role.role,
        scope: GrantScope {
            tenant: role.tenant.clone(),
            clusters: match selector {
                Some(selector) => ClusterScope::Selected(selector),
                None => role.cluster.clone().into(),
            },
            // Without one that cannot be read, the role would be wider.
            namespaces: namespaces.collect::<Option<_>>()?,
        },
        kind: GrantKind::Standing,
    };
    (!role.break_glass).then_some(grant)
}

pub(crate) fn shown(roles: &[PersonRole]) -> Vec<CallerGrant> {
    let shown = roles.iter().map(|it| CallerGrant {
        role: it.role,
        kind: CallerGrantKind::Standing,
        tenant: it.tenant.clone(),
        cluster: it.cluster.clone(),
        selector: it.selector.clone(),
        namespaces: it.namespaces.clone(),
        request: None,
    });
    shown.collect()
}
