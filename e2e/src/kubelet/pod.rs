//! One pod: its network namespace, its volumes and containers, from its binding to its removal.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_local},
    time::{Instant, sleep},
};

use super::{
    NODE, Shared,
    container::Container,
    list, route,
    status::{self, Phase},
    text, volumes,
};
use crate::netns::NetNs;

const STEP_INTERVAL: Duration = Duration::from_millis(50);
/// Delay before a pod that cannot be started is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Address in the pods of the hosts of routes. Loopback, so that it exists without an interface.
const ROUTES_ADDRESS: &str = "127.0.0.2";

/// Log of a container, with the output of all its runs.
pub(super) fn log_file(folder: &Path, pod: &str, container: &str) -> PathBuf {
    folder.join(format!("{pod}.{container}.log"))
}

/// A pod and the task that runs it. Dropping it kills its containers.
#[derive(Debug)]
pub(super) struct RunningPod {
    /// Seconds until the containers are killed, once the pod is deleted.
    deleted: watch::Sender<Option<u64>>,
    task: JoinHandle<()>,
}

impl RunningPod {
    pub(super) fn start(shared: Arc<Shared>, pod: Value) -> Self {
        let (deleted, deletion) = watch::channel(None);
        let task = spawn_local(async move {
            let name = text(&pod, "/metadata/name").to_owned();
            if let Err(error) = run(&shared, pod, deletion).await {
                shared.problem(format!("{name}: {error:#}"));
            }
        });
        Self { deleted, task }
    }

    /// Takes note of a deletion.
    pub(super) fn observe(&self, pod: &Value) {
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
            let grace = grace.and_then(Value::as_u64).unwrap_or_default();
            self.deleted.send_replace(Some(grace));
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for RunningPod {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a pod until it is deleted.
async fn run(
    shared: &Shared,
    mut pod: Value,
    mut deletion: watch::Receiver<Option<u64>>,
) -> anyhow::Result<()> {
    let meta = |field: &str| text(&pod, &format!("/metadata/{field}")).to_owned();
    let (namespace, name, uid) = (meta("namespace"), meta("name"), meta("uid"));
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
    });
    shared
        .api
        .post(&format!("{path}/binding"), &binding)
        .await
        .context("binding")?;
    if let Some(Value::Object(spec)) = pod.get_mut("spec") {
        spec.insert("nodeName".to_owned(), NODE.into());
    }
    let folder = shared.folder.join("pods").join(&uid);
    let net = network(shared, &uid, &folder).await?;
    let mut containers = loop {
        match containers(shared, &pod, &net, &folder).await {
            Ok(containers) => break containers,
            Err(error) => {
                shared.problem(format!("{name}: {error:#}"));
                let waiting = status::waiting(&pod, "CreateContainerConfigError", &error);
                shared
                    .api
                    .patch(&format!("{path}/status"), &waiting)
                    .await?;
            }
        }
        if deletion.borrow_and_update().is_some() {
            return shared.api.end_pod(&path, &uid).await;
        }
        sleep(RETRY_INTERVAL).await;
    };
    let mut last = Value::Null;
    while deletion.borrow_and_update().is_none() {
        for container in &mut containers {
            container.step(&net).await?;
        }
        let status = status::of(&pod, &containers, Phase::Running);
        if status != last {
            match containers.iter().all(Container::is_ready) {
                true => {
                    let labels = pod.pointer("/metadata/labels").cloned();
                    let labels = labels.unwrap_or_default();
                    shared.ready.put(&uid, labels, net.clone());
                }
                false => shared.ready.remove(&uid),
            }
            shared.api.patch(&format!("{path}/status"), &status).await?;
            last = status;
        }
        sleep(STEP_INTERVAL).await;
    }
    // Services forget the pod at once, and its connections go on.
    shared.ready.remove(&uid);
    let grace = deletion.borrow().unwrap_or_default();
    end(&mut containers, Duration::from_secs(grace)).await;
    shared.api.end_pod(&path, &uid).await
}

/// Ends the containers: SIGTERM, and SIGKILL at the end of the grace period.
async fn end(containers: &mut [Container], grace: Duration) {
    let deadline = Instant::now() + grace;
    for container in &mut *containers {
        container.term();
    }
    while Instant::now() < deadline && !containers.iter_mut().all(Container::has_ended) {
        sleep(STEP_INTERVAL).await;
    }
    for container in containers {
        container.kill();
    }
}

/// Network namespace with the API server and the routes on its loopback.
async fn network(shared: &Shared, uid: &str, folder: &Path) -> anyhow::Result<NetNs> {
    fs::create_dir_all(folder)?;
    let net = NetNs::new(uid, folder).await?;
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    let api = SocketAddr::from(([127, 0, 0, 1], shared.api_port));
    route::serve_host(net.listen(api)?, api)?;
    for route in &shared.routes {
        let address = format!("{ROUTES_ADDRESS}:{}", route.port).parse()?;
        route::serve(net.listen(address)?, shared.ready.clone(), route.clone())?;
        hosts += &format!("{ROUTES_ADDRESS} {}\n", route.host);
    }
    fs::write(folder.join("hosts"), hosts)?;
    Ok(net)
}

async fn containers(
    shared: &Shared,
    pod: &Value,
    net: &NetNs,
    folder: &Path,
) -> anyhow::Result<Vec<Container>> {
    let name = text(pod, "/metadata/name");
    let volumes = volumes::write(shared, pod, &folder.join("volumes")).await?;
    let mut started = Vec::new();
    for spec in list(pod, "/spec/containers") {
        let log = log_file(&shared.folder, name, text(spec, "/name"));
        let container = Container::start(shared, pod, spec, (net, folder, log), &volumes);
        started.push(container.await?);
    }
    Ok(started)
}
