//! A cluster: what people say of it, what its agent reports, and which agent that is.

use std::{collections::BTreeMap, net::IpAddr};

use fairlead_api::{ClusterId, ClusterUid, TenantId};
use fairlead_certs::Registration;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{
    agent::AgentSettings,
    compile::CompileMeta,
    fact::Facts,
    git::{CreationPolicy, Credentials, DeletionPolicy, GitRepo, RepoState},
};

/// One Kubernetes cluster, registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    pub id: ClusterId,
    pub tenant: TenantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Said by people.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
    /// Said by its agent.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub dynamic_facts: Facts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<GitRepo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_state: Option<RepoState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_git_repo_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_meta: Option<CompileMeta>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_api: Option<KubeApi>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<CreationPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_protection: Option<bool>,
    #[serde(default, skip_serializing_if = "AgentSettings::is_empty")]
    pub agent: AgentSettings,
    pub binding: Binding,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}

impl Cluster {
    /// One of which nobody has said anything yet.
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
            tenant_git_repo_revision: None,
            global_git_repo_revision: None,
            compile_meta: None,
            kube_api: None,
            creation_policy: None,
            deletion_policy: None,
            delete_protection: None,
            agent: AgentSettings::default(),
            binding,
            created,
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.id.as_str())
    }
}

/// Where its API server is reached by those who can reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeApi {
    /// `https://host[:port]`
    pub endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// Which agent is this cluster's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Tells it from a deleted cluster that had the same id; its certificates carry it.
    #[serde(with = "registration")]
    pub registration: Registration,
    pub bootstrap: Bootstrap,
    /// SHA-256 of the public key that enrolled last, in lower-case hexadecimal: that of an agent, whoever has spent a token
    /// since. See [`Binding::enrolled`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_key: Option<String>,
    /// Of its namespace `kube-system`, once an agent has told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<ClusterUid>,
    /// The last agent that had its identity in another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<CloneSighting>,
    /// The last time that its agent came back with an identity that had expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_renewal: Option<LateRenewal>,
}

/// An agent with a cluster's identity in another Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloneSighting {
    #[serde(with = "time::serde::rfc3339")]
    pub seen: OffsetDateTime,
    pub from: IpAddr,
    pub uid: ClusterUid,
}

/// An agent's renewal after its identity's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LateRenewal {
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub expired: OffsetDateTime,
}

/// The current bootstrap token, without what makes it one: it is a keyed hash of cluster, generation and expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Rises with every new token; older ones are void.
    pub generation: i64,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// SHA-256 of the public key that spent it, in lower-case hexadecimal; or who fetched the manifests with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_by: Option<String>,
    #[serde(default)]
    pub revoked: bool,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl Binding {
    /// To no agent yet; `bootstrap` lets the first one in.
    #[must_use]
    pub fn open(registration: Registration, bootstrap: Bootstrap) -> Self {
        Binding {
            registration,
            bootstrap,
            agent_key: None,
            uid: None,
            clone: None,
            late_renewal: None,
        }
    }

    /// The key that enrolled last, as a fingerprint. Before it was kept apart, only the token told, if it was spent by a key.
    #[must_use]
    pub fn enrolled(&self) -> Option<&str> {
        let spent_by = self.bootstrap.spent_by.as_deref();
        let key = || spent_by.filter(|it| !it.starts_with(Bootstrap::BY_STEWARD));
        self.agent_key.as_deref().or_else(key)
    }

    /// A new token in the place of the one before; whoever has enrolled stays known.
    pub fn invite(&mut self, bootstrap: Bootstrap) {
        self.agent_key = self.enrolled().map(str::to_owned);
        self.bootstrap = bootstrap;
    }
}

impl Bootstrap {
    /// What `spent_by` begins with where Steward's manifests were handed out for it; the id of its API token follows.
    pub const BY_STEWARD: &str = "steward:";

    /// Good until it is spent or expires.
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

    /// Whether somebody may still come with it.
    #[must_use]
    pub fn open(&self, now: OffsetDateTime) -> bool {
        self.spent_by.is_none() && !self.revoked && now < self.expires
    }
}

/// In lower-case hexadecimal.
mod registration {
    use fairlead_certs::Registration;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::model::hex;

    pub(super) fn serialize<S: Serializer>(it: &Registration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex::encode(it.as_bytes()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Registration, D::Error> {
        let text = String::deserialize(from)?;
        hex::decode(&text)
            .map(Registration::from_bytes)
            .ok_or_else(|| D::Error::custom("it is not a registration"))
    }
}
