//! Callers, and their permissions in clusters.

use std::sync::Arc;

use fairlead_api::{TenantId, resources::Role, site::OperatorNamespace};
use time::OffsetDateTime;

use crate::grants::{ClusterScope, GrantKind, NamespaceGrant, ScopedGrant};

/// An authenticated user or program on the kubectl side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name of the caller; in clusters the user `fairlead:<name>`.
    pub name: String,
    /// Id of the API token; `None` for a caller that an issuer vouches for.
    pub token: Option<String>,
    /// Role of the caller.
    pub role: Role,
    /// Tenant that the caller is limited to, with all tenants below it; `None`: all tenants.
    pub tenant: Option<TenantId>,
    /// Clusters of the tenant that the caller is limited to.
    pub clusters: ClusterScope,
    /// Namespaces that the role is limited to in clusters; empty: whole clusters.
    pub namespaces: Vec<OperatorNamespace>,
    /// Further roles in parts of the hub.
    pub grants: Arc<[ScopedGrant]>,
    /// Subject of a caller that an issuer vouches for; `None` for API tokens.
    pub subject: Option<Subject>,
    /// End of the credential; `None` if the hub does not know one.
    pub expires: Option<OffsetDateTime>,
}

impl Caller {
    /// True if both have the same name, credential and rights. A renewed credential may end at another time.
    #[must_use]
    pub fn is_same_as(&self, other: &Caller) -> bool {
        let Caller {
            name,
            token,
            role,
            tenant,
            clusters,
            namespaces,
            grants,
            subject,
            expires: _,
        } = self;
        let is_same_subject = match (subject, &other.subject) {
            (Some(one), Some(other)) => one.is_same_as(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let rights = (name, token, role, tenant, clusters, namespaces, grants);
        is_same_subject
            && rights
                == (
                    &other.name,
                    &other.token,
                    &other.role,
                    &other.tenant,
                    &other.clusters,
                    &other.namespaces,
                    &other.grants,
                )
    }

    /// Role on the hub's own routes. A role in namespaces reads only. An admin of single clusters is an operator there:
    /// tokens, locks and the audit belong to tenants.
    #[must_use]
    pub fn hub_role(&self) -> Role {
        match (
            self.role,
            self.clusters.is_all(),
            self.namespaces.is_empty(),
        ) {
            (_, _, false) => Role::Viewer,
            (Role::Admin, false, true) => Role::Operator,
            (role, _, true) => role,
        }
    }

    /// True if the own role covers all clusters of all tenants.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.tenant.is_none() && self.clusters.is_all()
    }

    /// The caller with its own role alone.
    #[must_use]
    pub fn with_own_role(&self) -> Caller {
        Caller {
            grants: Arc::default(),
            ..self.clone()
        }
    }

    /// The caller once for its own role, then once for each further lasting role, with that role alone.
    pub fn each_role(&self) -> impl Iterator<Item = Caller> {
        let own = self.with_own_role();
        let more = self.grants.iter();
        let more = more.filter(|it| it.kind == GrantKind::Standing);
        let more = more.map(|it| Caller {
            role: it.role,
            tenant: it.scope.tenant.clone(),
            clusters: it.scope.clusters.clone(),
            namespaces: it.scope.namespaces.clone(),
            grants: Arc::default(),
            ..self.clone()
        });
        std::iter::once(own).chain(more)
    }

    /// True if the caller has each right that `before` had. A temporary role counts in clusters only, and is checked there.
    #[must_use]
    pub fn keeps_rights_of(&self, before: &Caller) -> bool {
        let standing = before.grants.iter();
        let mut standing = standing.filter(|it| it.kind == GrantKind::Standing);
        self.with_own_role().is_same_as(&before.with_own_role())
            && standing.all(|it| self.grants.contains(it))
    }
}

/// A person or program as its issuer names it. The pair is unique, and never changes hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// URL of the issuer, as in the claim `iss`; for a reviewing cluster its API server.
    pub issuer: Arc<str>,
    /// Claim `sub`; for a reviewing cluster the user name.
    pub sub: String,
    /// Kind of the credential.
    pub proof: SubjectProof,
}

/// Kind of the credential with which an issuer vouches for a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectProof {
    /// A signed token, valid until its end.
    Signed,
    /// A signed token of the client for the sign-in of people. A newer one may narrow the rights of its person.
    SignIn {
        /// Time of issue.
        issued: OffsetDateTime,
    },
    /// A token that only its reviewer understands.
    Reviewed,
}

impl Subject {
    /// True if both are the same person or program.
    #[must_use]
    pub fn is_same_as(&self, other: &Subject) -> bool {
        (&self.issuer, &self.sub) == (&other.issuer, &other.sub)
    }
}

/// Permission of a caller in a cluster. The gateway makes the permit from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Role of the caller in the whole cluster; `None`: in namespaces only.
    pub role: Option<Role>,
    /// Stronger roles in namespaces.
    pub namespaces: Vec<NamespaceGrant>,
    /// Permission to open TCP connections into the cluster, apart from the roles at its API server.
    pub tcp: bool,
    /// The tenant of the cluster.
    pub tenant: TenantId,
    /// Ids of access requests from which these roles come.
    pub access: Vec<Arc<str>>,
}

impl Grant {
    /// A role in a whole cluster of this tenant.
    #[must_use]
    pub fn of(role: Role, tenant: TenantId) -> Self {
        Grant {
            role: Some(role),
            namespaces: Vec::new(),
            tcp: role.opens_tcp(),
            tenant,
            access: Vec::new(),
        }
    }

    /// The part for TCP connections alone. A change of the other roles does not end them.
    #[must_use]
    pub fn for_tcp(&self) -> Self {
        Grant {
            role: None,
            namespaces: Vec::new(),
            ..self.clone()
        }
    }

    /// The part for the API server alone. The end of a role for TCP connections does not end its requests.
    #[must_use]
    pub fn for_api(&self) -> Self {
        Grant {
            tcp: false,
            ..self.clone()
        }
    }

    /// True if the grant has a role at the API server of the cluster.
    #[must_use]
    pub fn reaches_api(&self) -> bool {
        self.role.is_some() || !self.namespaces.is_empty()
    }

    /// Strongest role, in the whole cluster or in a namespace.
    #[must_use]
    pub fn strongest(&self) -> Role {
        let namespaces = self.namespaces.iter().map(|it| it.role);
        let roles = self.role.into_iter().chain(namespaces);
        roles.fold(
            Role::Viewer,
            |best, it| if best.includes(it) { best } else { it },
        )
    }
}

#[cfg(test)]
mod tests;
