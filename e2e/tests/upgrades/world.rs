//! A fleet: one Kubernetes without nodes, and in each namespace of it an agent's Deployment of another cluster of the hub. The
//! Deployment controller is the real one. The test plays scheduler and kubelet.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Joining, Pod, Site, admin::get_plain, eventually};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::sleep;

const ACCOUNT: &str = "fairlead-agent";
const POD_LABEL: &str = "app.kubernetes.io/name=fairlead-agent";
/// Images with this tag never start.
pub(crate) const BROKEN_TAG: &str = ":broken";
/// Pause of the kubelet's stand-in between two looks at the pods.
const KUBELET_INTERVAL: Duration = Duration::from_millis(500);
const FLEET_DEADLINE: Duration = Duration::from_secs(240);

/// A member of the fleet.
struct Member {
    namespace: String,
    joining: Joining,
    pod: Pod,
}

/// A process of a pod.
struct RunningPod {
    site: Site,
    is_ready: bool,
}

#[derive(Default)]
struct PodProcesses {
    /// By the names of their pods; `None` for a pod whose image does not start.
    running: BTreeMap<String, Option<RunningPod>>,
    /// Processes of deleted pods that drain.
    ending: Vec<RunningPod>,
}

pub(crate) struct FleetWorld {
    pub(crate) cluster: Cluster,
    pub(crate) hub: Hub,
    members: BTreeMap<String, Member>,
    processes: Mutex<PodProcesses>,
}

