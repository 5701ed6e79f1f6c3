//! State after the kills: cluster, journals, releases and runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, ensure};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use fairlead_delivery_agent::{ProcessIdentity, journal::Journal, kube::KubeClient};
use fairlead_e2e::eventually;
use serde_json::Value;

use super::change::{is_chart, name, objects};
use crate::world::{Member, World};

/// Longest time until all retries have ended: back-offs double from 30 s.
const SETTLE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(900);

/// States of runs that have not ended.
const OPEN: [&str; 3] = ["Queued", "Leased", "Running"];

/// Waits until each bundle has its last content, and checks everything.
pub(super) async fn all(world: &World, contents: &[u32], runner_log: &Path) -> anyhow::Result<()> {
    settled(world, contents.len()).await?;
    let member = &world.members[0];
    let journals = inventories(member).await?;
    for (bundle, content) in contents.iter().enumerate() {
        let id = format!("b-{}", name(bundle));
        let expected: BTreeSet<String> = objects(bundle, *content).into_iter().collect();
        let found = labelled(member, &name(bundle), is_chart(bundle), *content).await?;
        ensure!(
            found == expected,
            "{id}: {found:?} in the cluster, expected {expected:?}"
        );
        let journal = journals.get(&id).context("no journal")?;
        ensure!(*journal == expected, "{id}: {journal:?} in the journal");
        if is_chart(bundle) {
            revisions(member, &name(bundle)).await?;
        }
        runs(world, &id).await?;
    }
    programs(&std::fs::read_to_string(runner_log)?)
}

/// Waits until every deployment is ready with its wanted generation.
async fn settled(world: &World, bundles: usize) -> anyhow::Result<()> {
    let mut last = Value::Null;
    let list = ["deployment", "list", "--cluster", &world.members[0].id];
    let settled = eventually(SETTLE_DEADLINE, "ready deployments", async || {
        last = world.json(&list).await.ok()?;
        let items = last["items"].as_array()?;
        let is_settled = |it: &Value| {
            let generation = &it["generation"];
            it["state"] == "Ready" && generation["applied"] == generation["wanted"]
        };
        (items.len() == bundles && items.iter().all(is_settled)).then_some(())
    });
    let settled = settled.await;
    settled.with_context(|| format!("{last}; agent: {}", world.log(0)))
}

/// Names of the objects in each journal. None may have a run that has not ended.
pub(super) async fn inventories(
    member: &Member,
) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let target = ApiServerConfig::Kubeconfig {
        path: member.cluster.kubeconfig(),
        context: None,
    };
    let upstream = Upstream::new(ApiCredentials::new(&target));
    let client = KubeClient::new(Arc::new(upstream));
    let journals = Journal::load_all(&client, &ProcessIdentity::of_host()).await?;
    let mut inventories = BTreeMap::new();
    for (bundle, journal) in journals {
        let state = journal.state().await;
        let record = &state.record;
        ensure!(record.damage.is_none(), "{bundle}: {:?}", record.damage);
        ensure!(record.pending.is_none(), "{bundle}: {:?}", record.pending);
        let names = state.inventory.iter().map(|it| it.key.name.clone());
        inventories.insert(bundle.to_string(), names.collect());
    }
    Ok(inventories)
}

/// Names of the objects of a bundle in the cluster, all with this content.
pub(super) async fn labelled(
    member: &Member,
    name: &str,
    is_chart: bool,
    content: u32,
) -> anyhow::Result<BTreeSet<String>> {
    let selector = if is_chart {
        "app.kubernetes.io/managed-by=Helm".to_owned()
    } else {
        format!("fairlead/bundle=b-{name}")
    };
    let get = ["get", "configmaps", "-l", &selector, "-o", "json"];
    let list: Value = serde_json::from_str(&member.kubectl(&get).await?)?;
    let items = list["items"].as_array().context("no list")?;
    let mut names = BTreeSet::new();
    for item in items {
        let metadata = &item["metadata"];
        let release = &metadata["annotations"]["meta.helm.sh/release-name"];
        if is_chart && *release != *name {
            continue;
        }
        ensure!(item["data"]["content"] == *content.to_string(), "{item}");
        names.insert(metadata["name"].as_str().unwrap_or_default().to_owned());
    }
    Ok(names)
}

/// No revision is pending, each is of an attempt of its own, and at most one of each spec succeeded.
pub(super) async fn revisions(member: &Member, release: &str) -> anyhow::Result<()> {
    let selector = format!("owner=helm,name={release}");
    let get = ["get", "secrets", "-l", &selector, "-o", "json"];
    let list: Value = serde_json::from_str(&member.kubectl(&get).await?)?;
    let records = list["items"].as_array().context("no list")?;
    let (mut specs, mut attempts) = (BTreeSet::new(), BTreeSet::new());
    let mut deployed = 0;
    for record in records {
        let labels = &record["metadata"]["labels"];
        let label = |name: &str| labels[name].as_str().unwrap_or_default().to_owned();
        let (status, spec) = (label("status"), label("fairlead-spec"));
        let attempt = (label("fairlead-run"), label("fairlead-attempt"));
        ensure!(
            attempts.insert(attempt),
            "an attempt made two revisions: {labels}"
        );
        match &*status {
            "failed" => {}
            "deployed" | "superseded" => {
                deployed += u32::from(status == "deployed");
                ensure!(specs.insert(spec), "a spec has two revisions: {labels}");
            }
            _ => anyhow::bail!("{labels}"),
        }
    }
    ensure!(deployed == 1, "{release}: {deployed} deployed revisions");
    Ok(())
}

/// Every run has ended, and at most one of a generation succeeded.
pub(super) async fn runs(world: &World, bundle: &str) -> anyhow::Result<()> {
    let list = ["run", "list", "--bundle", bundle];
    let mut runs = Value::Null;
    let ended = eventually(SETTLE_DEADLINE, "end of all runs", async || {
        runs = world.json(&list).await.ok()?;
        let mut states = runs["items"].as_array()?.iter();
        let is_over = |it: &Value| !OPEN.contains(&it["state"].as_str().unwrap_or_default());
        states.all(is_over).then_some(())
    });
    ended.await.with_context(|| runs.to_string())?;
    let mut succeeded = BTreeSet::new();
    for run in runs["items"].as_array().context("no list")? {
        if run["state"] == "Succeeded" && run["origin"] == "desired" {
            // A removal has the number of the generation that it removes.
            let generation = (run["kind"].to_string(), run["generation"].as_u64());
            ensure!(
                succeeded.insert(generation),
                "a generation was applied twice: {runs}"
            );
        }
    }
    Ok(())
}

/// No attempt of a run started Helm twice.
pub(super) fn programs(log: &str) -> anyhow::Result<()> {
    let mut started = BTreeSet::new();
    for line in log.lines().filter(|it| it.contains("program started")) {
        let field = |name: &str| line.split(' ').find(|it| it.starts_with(name));
        // An attempt that returns has two programs.
        let program = (field("run="), field("operation="));
        ensure!(started.insert(program), "started twice: {line}");
    }
    eprintln!("{} programs started, each once", started.len());
    Ok(())
}
