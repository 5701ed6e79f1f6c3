//! Roles of people who sign in through a real Dex: in one namespace, by labels of clusters, and in an emergency. Each is
//! used with the real kubectl, on a cluster with the install manifest.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use anyhow::{Context, ensure};
use fairlead_e2e::{
    Cluster, Hub, Kubectl, Pod, RunningCalls, Site,
    dex::{Dex, Person},
    eventually,
};
use tokio::time::{Duration, Instant};

/// Namespace in which operators may write.
const SHOP: &str = "shop";
const JANE: &str = "corp.jane@corp.example";
/// Time for a deployment's pods, and for a token with other groups.
const STEP_DEADLINE: Duration = Duration::from_secs(30);
const RULES: [&str; 3] = [
    r#"{ claim = "groups", value = "shop-team", role = "operator", cluster = "c-demo", namespaces = ["shop"] }"#,
    r#"{ claim = "groups", value = "prod-team", role = "operator", selector = "env=prod" }"#,
    r#"{ claim = "groups", value = "on-call", role = "viewer", break_glass = "operator" }"#,
];

/// A hub with Dex, a cluster with two pods in the namespace, and a cluster without an agent.
struct PeopleWorld {
    // Its fields are dropped in this order.
    _site: Site,
    hub: Hub,
    cluster: Cluster,
    pods: Vec<String>,
    dex: Dex,
}

impl PeopleWorld {
    async fn start() -> anyhow::Result<Self> {
        let dex = Dex::start(&[]).await?;
        let issuers = dex.issuers_file_with(&RULES)?;
        let flags = ["--issuers", issuers.as_str()];
        let (cluster, hub) = tokio::try_join!(Cluster::start(), Hub::start_server(&flags))?;
        hub.log_in().await?;
        for id in ["c-demo", "c-other"] {
            let create = ["cluster", "create", id, "--id", id];
            hub.cli(create).await?.success()?;
        }
        let site = cluster.kubectl();
        for words in [
            &["create", "namespace", SHOP][..],
            &[
                "create",
                "deployment",
                "web",
                "--image=fairlead.test/web",
                "--replicas=2",
                "-n",
                SHOP,
            ],
        ] {
            site.clone().args(words).run().await?.success()?;
        }
        let manifest = [
            "cluster",
            "manifest",
            "c-demo",
            "--operator-namespaces",
            SHOP,
        ];
        let manifest = hub.cli(manifest).await?.success()?;
        let pod = Pod::install(&cluster, &manifest, "fairlead", "fairlead-agent").await?;
        let join = "go-template={{.data.join | base64decode}}";
        let join = [
            "get",
            "secret",
            "-n",
            "fairlead",
            "fairlead-join",
            "-o",
            join,
        ];
        let join = site.clone().args(join).run().await?.success()?;
        let flags = ["--operator-namespaces", SHOP];
        let agent = Site::begin_in_with(&hub, &pod, &join, "c-demo", &flags)?;
        hub.wait_state("c-demo", "Connected").await?;
        let pods = eventually(STEP_DEADLINE, "two pods", async || {
            let running = "--field-selector=status.phase=Running";
            let get = ["get", "pods", "-n", SHOP, "-o", "name", running];
            let names = site.clone().args(get).run().await.ok()?.success().ok()?;
            let names = names.lines().map(|it| it.trim_start_matches("pod/"));
            let names: Vec<String> = names.map(str::to_owned).collect();
            (names.len() == 2).then_some(names)
        })
        .await?;
        Ok(Self {
            _site: agent,
            hub,
            cluster,
            pods,
            dex,
        })
    }

    async fn sign_in(&self, name: &str) -> anyhow::Result<(Person, Kubectl)> {
        let person = Person::new(&self.hub)?;
        let said = person.sign_in(&self.dex, &self.hub, name).await?;
        ensure!(said.contains(&format!("as corp.{name}@")), "{said}");
        let kubectl = person.kubectl(&self.cluster, "c-demo").await?;
        Ok((person, kubectl))
    }

    /// Starts an exec, a watch, a log and a port-forward in the namespace.
    async fn calls(&self, kubectl: &Kubectl) -> anyhow::Result<RunningCalls> {
        let in_shop = || kubectl.clone().args(["-n", SHOP]);
        let [one, two] = self.pods.as_slice() else {
            anyhow::bail!("two pods expected");
        };
        RunningCalls::start("shop", in_shop, [one, two]).await
    }
}

async fn allowed(kubectl: &Kubectl, words: &str) -> anyhow::Result<String> {
    let output = kubectl.clone().args(words.split(' ')).run().await?;
    output.success().with_context(|| words.to_owned())
}

async fn refused(kubectl: &Kubectl, words: &str, reason: &str) -> anyhow::Result<()> {
    let output = kubectl.clone().args(words.split(' ')).run().await?;
    ensure!(!output.status.success(), "{words} is allowed: {output:?}");
    ensure!(output.stderr.contains(reason), "{words}: {output:?}");
    Ok(())
}