impl FleetWorld {
    /// Installs the agents; none runs before [`FleetWorld::kubelet`] does.
    pub(crate) async fn start(count: usize) -> anyhow::Result<Self> {
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
        let mut joinings = Vec::new();
        let mut manifests = String::new();
        for number in 0..count {
            let namespace = format!("site-{number:02}");
            let joining = hub.create_cluster(&namespace).await?;
            let manifest = manifest(&joining).await?;
            manifests += &of_namespace(&manifest, &namespace, number == 0);
            joinings.push((namespace, joining));
        }
        // The manifests share the names of their cluster roles, and the last binding wins.
        manifests += &format!("---\n{}\n", binding_of_all());
        let apply = cluster.kubectl().deadline(FLEET_DEADLINE);
        let apply = apply.args(["apply", "-f", "-"]).stdin(manifests);
        apply.run().await?.success()?;
        let mut members = BTreeMap::new();
        for (namespace, joining) in joinings {
            let note = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "of-the-test", "namespace": namespace },
            });
            let pod = Pod::install(&cluster, &note.to_string(), &namespace, ACCOUNT).await?;
            let member = Member {
                namespace: namespace.clone(),
                joining,
                pod,
            };
            members.insert(namespace, member);
        }
        Ok(FleetWorld {
            cluster,
            hub,
            members,
            processes: Mutex::default(),
        })
    }

    /// Plays scheduler and kubelet; returns only with an error.
    pub(crate) async fn kubelet<T>(&self) -> anyhow::Result<T> {
        loop {
            self.sync_pods().await?;
            sleep(KUBELET_INTERVAL).await;
        }
    }

    /// Starts processes of new pods, ends those of deleted ones, and reports readiness.
    async fn sync_pods(&self) -> anyhow::Result<()> {
        let pods = self.pods().await?;
        let mut processes = self.processes.lock().await;
        let PodProcesses { running, ending } = &mut *processes;
        let gone = running.keys().filter(|name| !pods.contains_key(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            let Some(Some(mut process)) = running.remove(&name) else {
                continue;
            };
            if process.site.process.ended()?.is_none() {
                process.site.process.term()?;
                ending.push(process);
            }
        }
        ending.retain_mut(|it| matches!(it.site.process.ended(), Ok(None)));
        for (name, pod) in &pods {
            let namespace = text(pod, "/metadata/namespace")?;
            let image = text(pod, "/spec/containers/0/image")?;
            let member = self.members.get(namespace).context("no such member")?;
            if !running.contains_key(name) {
                let process = self.start_pod(member, name, image).await?;
                running.insert(name.clone(), process);
            }
            let Some(Some(process)) = running.get_mut(name) else {
                continue;
            };
            // Another program may have taken its admin port. As a kubelet, start it again.
            if process.site.process.ended()?.is_some() {
                let again = self.start_pod(member, name, image).await?;
                running.insert(name.clone(), again);
                continue;
            }
            if !process.is_ready && process.site.admin_get("/readyz").await.is_ok() {
                let ready = json!({ "type": "Ready", "status": "True" });
                let status = json!({ "phase": "Running", "conditions": [ready] });
                self.set_status(namespace, name, &status).await?;
                process.is_ready = true;
            }
        }
        Ok(())
    }

    async fn start_pod(
        &self,
        member: &Member,
        name: &str,
        image: &str,
    ) -> anyhow::Result<Option<RunningPod>> {
        if image.ends_with(BROKEN_TAG) {
            let waiting = json!({ "reason": "ImagePullBackOff", "message": "no such image" });
            let containers = json!([{
                "name": "agent", "ready": false, "restartCount": 0, "image": image, "imageID": "",
                "state": { "waiting": waiting },
            }]);
            let status = json!({ "phase": "Pending", "containerStatuses": containers });
            self.set_status(&member.namespace, name, &status).await?;
            return Ok(None);
        }
        let flags = ["--facts-every", "0s"];
        let join = &member.joining.join;
        let site = Site::begin_in_with(&self.hub, &member.pod, join, name, &flags)?;
        Ok(Some(RunningPod {
            site,
            is_ready: false,
        }))
    }

    async fn set_status(&self, namespace: &str, pod: &str, status: &Value) -> anyhow::Result<()> {
        let patch = json!({ "status": status }).to_string();
        let words = [
            "patch",
            "pod",
            pod,
            "-n",
            namespace,
            "--subresource=status",
            "-p",
        ];
        let output = self
            .cluster
            .kubectl()
            .args(words)
            .args([patch])
            .run()
            .await?;
        // A pod may be deleted meanwhile.
        ensure!(
            output.status.success() || output.stderr.contains("NotFound"),
            "{output:?}"
        );
        Ok(())
    }

    async fn pods(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let words = ["get", "pods", "-A", "-l", POD_LABEL, "-o", "json"];
        let list = self.cluster.kubectl().args(words).run().await?.success()?;
        let mut list: Value = serde_json::from_str(&list)?;
        let items = list["items"].take();
        let items = items.as_array().cloned().unwrap_or_default();
        let named = items.into_iter().map(|pod| {
            let name = text(&pod, "/metadata/name")?.to_owned();
            Ok((name, pod))
        });
        named.collect()
    }

    /// Waits until each cluster is connected and each Deployment has one pod that is ready.
    pub(crate) async fn until_installed(&self) -> anyhow::Result<()> {
        eventually(FLEET_DEADLINE, "a connected fleet", async || {
            let all = self.deployments().await.ok()?;
            let is_ready = |it: &Value| {
                it["status"]["availableReplicas"] == 1 && it["status"]["replicas"] == 1
            };
            let is_whole = all.len() == self.members.len();
            (is_whole && all.values().all(is_ready)).then_some(())
        })
        .await?;
        eventually(FLEET_DEADLINE, "clusters that are connected", async || {
            let words = ["cluster", "list", "--status", "Connected", "-o", "json"];
            let list = self.hub.cli(words).await.ok()?.success().ok()?;
            let list: Value = serde_json::from_str(&list).ok()?;
            (list["items"].as_array()?.len() == self.members.len()).then_some(())
        })
        .await
    }

    /// Deployments of the agents by their namespaces.
    pub(crate) async fn deployments(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let words = ["get", "deployments", "-A", "-l", POD_LABEL, "-o", "json"];
        let list = self.cluster.kubectl().args(words).run().await?.success()?;
        let mut list: Value = serde_json::from_str(&list)?;
        let items = list["items"].take();
        let items = items.as_array().cloned().unwrap_or_default();
        let named = items.into_iter().map(|it| {
            let namespace = text(&it, "/metadata/namespace")?.to_owned();
            Ok((namespace, it))
        });
        named.collect()
    }

    /// Images of the agents by their namespaces.
    pub(crate) async fn images(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let all = self.deployments().await?;
        let images = all.into_iter().map(|(namespace, it)| {
            let image = text(&it, "/spec/template/spec/containers/0/image")?;
            Ok((namespace, image.to_owned()))
        });
        images.collect()
    }

    /// Namespace of the cluster with this id.
    pub(crate) fn namespace_of(&self, cluster: &str) -> anyhow::Result<&str> {
        let mut members = self.members.values();
        let member = members.find(|it| it.joining.id == cluster);
        Ok(&member.context("no such cluster")?.namespace)
    }
}

async fn manifest(joining: &Joining) -> anyhow::Result<String> {
    let url = joining.install_url.strip_prefix("http://");
    let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
    get_plain(address.parse()?, &format!("/{path}&delivery=none")).await
}

/// The manifest with another namespace. Objects without one are needed once.
fn of_namespace(manifest: &str, namespace: &str, is_first: bool) -> String {
    let namespace = format!("'{namespace}'");
    let renamed = manifest.replace("'fairlead'", &namespace);
    let documents = renamed.split("---\n").filter(|it| !it.starts_with('#'));
    let needed = documents.filter(|it| is_first || it.contains(&namespace));
    needed.map(|it| format!("---\n{it}")).collect()
}

/// Binds the agents' cluster role for the service accounts of all namespaces.
fn binding_of_all() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "agents-of-the-fleet" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fairlead-agent",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts",
        }],
    })
}

fn text<'a>(object: &'a Value, path: &str) -> anyhow::Result<&'a str> {
    let value = object.pointer(path).and_then(Value::as_str);
    value.with_context(|| format!("no {path}"))
}
