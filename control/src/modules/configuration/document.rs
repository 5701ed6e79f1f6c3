//! The configuration document of an agent: a function of its cluster's and its tenant's records.

use std::collections::BTreeMap;

use fairlead_api::{
    CaPin,
    config::{AgentConfig, Repository, Revisions},
    gitops::{GitOpsConfig, GitOpsSettings},
    upgrade::DesiredUpgrade,
};
use fairlead_registry::agent_keys;
use fairlead_store::model::{AgentSettings, Cluster, ClusterUpgradeOrder, GitRepo, Tenant};

/// Settings of the cluster; missing ones come from its tenant's template. `ca`: pins of the hub's authorities.
/// `registered`: the Git server has all deploy keys of the record.
pub(super) fn document(
    cluster: &Cluster,
    tenant: Option<&Tenant>,
    ca: Vec<CaPin>,
    registered: bool,
) -> AgentConfig {
    let template = tenant.and_then(|tenant| tenant.cluster_template.as_ref());
    let repository = |repo: &GitRepo| {
        let url = repo.url.clone()?;
        Some(Repository {
            url,
            host_keys: repo.host_keys.clone(),
        })
    };
    let of_template = || template.and_then(|it| it.git_repo.as_ref());
    let own = cluster.git_repo.as_deref().and_then(repository);
    let mut overrides = BTreeMap::new();
    for (name, own, of_template) in [
        (
            "tenant",
            &cluster.tenant_git_repo_revision,
            template.and_then(|it| it.tenant_git_repo_revision.as_ref()),
        ),
        (
            "global",
            &cluster.global_git_repo_revision,
            template.and_then(|it| it.global_git_repo_revision.as_ref()),
        ),
    ] {
        if let Some(revision) = own.as_ref().or(of_template) {
            overrides.insert(name.to_owned(), revision.clone());
        }
    }
    let nothing = AgentSettings::default();
    let (own_agent, of_all) = (&cluster.agent, template.map_or(&nothing, |it| &it.agent));
    let either = |one: &Option<String>, other: &Option<String>| one.clone().or(other.clone());
    AgentConfig {
        repository: own.or_else(|| of_template().and_then(repository)),
        revisions: Revisions {
            global: tenant.and_then(|tenant| tenant.global_git_repo_revision.clone()),
            tenant: tenant.and_then(|tenant| tenant.revision.clone()),
            overrides,
        },
        agent_version: either(&own_agent.version, &of_all.version),
        upgrade: cluster.upgrade.as_ref().and_then(upgrade),
        facts: (own_agent.facts.clone())
            .or_else(|| of_all.facts.clone())
            .unwrap_or_default(),
        allow_connect: (own_agent.allow_connect.clone()).or_else(|| of_all.allow_connect.clone()),
        ca,
        gitops: gitops(cluster, of_all, registered),
    }
}

/// An upgrade without a result.
fn upgrade(order: &ClusterUpgradeOrder) -> Option<DesiredUpgrade> {
    (!order.state.is_final()).then(|| DesiredUpgrade {
        id: order.id.clone(),
        version: order.version.clone(),
        image: order.image.clone(),
        timeout_seconds: order.timeout_seconds,
    })
}