#[tokio::test]
async fn groups_give_roles_in_a_namespace_and_by_labels() -> anyhow::Result<()> {
    let world = PeopleWorld::start().await?;
    world.dex.set_groups(&["shop-team"], &["prod-team"])?;
    let (jane, kubectl) = world.sign_in("jane").await?;
    let exec = format!("exec -n shop {} -- echo hello", world.pods[0]);
    ensure!(allowed(&kubectl, &exec).await?.contains("hello"));
    for words in [
        "get pods -n shop",
        "create configmap mine -n shop",
        "delete configmap mine -n shop",
    ] {
        allowed(&kubectl, words).await?;
    }
    for words in [
        "get pods -n default",
        "get pods -A",
        "get nodes",
        "create configmap mine -n default",
        "create namespace mine",
        "get secrets -n kube-system",
    ] {
        refused(&kubectl, words, "forbidden").await?;
    }
    let agents = "get secret fairlead-identity -n fairlead";
    refused(&kubectl, agents, "reserved to admins of the hub").await?;
    let listed = jane.run(&["cluster", "list"]).await?;
    let listed = listed.success()?;
    ensure!(
        listed.contains("c-demo") && !listed.contains("c-other"),
        "{listed}"
    );
    let other = jane.run(&["cluster", "get", "c-other"]).await?;
    ensure!(other.stderr.contains("FL-1301"), "{other:?}");
    let whoami = jane.run(&["whoami"]).await?.success()?;
    ensure!(whoami.contains("namespaces shop"), "{whoami}");

    // Guest has no cluster until one has the label.
    let guest = Person::new(&world.hub)?;
    let said = guest.sign_in(&world.dex, &world.hub, "guest").await?;
    ensure!(said.contains("as corp.guest@"), "{said}");
    let none = guest.run(&["cluster", "get", "c-demo"]).await?;
    ensure!(none.stderr.contains("FL-1301"), "{none:?}");
    let label = async |value: &str| {
        let set = ["cluster", "set", "c-demo", "--fact", value, "--yes"];
        world.hub.cli(set).await?.success()
    };
    label("env=prod").await?;
    let kubectl = guest.kubectl(&world.cluster, "c-demo").await?;
    let calls = world.calls(&kubectl).await?;
    refused(&kubectl, "create configmap mine -n default", "forbidden").await?;
    let since = Instant::now();
    label("env-").await?;
    let took = calls.all_end(since, "FL-1301").await?;
    eprintln!("the last of 4 calls ended {took:?} after the label");
    refused(&kubectl, "get pods -n shop", "FL-1301").await
}

#[tokio::test]
async fn emergency_is_raised_by_one_person_and_ended_by_another() -> anyhow::Result<()> {
    let mut world = PeopleWorld::start().await?;
    world.dex.set_groups(&["on-call"], &["platform"])?;
    let (jane, kubectl) = world.sign_in("jane").await?;
    let (guest, _) = world.sign_in("guest").await?;
    let exec = format!("exec -n shop {} -- echo hello", world.pods[0]);
    refused(&kubectl, &exec, "forbidden").await?;
    let raise = ["access", "break-glass", "--cluster", "c-demo", "--reason"];
    let raise = [&raise[..], &["all pods are down", "-o", "json"]].concat();
    // Nobody has an emergency without a rule.
    let raised = guest.run(&raise).await?;
    ensure!(!raised.status.success(), "{raised:?}");
    let raised = jane.run(&raise).await?.success()?;
    let raised: serde_json::Value = serde_json::from_str(&raised)?;
    let id = raised["id"].as_str().context("no id")?;
    let whoami = jane.run(&["whoami"]).await?.success()?;
    ensure!(whoami.contains(id), "{whoami}");
    ensure!(allowed(&kubectl, &exec).await?.contains("hello"));
    allowed(&kubectl, "create configmap mine -n shop").await?;
    refused(&kubectl, "create configmap mine -n default", "forbidden").await?;
    world
        .hub
        .process
        .wait_for_log("role taken in an emergency", STEP_DEADLINE)
        .await?;
    eventually(STEP_DEADLINE, "the emergency in the metrics", async || {
        let metrics = world.hub.metrics().await.ok()?;
        (metrics.sum("fairlead_break_glass_active", &[]) == 1.0).then_some(())
    })
    .await?;

    // The second person ends it, not the first one's second token.
    let calls = world.calls(&kubectl).await?;
    let own = jane
        .run(&["access", "review", id, "--comment", "mine"])
        .await?;
    ensure!(!own.status.success(), "{own:?}");
    let since = Instant::now();
    let revoke = ["access", "revoke", id, "--comment", "the pods are back"];
    guest.run(&revoke).await?.success()?;
    let took = calls.all_end(since, "FL-1205").await?;
    eprintln!("the last of 4 calls ended {took:?} after the emergency");
    refused(&kubectl, &exec, "forbidden").await?;
    allowed(&kubectl, "get pods -n shop").await?;
    let review = ["access", "review", id, "--comment", "as described"];
    guest.run(&review).await?.success()?;
    let events = ["audit", "requests", "--caller", JANE, "-o", "json"];
    eventually(
        STEP_DEADLINE,
        "the emergency in the audit log",
        async || {
            let events = world.hub.cli(events).await.ok()?.success().ok()?;
            (events.contains("break-glass") && events.contains(id)).then_some(())
        },
    )
    .await
}
