//! `fairlead kubeconfig`: one context for each cluster, named by its display name where that is unique.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{
    Failure,
    resources::{Cluster, HubInfo},
};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::{
    args::{Address, Kubeconfig},
    cluster,
    environment::Environment,
    hub_client::HubClient,
    output,
    settings::block_on,
};

pub(crate) fn run(args: &Kubeconfig, environment: &Environment) -> Result<(), Failure> {
    let hub = HubClient::of(environment)?;
    let text = block_on(async {
        let clusters = if args.clusters.is_empty() {
            hub.get::<Vec<Cluster>>("/clusters").await?
        } else {
            let mut chosen = Vec::new();
            for name in &args.clusters {
                chosen.push(cluster::find(&hub, name).await?);
            }
            chosen
        };
        write(&hub, &clusters, args.address).await
    })??;
    output::print(&text)
}

/// The kubeconfig of these clusters, as YAML.
pub(crate) async fn write(
    hub: &HubClient,
    clusters: &[Cluster],
    address: Option<Address>,
) -> Result<String, Failure> {
    let info: HubInfo = hub.get("/v1/hub").await?;
    let ca = info.ca.as_deref().or(hub.ca()).map(str::to_owned);
    let token = hub.token().expose_secret();
    output::yaml(&kubeconfig(&info, ca.as_deref(), token, clusters, address))
}

fn kubeconfig(
    info: &HubInfo,
    ca: Option<&str>,
    token: &str,
    clusters: &[Cluster],
    address: Option<Address>,
) -> Value {
    let address = address.unwrap_or(if info.names_covered {
        Address::Name
    } else {
        Address::Path
    });
    let names = context_names(clusters);
    let entry = |cluster: &Cluster| {
        let mut entry = match address {
            Address::Path => {
                json!({ "server": format!("{}/k8s/clusters/{}", info.public_url, cluster.id) })
            }
            Address::Name => json!({
                "server": info.public_url.to_string(),
                "tls-server-name": format!("{}.{}", cluster.id, info.cluster_domain),
            }),
        };
        if let (Some(ca), Some(fields)) = (ca, entry.as_object_mut()) {
            fields.insert(
                "certificate-authority-data".to_owned(),
                STANDARD.encode(ca).into(),
            );
        }
        json!({ "name": cluster.id, "cluster": entry })
    };
    let context = |(cluster, name): (&Cluster, &String)| json!({ "name": name, "context": { "cluster": cluster.id, "user": "fairlead" } });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters.iter().map(entry).collect::<Vec<_>>(),
        "contexts": clusters.iter().zip(&names).map(context).collect::<Vec<_>>(),
        "current-context": names.first().map_or("", String::as_str),
        "users": [{ "name": "fairlead", "user": { "token": token } }],
    })
}

/// The display name, or the id where several share it.
fn context_names(clusters: &[Cluster]) -> Vec<String> {
    let mut count = BTreeMap::<&str, usize>::new();
    for cluster in clusters {
        *count.entry(&cluster.display_name).or_default() += 1;
    }
    let unique = |cluster: &Cluster| count.get(cluster.display_name.as_str()) == Some(&1);
    let name = |c: &Cluster| {
        if unique(c) {
            c.display_name.clone()
        } else {
            c.id.to_string()
        }
    };
    clusters.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use fairlead_api::resources::{ClusterStatus, State};
    use time::OffsetDateTime;

    use super::*;

    fn cluster(id: &str, name: &str) -> Cluster {
        let epoch = OffsetDateTime::UNIX_EPOCH;
        Cluster {
            id: id.parse().unwrap(),
            tenant: "t-default".parse().unwrap(),
            display_name: name.to_owned(),
            created: epoch,
            version: 1,
            status: ClusterStatus {
                state: State::Never,
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
            more: serde_json::Map::new(),
        }
    }

    fn info(names_covered: bool) -> HubInfo {
        HubInfo {
            version: "0".to_owned(),
            public_url: "https://127.0.0.1:8443".parse().unwrap(),
            cluster_domain: "clusters.test".to_owned(),
            names_covered,
            ca: Some("PEM".to_owned()),
            caller: "ada".to_owned(),
        }
    }

    #[test]
    fn a_name_that_two_clusters_share_gives_way_to_their_ids() {
        let clusters = [
            cluster("c-1", "demo"),
            cluster("c-2", "demo"),
            cluster("c-3", "other"),
        ];
        assert_eq!(context_names(&clusters), ["c-1", "c-2", "other"]);
    }

    #[test]
    fn names_are_used_where_the_certificate_covers_them() {
        let clusters = [cluster("c-1", "demo")];
        let by_name = kubeconfig(&info(true), Some("PEM"), "t", &clusters, None);
        assert_eq!(
            by_name["clusters"][0]["cluster"]["server"],
            "https://127.0.0.1:8443"
        );
        assert_eq!(
            by_name["clusters"][0]["cluster"]["tls-server-name"],
            "c-1.clusters.test"
        );
        let by_path = kubeconfig(&info(false), None, "t", &clusters, None);
        assert_eq!(
            by_path["clusters"][0]["cluster"]["server"],
            "https://127.0.0.1:8443/k8s/clusters/c-1"
        );
        assert_eq!(by_path["current-context"], "demo");
    }
}
