//! Kubelet of the tests: runs the container `fairlead` of pods by their specs, as processes in namespaces of their own.
//!
//! Each pod has a network namespace, each container a mount namespace with a read-only root and the image's user. A
//! controller-manager makes the pods of Deployments and StatefulSets. Services are routes of [`Route`]: no pod reaches any
//! other address. Network policies and resource limits are not enforced. It needs root.

mod api;
mod container;
mod pod;
mod probe;
mod root;
mod route;
mod status;
mod volumes;

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{
    runtime::Builder,
    sync::watch,
    task::LocalSet,
    time::{Instant, timeout},
};

use crate::{kube::Cluster, netns::NetNs};
use api::Api;
use pod::RunningPod;
use route::ReadyPods;

/// Name of the node.
const NODE: &str = "kubelet";
const POLL_INTERVAL: Duration = Duration::from_millis(150);
const BEAT_INTERVAL: Duration = Duration::from_secs(10);

/// A host name that pods reach: the ready pods with these labels, on one port.
#[derive(Debug, Clone)]
pub struct Route {
    /// Host name in the pods.
    pub host: String,
    /// Port at that name.
    pub port: u16,
    /// Labels of the pods that answer, all of them.
    pub labels: BTreeMap<String, String>,
    /// Port of these pods.
    pub to: u16,
}

/// A running kubelet. Its pods are killed when this is dropped.
#[derive(Debug)]
pub struct Kubelet {
    shared: Arc<Shared>,
    /// Dropping it ends the thread.
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// `kubectl proxy`, through which requests go.
    _proxy: fairlead_testkit::process::Process,
}

/// Parts that all pods share.
#[derive(Debug)]
struct Shared {
    api: Api,
    folder: PathBuf,
    api_port: u16,
    routes: Vec<Route>,
    ready: ReadyPods,
    /// Last problems, for messages.
    problems: Mutex<Vec<String>>,
}

impl Shared {
    fn problem(&self, text: String) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.push(text);
    }
}

impl Kubelet {
    /// Starts a kubelet for the pods of `namespaces`. `program` is the `fairlead` of the image; volumes and logs are below
    /// `folder`.
    ///
    /// # Errors
    /// The node cannot be made.
    pub async fn start(
        cluster: &Cluster,
        (folder, program): (&Path, &Path),
        namespaces: &[&str],
        routes: Vec<Route>,
    ) -> anyhow::Result<Self> {
        let (proxy, api) = Api::start(cluster, folder).await?;
        // No pod but the bound ones goes there: the scheduler finds no node for pods with a selector for it. kwok leaves nodes with the label alone, and their pods.
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": NODE, "labels": { "fairlead/kubelet": "true" } },
            "spec": { "unschedulable": true },
        });
        api.post("/api/v1/nodes", &node).await?;
        beat(&api).await?;
        image(folder, program)?;
        let shared = Arc::new(Shared {
            api,
            folder: folder.to_owned(),
            api_port: cluster.api_port(),
            routes,
            ready: ReadyPods::default(),
            problems: Mutex::default(),
        });
        let namespaces = namespaces.iter().map(|it| (*it).to_owned()).collect();
        let (stop, stopped) = watch::channel(());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let pods = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            LocalSet::new().block_on(&runtime, work(pods, namespaces, stopped));
        });
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
            _proxy: proxy,
        })
    }

    /// Leads connections to `at` in another network namespace to the ready pods of a route.
    ///
    /// # Errors
    /// The address is in use there.
    pub fn expose(&self, net: &NetNs, at: SocketAddr, route: Route) -> anyhow::Result<()> {
        route::serve(net.listen(at)?, self.shared.ready.clone(), route)
    }

    /// Problems so far, such as a volume that does not exist.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let problems = self.shared.problems.lock();
        problems.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Log of a container.
    ///
    /// # Errors
    /// The container has never run.
    pub fn log(&self, pod: &str, container: &str) -> anyhow::Result<String> {
        let file = pod::log_file(&self.shared.folder, pod, container);
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// Folder of a persistent volume claim.
    #[must_use]
    pub fn claim(&self, name: &str) -> PathBuf {
        volumes::claim_folder(&self.shared.folder, name)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The processes are gone before the folders of their roots are.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Starts new pods, and hands changes to running ones, until the sender of `stopped` is dropped.
async fn work(shared: Arc<Shared>, namespaces: Vec<String>, mut stopped: watch::Receiver<()>) {
    let mut running: BTreeMap<String, RunningPod> = BTreeMap::new();
    let mut next_beat = Instant::now();
    loop {
        if Instant::now() >= next_beat {
            next_beat = Instant::now() + BEAT_INTERVAL;
            if let Err(error) = beat(&shared.api).await {
                shared.problem(format!("heartbeat: {error:#}"));
            }
        }
        for namespace in &namespaces {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let Ok(pods) = shared.api.get(&path).await else {
                continue;
            };
            for pod in list(&pods, "/items") {
                let uid = text(pod, "/metadata/uid").to_owned();
                if let Some(known) = running.get(&uid) {
                    known.observe(pod);
                } else if is_new(pod) {
                    let started = RunningPod::start(Arc::clone(&shared), pod.clone());
                    running.insert(uid, started);
                }
            }
        }
        running.retain(|_, pod| !pod.has_ended());
        if timeout(POLL_INTERVAL, stopped.changed()).await.is_ok() {
            return;
        }
    }
}

/// Reports the node as ready. Without news for 40 seconds, its pods would not be ready either.
async fn beat(api: &Api) -> anyhow::Result<()> {
    let now = OffsetDateTime::now_utc().format(&Rfc3339)?;
    let ready = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": now });
    let status = json!({ "status": { "conditions": [ready] } });
    let path = format!("/api/v1/nodes/{NODE}/status");
    api.patch(&path, &status).await.map(drop)
}

/// Folder of the image's programs: hard links, so that all users may reach them.
fn image(folder: &Path, program: &Path) -> anyhow::Result<()> {
    let image = folder.join("image");
    fs::create_dir_all(&image)?;
    for (name, program) in [("fairlead", program), ("helm", &crate::helm::program()?)] {
        let place = image.join(name);
        if fs::hard_link(program, &place).is_err() {
            fs::copy(program, &place).with_context(|| program.display().to_string())?;
        }
    }
    Ok(())
}

fn is_new(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_none() && text(pod, "/status/phase") == "Pending"
}

/// Items of the list at a pointer; none of any other value.
fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Text at a pointer, or an empty one.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}
