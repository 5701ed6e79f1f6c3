//! Facts of a real cluster: collected with the rights of the install manifest only, reported to the hub, and
//! found by search.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Pod, Site, admin::get_plain, eventually};
use serde_json::{Value, json};

const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// Issuer of the tokens of service accounts, as the cluster is started with.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Objects to be found in addition to those of every cluster.
const OBJECTS: &str = r#"
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: Node, metadata: {name: one, labels: {zone: a}},
   spec: {taints: [{key: dedicated, value: db, effect: NoSchedule}]}},
  {apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {a8r.io/owner: "@ann", other: x}}},
  {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop},
   spec: {rules: [{host: shop.example.com}]}},
  {apiVersion: apps/v1, kind: StatefulSet,
   metadata: {name: pg, namespace: shop, labels: {app.kubernetes.io/name: postgresql, app.kubernetes.io/version: "15.3", helm.sh/chart: postgresql-12.1.0}},
   spec: {serviceName: pg, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: x}]}}}},
  {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: logs, namespace: shop, labels: {helm.sh/chart: log-agent-1.2.3-rc.1}},
   spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: x}]}}}},
  {apiVersion: v1, kind: Secret, type: helm.sh/release.v1, stringData: {release: it-is-secret},
   metadata: {name: sh.helm.release.v1.pg.v2, namespace: shop, labels: {owner: helm, name: pg, status: deployed, version: "2"}}},
  {apiVersion: v1, kind: ConfigMap, metadata: {name: additional-facts, namespace: fairlead}, data: {site: Berlin, racks: "12"}},
  {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boats.example.com},
   spec: {group: example.com, scope: Namespaced, names: {plural: boats, kind: Boat},
     versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}},
]}"#;

/// Names and values of all facts of the cluster.
async fn facts(hub: &Hub) -> Option<Value> {
    let shown = hub.cli(["facts", "pod", "-o", "json"]).await.ok()?;
    let shown: Value = serde_json::from_str(&shown.success().ok()?).ok()?;
    let items = shown["items"].as_array()?.iter();
    let facts = items.map(|it| Some((it["name"].as_str()?.to_owned(), it["value"].clone())));
    facts
        .collect::<Option<serde_json::Map<_, _>>>()
        .map(Value::Object)
}

/// A hub, a cluster with its manifest applied, and an agent that collects facts every second.
struct FactsWorld {
    cluster: Cluster,
    hub: Hub,
    _pod: Pod,
    _agent: Site,
}

impl FactsWorld {
    async fn start() -> anyhow::Result<Self> {
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
        let joining = hub.create_cluster("pod").await?;
        let url = joining.install_url.strip_prefix("http://");
        let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
        let manifest = get_plain(address.parse()?, &format!("/{path}")).await?;
        let pod = Pod::install(&cluster, &manifest, "fairlead", "fairlead-agent").await?;
        let apply = cluster.kubectl().args(["apply", "-f", "-"]).stdin(OBJECTS);
        apply.run().await?.success()?;
        let agent = Site::begin_looking(&hub, &pod, &joining.join, "pod", "1s")?;
        Ok(FactsWorld {
            cluster,
            hub,
            _pod: pod,
            _agent: agent,
        })
    }

    /// Waits until the facts satisfy the condition and returns them.
    async fn facts(&self, what: &str, are_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        let found = eventually(STEP_DEADLINE, what, async || {
            last = facts(&self.hub).await?;
            are_so(&last).then(|| last.clone())
        });
        let found = found.await;
        found.with_context(|| last.to_string())
    }

    async fn kubectl(&self, args: &[&str]) -> anyhow::Result<()> {
        let run = self.cluster.kubectl().args(args.iter().copied()).run();
        run.await?.success().map(drop)
    }

    /// `true` if the search finds the cluster.
    async fn finds(&self, kind: &str, term: &str) -> anyhow::Result<bool> {
        let found = self.hub.cli(["find", kind, term, "-o", "json"]).await?;
        let found: Value = serde_json::from_str(&found.success()?)?;
        Ok(!found["items"].as_array().context("items")?.is_empty())
    }
}

#[tokio::test]
async fn clusters_facts_are_known_found_and_forgotten() -> anyhow::Result<()> {
    let world = FactsWorld::start().await?;
    let missing = json!({ "helm": "the agent lacks the right to: list secrets" });
    let expected = [
        ("/kubernetesVersion/gitVersion", json!("v1.37.1")),
        ("/nodes/count", json!(1)),
        ("/nodes/taints/dedicated=db:NoSchedule", json!(1)),
        ("/ingressHosts", json!({ "shop.example.com": ["shop/web"] })),
        ("/services/postgresql", json!({ "15.3": ["shop/pg"] })),
        (
            "/charts",
            json!({ "log-agent-1.2.3-rc.1": ["shop/logs"], "postgresql-12.1.0": ["shop/pg"] }),
        ),
        ("/contacts", json!({ "shop": { "a8r.io/owner": "@ann" } })),
        ("/customResourceDefinitions", json!(["boats.example.com"])),
        ("/serviceAccountKeys/issuer", json!(ISSUER)),
        ("/site", json!("Berlin")),
        ("/racks", json!(12)),
        ("/incomplete", missing),
    ];
    // New rights take effect a moment later, so the first report may lack some.
    let is_whole = |it: &Value| {
        let mut expected = expected.iter();
        expected.all(|(path, value)| it.pointer(path) == Some(value))
    };
    let known = world.facts("the facts", is_whole).await?;
    ensure!(known["helmReleases"].is_null(), "{known}");
    for (kind, term, is_found) in [
        ("host", "shop.example.com", true),
        ("version", "<1.37", false),
        ("version", ">=1.37", true),
        ("service", "postgres<16", true),
        ("fact", "nodes.count=1", true),
    ] {
        ensure!(world.finds(kind, term).await? == is_found, "{kind} {term}");
    }

    // A change of the site operator's permissions takes effect a moment later.
    let allow = "create clusterrolebinding fairlead-facts-helm --clusterrole=fairlead-facts-helm \
        --serviceaccount=fairlead:fairlead-agent";
    let allow: Vec<_> = allow.split_whitespace().collect();
    world.kubectl(&allow).await?;
    let delete = ["delete", "configmap", "-n", "fairlead", "additional-facts"];
    world.kubectl(&delete).await?;
    let is_new = |it: &Value| it["helmReleases"].is_object() && it["site"].is_null();
    let known = world.facts("changed facts", is_new).await?;
    let release = json!({ "shop/pg": { "status": "deployed", "revision": 2 } });
    ensure!(known["helmReleases"] == release, "{known}");
    ensure!(known["incomplete"].is_null(), "{known}");
    ensure!(!known.to_string().contains("it-is-secret"));
    let table = ["facts", "pod", "--since", "1h", "--fact", "site"];
    let table = world.hub.cli(table).await?.success()?;
    ensure!(
        table.contains("Berlin") && table.contains("(removed)"),
        "{table}"
    );
    Ok(())
}
