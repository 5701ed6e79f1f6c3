//! A full cluster with the kubelet, and people in a network of their own that reach the hub by its name.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Kubectl, Kubelet, Launch, NetNs, Route, eventually, helm, netns};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

const NAMESPACES: [&str; 2] = ["fairlead-hub", "fairlead"];
const HUB: &str = "hub.example.test";
/// Address of the hub's name in the network of people.
const HUB_ADDRESS: &str = "127.0.0.2";
/// Keeps the scheduler from binding the pods to nodes of kwok.
const ON_KUBELET: [&str; 2] = ["--set-string", "nodeSelector.fairlead/kubelet=true"];
const ROLLOUT_TIMEOUT: &str = "--timeout=120s";
const ROLLOUT_DEADLINE: Duration = Duration::from_secs(150);
const STEP_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct PodsWorld {
    pub(crate) cluster: Cluster,
    pub(crate) kubelet: Kubelet,
    people: NetNs,
    folder: TempDir,
}

impl PodsWorld {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        netns::check_support("make pods", &[])?;
        let (cluster, folder) = (Cluster::start().await?, tempfile::tempdir()?);
        for name in NAMESPACES {
            let namespace = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
            });
            let create = cluster.kubectl().args(["create", "-f", "-"]);
            create.stdin(namespace.to_string()).run().await?.success()?;
        }
        let route = Route {
            host: HUB.to_owned(),
            port: 443,
            labels: [("app.kubernetes.io/name", "fairlead-hub")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            to: 8443,
        };
        let program = Launch::fairlead()?.program().to_owned();
        let place = (folder.path(), program.as_path());
        let routes = vec![route.clone()];
        let kubelet = Kubelet::start(&cluster, place, &NAMESPACES, routes).await?;
        let people = NetNs::new("people", folder.path()).await?;
        people.set_hosts(&[(HUB, HUB_ADDRESS)])?;
        let at: SocketAddr = format!("{HUB_ADDRESS}:443").parse()?;
        kubelet.expose(&people, at, route)?;
        Ok(Self {
            cluster,
            kubelet,
            people,
            folder,
        })
    }

    /// Installs the hub's chart, and registers the cluster demo. Its agent trusts the hub's CA by a mounted file, too.
    pub(crate) async fn install_hub(&self) -> anyhow::Result<()> {
        let (url, chart) = (format!("publicUrl=https://{HUB}"), chart("fairlead-hub"));
        let hub = [
            "upgrade",
            "--install",
            "hub",
            &chart,
            "-n",
            "fairlead-hub",
            "--set",
            &url,
        ];
        self.helm(&[&hub[..], &ON_KUBELET].concat()).await?;
        self.rolled_out("statefulset/hub", "fairlead-hub").await?;
        let authority = self.data().join("front-ca.pem").display().to_string();
        let create = ["cluster", "create", "demo", "--site-ca-file", &authority];
        self.fairlead(&create).await.map(drop)
    }

    /// Installs the agent's chart, and waits until its pods are ready. Returns the file with its values.
    pub(crate) async fn install_agent(&self) -> anyhow::Result<String> {
        let values = self.fairlead(&["cluster", "values", "demo"]).await?;
        let file = self.folder.path().join("values.yaml").display().to_string();
        std::fs::write(&file, values)?;
        self.helm_agent(&file, &[]).await?;
        self.rolled_out("deployment/fairlead-agent", "fairlead")
            .await?;
        Ok(file)
    }

    /// Applies the install manifest, and waits until its pod is ready.
    pub(crate) async fn apply_manifest(&self) -> anyhow::Result<()> {
        let manifest = self.fairlead(&["cluster", "manifest", "demo"]).await?;
        let objects = fairlead_manifests::yaml::values("manifest", manifest.as_bytes())?;
        let mut objects: Vec<Value> = objects.into_iter().map(|(value, _)| value).collect();
        for object in &mut objects {
            if object["kind"] == "Deployment" {
                let selector = &mut object["spec"]["template"]["spec"]["nodeSelector"];
                selector["fairlead/kubelet"] = "true".into();
            }
        }
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let apply = self.cluster.kubectl().args(["apply", "-f", "-"]);
        apply.stdin(list.to_string()).run().await?.success()?;
        self.rolled_out("deployment/fairlead-agent", "fairlead")
            .await
    }

    /// Folder of the hub's data, in its volume.
    fn data(&self) -> std::path::PathBuf {
        self.kubelet.claim("data-hub-0").join("data")
    }

    /// Installs or changes the agent's release.
    pub(crate) async fn helm_agent(&self, values: &str, more: &[&str]) -> anyhow::Result<()> {
        let chart = chart("fairlead-agent");
        let mut words = vec![
            "upgrade",
            "--install",
            "fairlead-agent",
            &chart,
            "-n",
            "fairlead",
        ];
        if !values.is_empty() {
            words.extend(["-f", values]);
        }
        words.extend(ON_KUBELET);
        words.extend(more);
        self.helm(&words).await
    }

    pub(crate) async fn rolled_out(&self, workload: &str, namespace: &str) -> anyhow::Result<()> {
        let status = [
            "rollout",
            "status",
            workload,
            "-n",
            namespace,
            ROLLOUT_TIMEOUT,
        ];
        let kubectl = self
            .cluster
            .kubectl()
            .deadline(ROLLOUT_DEADLINE)
            .args(status);
        kubectl.run().await?.success()?;
        Ok(())
    }

    /// Names of the agent's pods that are not being deleted.
    pub(crate) async fn agent_pods(&self) -> anyhow::Result<Vec<String>> {
        let template = "go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}";
        let get = ["get", "pods", "-n", "fairlead", "-o", template];
        let names = self.cluster.kubectl().args(get).run().await?.success()?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    pub(crate) async fn until_agent_pods(
        &self,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let mut last = Value::Null;
        let found = eventually(STEP_DEADLINE, what, async || {
            let get = ["get", "pods", "-n", "fairlead", "-o", "json"];
            let pods = self.cluster.kubectl().args(get).run().await.ok()?;
            last = serde_json::from_str(&pods.success().ok()?).ok()?;
            holds(&last).then_some(())
        });
        found.await.with_context(|| {
            let statuses = last["items"].as_array().into_iter().flatten();
            let statuses: Vec<&Value> = statuses.map(|it| &it["status"]).collect();
            format!("{statuses:?} {:?}", self.kubelet.problems())
        })
    }

    /// kubectl as the admin, through the hub.
    pub(crate) async fn kubectl(&self) -> anyhow::Result<Kubectl> {
        let text = self.fairlead(&["kubeconfig"]).await?;
        let file = self.folder.path().join("kubeconfig");
        std::fs::write(&file, text)?;
        let kubectl = self.cluster.kubectl().kubeconfig(&file);
        Ok(kubectl.context(format!("demo@{HUB}")).in_net(&self.people))
    }

    /// Runs a command of `fairlead` in the network of people, with the first admin's token.
    async fn fairlead(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let data = self.data();
        let command = Launch::fairlead()?
            .args(arguments)
            .env("HOME", self.folder.path())
            .env("FAIRLEAD_URL", format!("https://{HUB}"))
            .env("FAIRLEAD_TOKEN_FILE", data.join("admin.token"))
            .env("FAIRLEAD_CA_FILE", data.join("front-ca.pem"))
            .inside(&self.people)
            .command();
        let output = Command::from(command).output().await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {stderr}");
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn helm(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let program = tokio::task::spawn_blocking(helm::program).await??;
        let output = Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .stdin(Stdio::null())
            .output()
            .await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm: {stderr}");
        Ok(())
    }

    /// Ends of the logs of all containers.
    pub(crate) fn logs(&self) -> String {
        let files = std::fs::read_dir(self.folder.path()).into_iter().flatten();
        let logs = files.flatten().map(|it| it.path());
        let logs = logs.filter(|it| it.extension().is_some_and(|it| it == "log"));
        logs.map(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.split_at(lines.len().saturating_sub(12)).1.join("\n");
            format!("--- {}\n{last}\n", path.display())
        })
        .collect()
    }
}

fn chart(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chart = folder.join("../deploy/charts").join(name);
    chart.display().to_string()
}
