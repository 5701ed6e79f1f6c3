//! Clean end: the objects of a cluster before the install manifest and after the uninstall are the same, whichever side is
//! dead. Delivered objects stay, unless they are purged.

use std::{collections::BTreeSet, time::Duration};

use anyhow::ensure;
use fairlead_e2e::{Cluster, Hub, Output, Site, eventually};

use crate::world::{NAMESPACE, SiteWorld};

const DELIVERY_DEADLINE: Duration = Duration::from_secs(120);
/// Controllers empty a namespace that is being deleted.
const GONE_DEADLINE: Duration = Duration::from_secs(120);
/// Kinds without a namespace whose objects only the control plane makes.
const KINDS_OF_CONTROL_PLANE: [&str; 6] = [
    "APIService",
    "ClusterTrustBundle",
    "FlowSchema",
    "IPAddress",
    "PriorityLevelConfiguration",
    "ServiceCIDR",
];
/// Kinds of the API server's own service.
const KINDS_OF_OWN_SERVICE: [&str; 3] = ["Endpoints", "EndpointSlice", "Service"];
const DELIVERED: &str = "ConfigMap shop web";
const BUNDLE: &str = "namespace: shop\ntargets: [{name: all, selector: env=prod}]\n";
const OBJECT: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {color: blue}}\n";

/// A site with a delivered object, and the objects of its cluster from before.
struct End {
    world: SiteWorld,
    agent: Site,
    before: BTreeSet<String>,
}

impl End {
    async fn start() -> anyhow::Result<Self> {
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
        let create = cluster.kubectl().args(["create", "namespace", "shop"]);
        create.run().await?.success()?;
        let before = settled(&cluster).await?;
        let world = SiteWorld::on(cluster, hub, "").await?;
        let flags = ["--delivery", "on"];
        let agent =
            Site::begin_in_with(&world.hub, &world.pod, &world.join().await?, "pod", &flags)?;
        world.hub.wait_state("pod", "Connected").await?;
        let set = ["cluster", "set", "pod", "--annotation", "env=prod"];
        world.hub.cli(set).await?.success()?;
        let folder = world.hub.dir().join("shop");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("fairlead.yaml"), BUNDLE)?;
        std::fs::write(folder.join("web.yaml"), OBJECT)?;
        let folder = folder.display().to_string();
        let deploy = [
            "deploy",
            &folder,
            "--tenant",
            "t-default",
            "--yes",
            "--wait",
        ];
        let deployed = world.hub.cli_within(DELIVERY_DEADLINE, deploy).await?;
        deployed.success()?;
        Ok(End {
            world,
            agent,
            before,
        })
    }

    async fn uninstall(&self, more: &[&str]) -> anyhow::Result<Output> {
        let kubeconfig = self.world.cluster.kubeconfig().display().to_string();
        let args = ["agent", "uninstall", "--kubeconfig", &kubeconfig, "--yes"];
        let args = [&args[..], more].concat();
        self.world.hub.cli_within(GONE_DEADLINE, args).await
    }

    async fn delete_cluster(&self) -> anyhow::Result<()> {
        let deleted = self
            .world
            .hub
            .cli(["cluster", "delete", "pod", "--yes"])
            .await?;
        deleted.success()?;
        Ok(())
    }

    /// Waits until nothing differs from before but `left`.
    async fn until_left(&self, left: &[&str]) -> anyhow::Result<()> {
        let expected: BTreeSet<String> = left.iter().map(ToString::to_string).collect();
        let mut last = BTreeSet::new();
        let same = eventually(GONE_DEADLINE, "the objects from before", async || {
            let after = snapshot(&self.world.cluster).await.ok()?;
            last = after.symmetric_difference(&self.before).cloned().collect();
            (last == expected).then_some(())
        });
        let same = same.await;
        ensure!(same.is_ok(), "difference: {last:#?}");
        Ok(())
    }
}

/// All objects but events and those of the control plane, as kind, namespace and name.
async fn snapshot(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    let kinds = ["api-resources", "--verbs=list,delete", "-o", "name"];
    let kinds = cluster.kubectl().args(kinds).run().await?.success()?;
    let kinds: Vec<&str> = kinds
        .lines()
        .filter(|it| !it.starts_with("events"))
        .collect();
    let kinds = kinds.join(",");
    let columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name";
    let get = ["get", &kinds, "-A", "--no-headers", "-o", columns];
    let objects = cluster.kubectl().args(get).run().await?.success()?;
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = objects.lines().map(words);
    Ok(all.filter(|it| !is_of_control_plane(it)).collect())
}

