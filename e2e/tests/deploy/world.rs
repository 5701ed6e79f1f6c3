//! A hub, clusters, and agents that deliver, each with a runner of its own.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Output, Site, eventually, helm};
use serde_json::Value;

pub(crate) const ROLLOUT_DEADLINE: Duration = Duration::from_secs(180);

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) members: Vec<Member>,
}

/// A cluster with its agent.
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) cluster: Cluster,
    pub(crate) site: Site,
}

impl World {
    /// Starts a hub with this number of clusters, each with the annotations `env=prod` and `number=N`.
    pub(crate) async fn start(clusters: u32) -> anyhow::Result<Self> {
        World::start_with(clusters, &[]).await
    }

    /// As [`World::start`], with additional flags of the hub.
    pub(crate) async fn start_with(clusters: u32, flags: &[&str]) -> anyhow::Result<Self> {
        let mut world = World::alone(flags).await?;
        for _ in 0..clusters {
            world.deliver_to(Cluster::start_lite().await?).await?;
        }
        Ok(world)
    }

    /// As [`World::start`], with one cluster whose pods become ready.
    pub(crate) async fn start_with_pods() -> anyhow::Result<Self> {
        let mut world = World::alone(&[]).await?;
        world.deliver_to(Cluster::start().await?).await?;
        Ok(world)
    }

    /// Starts a hub without clusters.
    pub(crate) async fn alone(flags: &[&str]) -> anyhow::Result<Self> {
        let hub = Hub::start_server(flags).await?;
        hub.log_in().await?;
        let members = Vec::new();
        Ok(World { hub, members })
    }

    /// Adds a cluster, with an agent that starts its runner.
    async fn deliver_to(&mut self, cluster: Cluster) -> anyhow::Result<()> {
        let helm = helm::program()?.display().to_string();
        let flags = ["--delivery", "on", "--helm", &helm];
        self.join(cluster, &flags).await
    }

    /// Adds a cluster, with these flags of its agent.
    pub(crate) async fn join(&mut self, cluster: Cluster, flags: &[&str]) -> anyhow::Result<()> {
        let kubeconfig = cluster.kubeconfig();
        self.join_by(cluster, &kubeconfig, flags).await
    }

    /// As [`World::join`], with another kubeconfig of the agent.
    pub(crate) async fn join_by(
        &mut self,
        cluster: Cluster,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> anyhow::Result<()> {
        cluster
            .kubectl()
            .args(["create", "namespace", "shop"])
            .run()
            .await?
            .success()?;
        let (hub, number) = (&self.hub, self.members.len() + 1);
        let joining = hub.create_cluster(&format!("site-{number}")).await?;
        let number = format!("number={number}");
        let set = ["cluster", "set", &joining.id, "--annotation", "env=prod"];
        hub.cli([&set[..], &["--annotation", &number]].concat())
            .await?
            .success()?;
        let site = Site::begin_by(hub, kubeconfig, &joining.join, &joining.id, flags)?;
        hub.wait_state(&joining.id, "Connected").await?;
        let id = joining.id;
        self.members.push(Member { id, cluster, site });
        Ok(())
    }

    /// Writes the files of a bundle, in the place of all earlier ones.
    pub(crate) fn folder(&self, name: &str, files: &[(&str, &str)]) -> anyhow::Result<String> {
        let folder = self.hub.dir().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        write_files(&folder, files)?;
        Ok(folder.display().to_string())
    }

    /// Deploys a folder, and waits for the end of its rollout.
    pub(crate) async fn deploy(&self, folder: &str, more: &[&str]) -> anyhow::Result<()> {
        let words = ["deploy", folder, "--tenant", "t-default", "--yes", "--wait"];
        self.run(&[&words, more].concat()).await?.success()?;
        Ok(())
    }

    /// Runs a command that waits for clusters.
    pub(crate) async fn run(&self, args: &[&str]) -> anyhow::Result<Output> {
        self.hub.cli_within(ROLLOUT_DEADLINE, args).await
    }

    /// Output of a command with `-o json`.
    pub(crate) async fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let shown = self.run(&[args, &["-o", "json"]].concat()).await?;
        Ok(serde_json::from_str(&shown.success()?)?)
    }

    /// Waits until a deployment is in this state, and returns it.
    pub(crate) async fn until(
        &self,
        member: usize,
        bundle: &str,
        state: &str,
    ) -> anyhow::Result<Value> {
        let is_expected = |it: &Value| it["state"] == state;
        self.until_deployment(member, bundle, is_expected).await
    }

    /// Waits until a deployment is as expected, and returns it.
    pub(crate) async fn until_deployment(
        &self,
        member: usize,
        bundle: &str,
        is_expected: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let id = self.members[member].id.clone();
        let mut last = Value::Null;
        let found = eventually(ROLLOUT_DEADLINE, "state of the deployment", async || {
            last = self
                .json(&["deployment", "get", &id, bundle])
                .await
                .unwrap_or_default();
            is_expected(&last).then(|| last.clone())
        });
        let found = found.await;
        found.with_context(|| format!("{bundle} in {id}: {last}; agent: {}", self.log(member)))
    }

    /// Waits until the log of a run has this part, and returns it. The agent uploads logs independently of its reports.
    pub(crate) async fn run_log(&self, run: &str, part: &str) -> anyhow::Result<String> {
        let mut last = String::new();
        let found = eventually(ROLLOUT_DEADLINE, "log of a run", async || {
            let shown = self.run(&["run", "logs", run]).await.ok()?;
            last = shown.success().ok()?;
            last.contains(part).then(|| last.clone())
        });
        let found = found.await;
        found.with_context(|| format!("{run} without {part:?}: {last}"))
    }

    /// Waits until a source is as expected, and returns it.
    pub(crate) async fn until_source(
        &self,
        id: &str,
        expected: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        let found = eventually(ROLLOUT_DEADLINE, "state of the source", async || {
            last = self.json(&["source", "get", id]).await.ok()?;
            expected(&last).then(|| last.clone())
        });
        let found = found.await;
        found.with_context(|| format!("source {id}: {last}"))
    }

    pub(crate) fn log(&self, member: usize) -> String {
        self.members[member].site.process.log().unwrap_or_default()
    }
}

impl Member {
    /// Output of kubectl in the namespace of the bundles.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = args.iter().copied().chain(["-n", "shop"]);
        self.cluster.kubectl().args(args).run().await?.success()
    }

    /// A field of an object, by JSONPath.
    pub(crate) async fn field(&self, object: &str, path: &str) -> anyhow::Result<String> {
        let path = format!("jsonpath={{{path}}}");
        self.kubectl(&["get", object, "-o", &path]).await
    }

    /// Versions of all ConfigMaps and Secrets, by name.
    pub(crate) async fn versions(&self) -> anyhow::Result<String> {
        let format = "custom-columns=K:.kind,N:.metadata.name,V:.metadata.resourceVersion";
        self.kubectl(&["get", "configmaps,secrets", "-o", format])
            .await
    }

    /// Waits until a field has this value.
    pub(crate) async fn until_field(
        &self,
        object: &str,
        path: &str,
        value: &str,
    ) -> anyhow::Result<()> {
        let mut last = String::new();
        let found = eventually(ROLLOUT_DEADLINE, object, async || {
            last = self.field(object, path).await.ok()?;
            (last == value).then_some(())
        });
        found.await.with_context(|| format!("last: {last:?}"))
    }
}

pub(crate) fn write_files(folder: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, text)?;
    }
    ensure!(folder.is_dir(), "no files");
    Ok(())
}
