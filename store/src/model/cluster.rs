//! A cluster: settings by people, reports by its agent, and the binding to that agent.

use std::{collections::BTreeMap, net::IpAddr};

use fairlead_api::{
    CaPin, ClusterId, ClusterUid, TenantId,
    resources::{
        AgentSettings, CompileMeta, CreationPolicy, DeletionPolicy, KubeApi, SiteSettings,
    },
};
use fairlead_certs::Registration;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{
    fact::Facts,
    git::{GitRepo, RepoState},
    upgrade::ClusterUpgradeOrder,
    vault::VaultState,
};

/// A registered Kubernetes cluster.
///
/// Rare and large fields are boxed, because a hub keeps all clusters in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Id of the cluster.
    pub id: ClusterId,
    /// Owning tenant.
    pub tenant: TenantId,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Annotations set by people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Facts set by people.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
    /// Facts reported by programs.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub dynamic_facts: Facts,
    /// Configuration repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<Box<GitRepo>>,
    /// Status of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_state: Option<Box<RepoState>>,
    /// Status of the access to Vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<Box<VaultState>>,
    /// Revision of the tenant's repository, overriding the tenant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_git_repo_revision: Option<String>,
    /// Revision of the global repository, overriding the tenant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    /// Result of the last compilation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_meta: Option<Box<CompileMeta>>,
    /// Direct address of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_api: Option<KubeApi>,
    /// Handling of an existing repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<CreationPolicy>,
    /// Handling of the repository on deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// True if the cluster must not be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_protection: Option<bool>,
    /// True: the agent applies the catalog of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_catalog: Option<bool>,
    /// True if the tenant's compile pipeline compiles the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_compilation: Option<bool>,
    /// Network of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteSettings>,
    /// Desired settings of the agent.
    #[serde(default, skip_serializing_if = "AgentSettings::is_empty")]
    pub agent: AgentSettings,
    /// Order to remove all delivered objects, before the cluster is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge: Option<PurgeOrder>,
    /// Last upgrade of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<ClusterUpgradeOrder>,
    /// Binding to the agent.
    pub binding: Binding,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}

impl Cluster {
    /// A cluster with default settings.
    #[must_use]
    pub fn new(id: ClusterId, tenant: TenantId, binding: Binding, created: OffsetDateTime) -> Self {
        Cluster {
            id,
            tenant,
            display_name: None,
            annotations: BTreeMap::new(),
            facts: Facts::new(),
            dynamic_facts: Facts::new(),
            git_repo: None,
            repo_state: None,
            vault: None,
            tenant_git_repo_revision: None,
            global_git_repo_revision: None,
            compile_meta: None,
            kube_api: None,
            creation_policy: None,
            deletion_policy: None,
            delete_protection: None,
            deliver_catalog: None,
            enable_compilation: None,
            site: None,
            agent: AgentSettings::default(),
            purge: None,
            upgrade: None,
            binding,
            created,
        }
    }

    /// True if this state of the cluster revokes an identity that `before` admits.
    #[must_use]
    pub fn revokes_identity_of(&self, before: &Cluster) -> bool {
        let key = &before.binding.agent_key;
        self.tenant != before.tenant
            || self.binding.registration != before.binding.registration
            || key.is_some() && self.binding.agent_key != *key
    }

    /// Display name, or the id without one.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.id.as_str())
    }
}

/// Order of a person to remove all delivered objects of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgeOrder {
    /// Time of the order.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Name of the person.
    pub by: String,
}

/// Binding of a cluster to its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Distinguishes the cluster from a deleted one with the same id; part of its certificates.
    #[serde(with = "registration")]
    pub registration: Registration,
    /// Current bootstrap token.
    pub bootstrap: Bootstrap,
    /// SHA-256 of the public key that enrolled or was renewed last, in lower-case hexadecimal. No
    /// other key is admitted. `None` before the enrolment and after a revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_key: Option<String>,
    /// Authorities that the agent has reported as stored. `None` without a rotation since its enrolment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<AgentCa>,
    /// UID of the namespace `kube-system`, once an agent has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<ClusterUid>,
    /// Last agent that used the identity in another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<CloneSighting>,
    /// Last renewal of an expired identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_renewal: Option<LateRenewal>,
}

/// Authorities in the store of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCa {
    /// Newest authority that the agent trusts.
    pub trusted: CaPin,
    /// Authority that signed the identity.
    pub issuer: CaPin,
}

/// An agent with this cluster's identity in another Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloneSighting {
    /// Time of the observation.
    #[serde(with = "time::serde::rfc3339")]
    pub seen: OffsetDateTime,
    /// Address of the agent.
    pub from: IpAddr,
    /// UID of the other cluster.
    pub uid: ClusterUid,
}

/// A renewal after the identity's expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LateRenewal {
    /// Time of the renewal.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Expiry of the identity.
    #[serde(with = "time::serde::rfc3339")]
    pub expired: OffsetDateTime,
}

/// The current bootstrap token without its secret part: it is a keyed hash of cluster, generation
/// and expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Incremented with every new token; older ones are void.
    pub generation: i64,
    /// Expiry of the token.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// SHA-256 of the public key that spent it, in lower-case hexadecimal; or the API token created
    /// for Steward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_by: Option<String>,
    /// True if the token was revoked.
    #[serde(default)]
    pub revoked: bool,
    /// Name of the creator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl Binding {
    /// Bound to no agent; `bootstrap` admits the first one.
    #[must_use]
    pub fn open(registration: Registration, bootstrap: Bootstrap) -> Self {
        Binding {
            registration,
            bootstrap,
            agent_key: None,
            ca: None,
            uid: None,
            clone: None,
            late_renewal: None,
        }
    }
}

impl Bootstrap {
    /// Prefix of `spent_by` if Steward's manifests were handed out; the id of its API token
    /// follows.
    pub const BY_STEWARD: &str = "steward:";

    /// A new token, valid until spent or expired.
    #[must_use]
    pub fn new(generation: i64, expires: OffsetDateTime, created_by: Option<String>) -> Self {
        Bootstrap {
            generation,
            expires,
            spent_by: None,
            revoked: false,
            created_by,
        }
    }

    /// True if the token can still be spent.
    #[must_use]
    pub fn open(&self, now: OffsetDateTime) -> bool {
        self.spent_by.is_none() && !self.revoked && now < self.expires
    }
}

/// In lower-case hexadecimal.
pub(super) mod registration {
    use fairlead_certs::Registration;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::model::hex;

    pub(crate) fn serialize<S: Serializer>(it: &Registration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex::encode(it.as_bytes()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Registration, D::Error> {
        let text = String::deserialize(from)?;
        hex::decode(&text)
            .map(Registration::from_bytes)
            .ok_or_else(|| D::Error::custom("it is not a registration"))
    }
}