/// Whether the control plane has made the object for itself, at a time of its own choice.
fn is_of_control_plane(object: &str) -> bool {
    let words: Vec<&str> = object.split(' ').collect();
    match words[..] {
        ["Namespace", _, name] => name.starts_with("kube-"),
        [kind, "<none>", _] => KINDS_OF_CONTROL_PLANE.contains(&kind),
        [kind, "default", "kubernetes"] => KINDS_OF_OWN_SERVICE.contains(&kind),
        [_, namespace, name] => namespace.starts_with("kube-") && !name.starts_with("fairlead"),
        _ => false,
    }
}

/// Objects once the controllers have made theirs in each namespace.
async fn settled(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    eventually(GONE_DEADLINE, "the objects of each namespace", async || {
        let all = snapshot(cluster).await.ok()?;
        let names = all
            .iter()
            .filter_map(|it| it.strip_prefix("Namespace <none> "));
        let is_complete = names.into_iter().all(|name| {
            let made = [
                "ConfigMap NAME kube-root-ca.crt",
                "ServiceAccount NAME default",
            ];
            made.iter()
                .all(|it| all.contains(&it.replace("NAME", name)))
        });
        is_complete.then_some(all)
    })
    .await
}

#[tokio::test]
async fn both_alive_leave_only_the_delivered_object() -> anyhow::Result<()> {
    let mut end = End::start().await?;
    end.delete_cluster().await?;
    let deadline = Duration::from_secs(20);
    end.agent.process.wait_for_log("FL-2109", deadline).await?;
    let done = end.uninstall(&[]).await?;
    let text = done.success()?;
    ensure!(
        text.contains("Deleted Namespace fairlead-delivery"),
        "{text}"
    );
    ensure!(!text.contains("ConfigMap shop/web"), "{text}");
    end.until_left(&[DELIVERED]).await
}

#[tokio::test]
async fn uninstall_with_a_dead_hub_and_purge_leaves_nothing() -> anyhow::Result<()> {
    let mut end = End::start().await?;
    end.world.hub.process.kill_9()?;
    let done = end.uninstall(&["--purge"]).await?.success()?;
    ensure!(done.contains("Deleted ConfigMap shop/web"), "{done}");
    end.until_left(&[]).await
}

#[tokio::test]
async fn deleted_cluster_with_a_dead_agent_and_purge_leaves_nothing() -> anyhow::Result<()> {
    let mut end = End::start().await?;
    end.agent.process.kill_9()?;
    end.delete_cluster().await?;
    let done = end.uninstall(&["--purge"]).await?.success()?;
    ensure!(done.contains("Deleted ConfigMap shop/web"), "{done}");
    end.until_left(&[]).await?;
    let again = end.uninstall(&["--purge"]).await?.success()?;
    ensure!(again.starts_with("Nothing of Fairlead's"), "{again}");
    let rest = ["get", "namespace", NAMESPACE, "--ignore-not-found"];
    let rest = end
        .world
        .cluster
        .kubectl()
        .args(rest)
        .run()
        .await?
        .success()?;
    ensure!(rest.is_empty(), "{rest}");
    Ok(())
}

#[tokio::test]
async fn cluster_that_is_deleted_with_purge_keeps_no_delivered_object() -> anyhow::Result<()> {
    let end = End::start().await?;
    let delete = ["cluster", "delete", "pod", "--purge", "--yes"];
    let deleted = end.world.hub.cli_within(DELIVERY_DEADLINE, delete).await?;
    let notes = deleted.stderr.clone();
    ensure!(notes.contains("1 deployment is left: b-shop"), "{notes}");
    ensure!(notes.contains("no delivered objects are left"), "{notes}");
    deleted.success()?;
    // Nothing but the agent itself is left for the uninstall.
    let done = end.uninstall(&[]).await?.success()?;
    ensure!(!done.contains("ConfigMap shop/web"), "{done}");
    end.until_left(&[]).await
}

#[tokio::test]
async fn purge_without_an_agent_is_refused_and_changes_nothing() -> anyhow::Result<()> {
    let mut end = End::start().await?;
    end.agent.process.kill_9()?;
    end.world.hub.wait_state("pod", "Lost").await?;
    let delete = ["cluster", "delete", "pod", "--purge", "--yes"];
    let refused = end.world.hub.cli(delete).await?;
    ensure!(refused.stderr.contains("FL-6818"), "{refused:?}");
    ensure!(
        refused.stderr.contains("fairlead agent uninstall --purge"),
        "{refused:?}"
    );
    let cluster = end.world.hub.cluster("pod").await?;
    ensure!(cluster["id"].is_string(), "{cluster}");
    let get = ["get", "configmap", "web", "-n", "shop"];
    end.world
        .cluster
        .kubectl()
        .args(get)
        .run()
        .await?
        .success()?;
    Ok(())
}
