//! Kubeconfigs with one context per cluster, and their files.

mod error;
mod file;
mod merge;
mod names;
mod sync;

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{
    Failure, HubUrl,
    resources::{Cluster, HubInfo},
};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

pub use error::{AmbiguousContext, KubeconfigError, MergeError};
pub use file::{MergeOutcome, default_path, has_other_entries, merge_into, sync_into};
pub use names::ContextName;
pub use sync::SyncOutcome;

use crate::{
    hub_client::{Credential, HubClient},
    lookup::among,
};
use names::Names;

/// Form of the clusters' server URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAddress {
    /// Path `/k8s/clusters/<id>` on the hub.
    Path,
    /// Host `<id>.<cluster domain>` as TLS server name.
    Name,
}

/// Generated kubeconfig with its hub and clusters.
pub struct NewKubeconfig {
    /// The kubeconfig.
    pub config: Value,
    /// Host of the hub, with the port if it is not 443.
    pub hub: String,
    /// Names of the contexts.
    pub contexts: Vec<String>,
}

impl NewKubeconfig {
    /// Text of the file.
    ///
    /// # Errors
    /// [`KubeconfigError::Serialize`]
    pub fn to_yaml(&self) -> Result<String, KubeconfigError> {
        file::to_yaml(&self.config)
    }
}

/// Generates a kubeconfig of the clusters with these names or ids, or of all visible clusters for none.
/// `with_plugin` leaves a token of the hub out, too; tokens of a sign-in are never in it. `address` is by name as far as the hub's certificate covers it, unless given.
///
/// # Errors
/// Failures of the hub; unknown or ambiguous clusters; [`AmbiguousContext`].
pub async fn generate(
    hub: &HubClient,
    clusters: &[String],
    address: Option<ServerAddress>,
    template: &ContextName,
    with_plugin: bool,
) -> Result<NewKubeconfig, Failure> {
    let visible: Vec<Cluster> = hub.get("/clusters").await?;
    let mut chosen: Vec<&Cluster> = Vec::new();
    for name in clusters {
        let cluster = among(&visible, name)?;
        if !chosen.iter().any(|it| it.id == cluster.id) {
            chosen.push(cluster);
        }
    }
    if clusters.is_empty() {
        chosen.extend(&visible);
    }
    let info = hub.get("/v1/hub").await?;
    let user = match (with_plugin, hub.credential()) {
        (false, Credential::Token(Some(token))) => json!({ "token": token.expose_secret() }),
        _ => plugin(hub.url()),
    };
    let access = Access::of(hub, &info, user, address);
    make(&access, &visible, &chosen, template)
}

/// Server addresses and credentials of the clusters.
struct Access<'a> {
    info: &'a HubInfo,
    ca: Option<&'a str>,
    user: Value,
    address: ServerAddress,
}

/// User entry without a secret: kubectl runs `fairlead credential` for the token.
fn plugin(hub: &HubUrl) -> Value {
    json!({
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "fairlead",
            "args": ["credential", "--hub", hub.to_string()],
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": false,
            "installHint": "fairlead is not in the PATH: install it, then sign in with `fairlead login`.",
        },
    })
}

impl<'a> Access<'a> {
    fn of(
        hub: &'a HubClient,
        info: &'a HubInfo,
        user: Value,
        address: Option<ServerAddress>,
    ) -> Self {
        let usual = match info.names_covered {
            true => ServerAddress::Name,
            false => ServerAddress::Path,
        };
        Access {
            info,
            ca: info.ca.as_deref().or(hub.ca()),
            user,
            address: address.unwrap_or(usual),
        }
    }

    fn cluster(&self, cluster: &Cluster) -> Value {
        let url = &self.info.public_url;
        let mut entry = match self.address {
            ServerAddress::Path => {
                json!({ "server": format!("{url}/k8s/clusters/{}", cluster.id) })
            }
            ServerAddress::Name => json!({
                "server": url.to_string(),
                "tls-server-name": format!("{}.{}", cluster.id, self.info.cluster_domain),
            }),
        };
        if let (Some(ca), Some(fields)) = (self.ca, entry.as_object_mut()) {
            let ca = STANDARD.encode(ca);
            fields.insert("certificate-authority-data".to_owned(), ca.into());
        }
        entry
    }
}