/// The keys matter only to an agent with a tool. For all others a new key would be a needless revision.
fn gitops(cluster: &Cluster, of_all: &AgentSettings, registered: bool) -> GitOpsConfig {
    let settings = GitOpsSettings::over(cluster.agent.gitops.as_ref(), of_all.gitops.as_ref());
    if settings.is_off() {
        return GitOpsConfig::default();
    }
    GitOpsConfig {
        keys: agent_keys::of(cluster.git_repo.as_deref()),
        registered,
        ..settings
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::gitops::GitOpsTool;
    use fairlead_certs::Registration;
    use fairlead_store::model::hex::hash_of;
    use fairlead_store::model::{Binding, Bootstrap, ClusterTemplate, DeployKey};
    use time::OffsetDateTime;

    use super::*;

    const START: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn cluster() -> Cluster {
        let bootstrap = Bootstrap::new(1, START, None);
        let binding = Binding::open(Registration::from_bytes([1; 8]), bootstrap);
        Cluster::new(
            "c-demo".parse().unwrap(),
            "t-acme".parse().unwrap(),
            binding,
            START,
        )
    }

    fn tenant(template: ClusterTemplate) -> Tenant {
        let mut tenant: Tenant = serde_json::from_value(serde_json::json!({
            "id": "t-acme", "created": "1970-01-01T00:00:00Z", "revision": "main", "globalGitRepoRevision": "v1",
        }))
        .unwrap();
        tenant.cluster_template = Some(template);
        tenant
    }

    fn repo(url: &str) -> GitRepo {
        GitRepo {
            url: Some(url.to_owned()),
            ..GitRepo::default()
        }
    }

    #[test]
    fn cluster_settings_override_the_tenants() {
        let template = ClusterTemplate {
            git_repo: Some(repo("ssh://of-all")),
            tenant_git_repo_revision: Some("of-all".to_owned()),
            agent: AgentSettings {
                version: Some("0.2.0".to_owned()),
                allow_connect: Some(vec!["db:5432".to_owned()]),
                ..AgentSettings::default()
            },
            ..ClusterTemplate::default()
        };
        let tenant = tenant(template);
        let mut cluster = cluster();
        let before = document(&cluster, Some(&tenant), Vec::new(), false);
        assert_eq!(before.repository.as_ref().unwrap().url, "ssh://of-all");
        assert_eq!(before.revisions.overrides["tenant"], "of-all");
        assert_eq!(before.revisions.global.as_deref(), Some("v1"));
        assert_eq!(before.agent_version.as_deref(), Some("0.2.0"));

        cluster.git_repo = Some(Box::new(repo("ssh://own")));
        cluster.agent.version = Some("0.3.0".to_owned());
        let after = document(&cluster, Some(&tenant), Vec::new(), false);
        assert_eq!(after.repository.as_ref().unwrap().url, "ssh://own");
        assert_eq!(after.agent_version.as_deref(), Some("0.3.0"));
        assert_eq!(after.allow_connect, before.allow_connect);
        assert_ne!(hash_of(&before), hash_of(&after));

        cluster.facts.insert(
            "site".to_owned(),
            fairlead_store::model::Fact {
                value: "Berlin".into(),
                source: fairlead_store::model::FactSource::People,
                received: 0,
                observed: 0,
            },
        );
        let same = document(&cluster, Some(&tenant), Vec::new(), false);
        assert_eq!(
            hash_of(&same),
            hash_of(&after),
            "facts are not part of the agent's settings"
        );
        assert_eq!(
            document(&self::cluster(), None, Vec::new(), false),
            AgentConfig::default()
        );
    }

    #[test]
    fn keys_reach_only_agents_with_a_tool() {
        let mut cluster = cluster();
        let mut own = repo("ssh://git@git.example/a/b.git");
        let key = DeployKey {
            key: "ssh-ed25519 AAAA".to_owned(),
            ..DeployKey::default()
        };
        own.deploy_keys.insert("steward".to_owned(), key);
        cluster.git_repo = Some(Box::new(own));
        let off = document(&cluster, None, Vec::new(), true);
        assert_eq!(off.gitops, GitOpsConfig::default());
        let template = ClusterTemplate {
            agent: AgentSettings {
                gitops: Some(GitOpsSettings {
                    tool: Some(GitOpsTool::Flux),
                    ..GitOpsSettings::default()
                }),
                ..AgentSettings::default()
            },
            ..ClusterTemplate::default()
        };
        let on = document(&cluster, Some(&tenant(template)), Vec::new(), true);
        assert_eq!(on.gitops.tool, GitOpsTool::Flux);
        assert_eq!(on.gitops.keys.current.as_deref(), Some("ssh-ed25519 AAAA"));
        assert!(on.gitops.registered);
    }
}
