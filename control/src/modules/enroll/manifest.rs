//! The install manifest: all objects that a cluster needs to be reachable, in one YAML stream.
//!
//! Its grants define the site operator's trust in the hub. They are spelled out here in full and
//! kept minimal.

mod delivery;
mod git_proxy;
mod gitops;
mod guard;
mod rights;
mod site;
mod values;
mod workload;

use fairlead_api::{
    ClusterId, HubUrl, TenantId,
    gitops::GitOpsTool,
    resources::SiteSettings,
    site::{DeliveryRights, SiteChoices},
};
use fairlead_gitops_install::InstallerRights;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

pub(super) use values::values;

const NAMESPACE: &str = "fairlead";
const AGENT_NAME: &str = "fairlead-agent";
/// Secret with the agent's identity.
const IDENTITY_SECRET: &str = "fairlead-identity";
const JOIN_SECRET: &str = "fairlead-join";
/// ClusterRole for the collectors of facts.
const FACTS_ROLE: &str = "fairlead-facts";
const HELM_FACTS_ROLE: &str = "fairlead-facts-helm";
const ADMIN_PORT: u16 = 9090;
/// User id of the image, as in distroless images.
const IMAGE_UID: u32 = 65532;

/// Inputs of an install manifest.
#[derive(Debug, Clone)]
pub struct ManifestInput {
    /// First start of the agent.
    pub start: AgentStart,
    /// Tenant of the cluster; its groups may be impersonated.
    pub tenant: TenantId,
    /// Choices of the site operator.
    pub choices: SiteChoices,
    /// GitOps tool of the cluster; the agent gets rights for this one only.
    pub gitops: GitOpsTool,
    /// True: the agent may take over a tool that exists already.
    pub adopt: bool,
    /// True: the agent has found a tool of others, so its namespace exists.
    pub tool_exists: bool,
    /// Rights of the account that installs this tool; `None` if the hub installs nothing.
    pub installer: Option<InstallerRights>,
    /// Network of the site.
    pub site: SiteSettings,
    /// Image of the agent.
    pub image: String,
    /// Version of the agent, as an annotation.
    pub version: String,
}

/// First start of an agent.
#[derive(Debug, Clone)]
pub enum AgentStart {
    /// With the join string of a cluster.
    Join {
        /// Id of the cluster.
        cluster: ClusterId,
        /// The join string.
        join: SecretString,
    },
    /// Without one: the agent waits for its adoption.
    Adopt {
        /// The hub.
        hub: HubUrl,
    },
}

/// The manifest for `kubectl apply -f`, one YAML document per object. With [`AgentStart::Join`] it contains the join string.
///
/// # Errors
/// It cannot be written as YAML.
pub fn manifest(input: &ManifestInput) -> Result<String, serde_saphyr::ser::Error> {
    let tenant = &input.tenant;
    let mut text = match &input.start {
        AgentStart::Join { cluster, .. } => {
            format!(
                "# Fairlead agent of cluster {cluster} ({tenant}).\n# Holds a token that is good once: do not keep this file.\n"
            )
        }
        AgentStart::Adopt { hub } => {
            format!("# Fairlead agent that waits for its adoption by {hub} ({tenant}).\n")
        }
    };
    // All strings are quoted, so that no parser reads one as a number or boolean.
    let options = serde_saphyr::ser_options! { quote_all: true };
    for object in objects(input) {
        let yaml = serde_saphyr::to_string_with_options(&object, options.clone())?;
        text.push_str("---\n");
        text.push_str(yaml.trim_start_matches("---\n"));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn objects(input: &ManifestInput) -> Vec<Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": NAMESPACE,
                "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
            },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(AGENT_NAME),
        }),
    ];
    objects.extend(guard::policy());
    objects.extend(rights::of_agent(input));
    objects.extend(rights::of_users(&input.choices));
    if let AgentStart::Join { join, .. } = &input.start {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(JOIN_SECRET),
            "type": "Opaque",
            "stringData": { "join": join.expose_secret() },
        }));
    }
    if has_delivery(input) {
        objects.extend(delivery::objects(
            input.choices.delivery,
            returned_secret(input),
        ));
    }
    let of_gitops = gitops::objects(input.gitops, input.adopt, input.tool_exists);
    if !has_delivery(input) && !of_gitops.is_empty() {
        objects.extend(delivery::secrets_policy(returned_secret(input)));
    }
    objects.extend(of_gitops);
    if let Some(target) = &input.choices.git_proxy {
        objects.extend(git_proxy::objects(target));
    }
    if let Some(rights) = &input.installer {
        objects.extend(gitops::installer(input.gitops, rights));
    }
    objects.extend(site::authorities(&input.site));
    objects.push(workload::network_policy());
    objects.push(workload::deployment(input));
    objects
}

/// True if the agent delivers bundles, or the GitOps tool only.
fn has_delivery(input: &ManifestInput) -> bool {
    input.choices.delivery != DeliveryRights::None || input.installer.is_some()
}

/// Namespace and name of the Secret that the end of an adoption returns.
fn returned_secret(input: &ManifestInput) -> Option<(&'static str, &'static str)> {
    gitops::secret(input.gitops).filter(|_| input.adopt)
}

fn metadata(name: &str) -> Value {
    json!({ "name": name, "namespace": NAMESPACE, "labels": labels() })
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": AGENT_NAME, "app.kubernetes.io/part-of": "fairlead" })
}

#[cfg(test)]
mod tests;