fn make(
    access: &Access<'_>,
    visible: &[Cluster],
    chosen: &[&Cluster],
    template: &ContextName,
) -> Result<NewKubeconfig, Failure> {
    // Port 443 is omitted, as in the URL.
    let url = access.info.public_url.to_string();
    let hub = url.strip_prefix("https://").unwrap_or(&url);
    let names = Names::new(hub.to_owned(), visible);
    let contexts = names.contexts(template, chosen)?;
    let cluster =
        |it: &&Cluster| json!({ "name": names.cluster(&it.id), "cluster": access.cluster(it) });
    let context = |(it, name): (&&Cluster, &String)| {
        let context = json!({ "cluster": names.cluster(&it.id), "user": names.user() });
        json!({ "name": name, "context": context })
    };
    // With several contexts there is no default.
    let current = match contexts.as_slice() {
        [one] => one.as_str(),
        _ => "",
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": chosen.iter().map(cluster).collect::<Vec<_>>(),
        "contexts": chosen.iter().zip(&contexts).map(context).collect::<Vec<_>>(),
        "current-context": current,
        "users": [{ "name": names.user(), "user": access.user }],
    });
    Ok(NewKubeconfig {
        config,
        hub: names.hub().to_owned(),
        contexts,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fairlead_api::resources::{ClusterFields, ClusterState, ClusterStatus};
    use time::OffsetDateTime;

    use super::*;

    pub(super) fn cluster(id: &str, name: &str) -> Cluster {
        let epoch = OffsetDateTime::UNIX_EPOCH;
        Cluster {
            id: id.parse().unwrap(),
            tenant: "t-default".parse().unwrap(),
            display_name: name.to_owned(),
            created: epoch,
            version: 1,
            status: ClusterStatus {
                state: ClusterState::Never,
                since: epoch,
                last_error: None,
                last_seen: None,
                last_good_probe: None,
                hub: None,
            },
            uid: None,
            clone: None,
            enrolled: false,
            install_url: None,
            stale_facts: Vec::new(),
            dynamic_facts: BTreeMap::new(),
            vault: None,
            compile_meta: None,
            fields: ClusterFields::default(),
            more: serde_json::Map::new(),
        }
    }

    fn config(address: ServerAddress, clusters: &[Cluster], chosen: usize) -> Value {
        let info = HubInfo {
            version: "0".to_owned(),
            public_url: "https://127.0.0.1:8443".parse().unwrap(),
            cluster_domain: "clusters.test".to_owned(),
            names_covered: true,
            ca: Some("PEM".to_owned()),
            caller: "ada".to_owned(),
        };
        let access = Access {
            info: &info,
            ca: info.ca.as_deref(),
            user: json!({ "token": "t" }),
            address,
        };
        let chosen: Vec<_> = clusters.iter().take(chosen).collect();
        let made = make(&access, clusters, &chosen, &ContextName::default());
        made.unwrap().config
    }

    #[test]
    fn address_is_a_name_or_a_path() {
        let clusters = [cluster("c-1", "demo")];
        let by_name = config(ServerAddress::Name, &clusters, 1);
        let entry = &by_name["clusters"][0]["cluster"];
        assert_eq!(entry["server"], "https://127.0.0.1:8443");
        assert_eq!(entry["tls-server-name"], "c-1.clusters.test");
        let by_path = config(ServerAddress::Path, &clusters, 1);
        let entry = &by_path["clusters"][0]["cluster"];
        assert_eq!(entry["server"], "https://127.0.0.1:8443/k8s/clusters/c-1");
        assert_eq!(by_path["users"][0]["name"], "fairlead@127.0.0.1:8443");
    }

    #[test]
    fn only_one_cluster_is_current() {
        let clusters = [cluster("c-1", "demo"), cluster("c-2", "other")];
        let both = config(ServerAddress::Path, &clusters, 2);
        assert_eq!(both["current-context"], "");
        let one = config(ServerAddress::Path, &clusters, 1);
        assert_eq!(one["current-context"], "demo@127.0.0.1:8443");
        assert_eq!(one["contexts"][0], both["contexts"][0]);
        assert_eq!(config(ServerAddress::Path, &[], 0)["contexts"], json!([]));
    }
}
