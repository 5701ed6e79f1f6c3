//! A cluster with Flux, a Git server and a hub in memory. After each write the Git server has the keys of the record, and
//! Flux syncs on request.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use fairlead_api::{
    config::{AgentConfig, Repository},
    gitops::{AgentKeys, GitOpsConfig, GitOpsTool, KeyReceipt, KeyReport},
};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

use crate::{GitOpsStatus, KeyRegistry, RegistryUnreachable, Worker};

pub(crate) const SECRET: &str = "/api/v1/namespaces/flux-system/secrets/flux-system";
pub(crate) const KEYRING: &str = "/api/v1/namespaces/flux-system/secrets/fairlead-gitops-keys";
const SECRETS: &str = "/api/v1/namespaces/flux-system/secrets";
const DELIVERY_SECRETS: &str = "/api/v1/namespaces/fairlead-delivery/secrets";
const EVENTS: &str = "/api/v1/namespaces/flux-system/events";
const ARGOCD_SECRETS: &str = "/api/v1/namespaces/argocd/secrets";
pub(crate) const ARGOCD_SECRET: &str = "/api/v1/namespaces/argocd/secrets/fairlead-catalog";
pub(crate) const ARGOCD_HOSTS: &str =
    "/api/v1/namespaces/argocd/configmaps/argocd-ssh-known-hosts-cm";
pub(crate) const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
pub(crate) const SOURCE: &str =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system";

/// Contents of the world.
pub(crate) struct World {
    pub(crate) objects: BTreeMap<String, Value>,
    pub(crate) record: AgentKeys,
    /// True: the Git server takes over each record at once.
    pub(crate) git_follows: bool,
    /// Keys of the Git server.
    pub(crate) git: AgentKeys,
    /// Message of each sync with another key than the first one.
    pub(crate) fails_with: Option<String>,
    /// Writes that succeed before the agent is cut off.
    pub(crate) writes_left: usize,
    pub(crate) status_of_writes: u16,
    /// Methods and paths of all requests, and `hub`.
    pub(crate) requests: Vec<String>,
    /// Syncs with a key that the Git server refused.
    pub(crate) refused_syncs: usize,
    pub(crate) sent_to_hub: Vec<String>,
    version: u64,
    settings: watch::Sender<Arc<AgentConfig>>,
}

#[derive(Clone)]
pub(crate) struct Fake(pub(crate) Arc<Mutex<World>>, Arc<Upstream>);

impl Fake {
    pub(crate) async fn start() -> Self {
        let config = AgentConfig {
            repository: Some(Repository {
                url: "ssh://git@git.example/a/b.git".to_owned(),
                host_keys: Some("git.example ssh-ed25519 AAAA".to_owned()),
            }),
            gitops: GitOpsConfig {
                tool: GitOpsTool::Flux,
                registered: true,
                ..GitOpsConfig::default()
            },
            ..AgentConfig::default()
        };
        let world = World {
            objects: BTreeMap::new(),
            record: AgentKeys::default(),
            git_follows: true,
            git: AgentKeys::default(),
            fails_with: None,
            writes_left: usize::MAX,
            status_of_writes: 500,
            requests: Vec::new(),
            refused_syncs: 0,
            sent_to_hub: Vec::new(),
            version: 0,
            settings: watch::Sender::new(Arc::new(config)),
        };
        let world = Arc::new(Mutex::new(world));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(world.clone());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(&path, text.to_string()).unwrap();
        tokio::spawn(async move {
            // The kubeconfig stays as long as the server.
            let _folder = folder;
            axum::serve(listener, router).await
        });
        let target = ApiServerConfig::Kubeconfig {
            path,
            context: None,
        };
        Self(world, Arc::new(Upstream::new(ApiCredentials::new(&target))))
    }

    /// Worker and its status.
    pub(crate) fn worker(&self) -> (Worker, watch::Receiver<Option<GitOpsStatus>>) {
        let configuration = self.0.lock().unwrap().settings.subscribe();
        let (status, receiver) = watch::channel(None);
        let registry = Arc::new(self.clone());
        let worker = Worker::new(self.1.clone(), registry, configuration, status);
        (worker, receiver)
    }

    /// Client of a person.
    pub(crate) fn upstream(&self) -> Arc<Upstream> {
        self.1.clone()
    }

    pub(crate) fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub(crate) fn configure(&self, change: impl FnOnce(&mut AgentConfig)) {
        self.world(|world| {
            world
                .settings
                .send_modify(|config| change(Arc::make_mut(config)))
        });
    }

    /// Argo CD in place of Flux, with one Application of the catalog.
    pub(crate) fn use_argocd(&self) {
        self.configure(|config| config.gitops.tool = GitOpsTool::Argocd);
        let applications = json!({ "items": [{
            "spec": { "source": { "repoURL": "ssh://git@git.example/a/b.git" } },
            "status": { "reconciledAt": "2025-01-01T00:00:00Z" },
        }] });
        let hosts = json!({
            "metadata": { "resourceVersion": "1" },
            "data": { "ssh_known_hosts": "github.com ssh-rsa A\ngit.example ssh-rsa B\n" },
        });
        self.world(|world| {
            world.objects.insert(APPLICATIONS.to_owned(), applications);
            world.objects.insert(ARGOCD_HOSTS.to_owned(), hosts);
        });
    }

    /// Source that uses the Secret.
    pub(crate) fn put_source(&self) {
        let source = json!({
            "metadata": { "resourceVersion": "1" },
            "spec": { "secretRef": { "name": "flux-system" } },
        });
        self.world(|world| world.objects.insert(SOURCE.to_owned(), source));
    }
}

impl World {
    /// Field of the Secret's annotations.
    pub(crate) fn annotation(&self, path: &str, name: &str) -> Option<String> {
        let value = &self.objects.get(path)?["metadata"]["annotations"][format!("fairlead/{name}")];
        value.as_str().map(str::to_owned)
    }

    /// Changes an object as somebody else does.
    pub(crate) fn change(&mut self, path: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        if let Some(object) = self.objects.get_mut(path) {
            change(object);
            object["metadata"]["resourceVersion"] = json!(format!("v{}", self.version));
        }
    }

    /// Public key in use.
    pub(crate) fn key(&self) -> Option<String> {
        let of_argocd = self.annotation(ARGOCD_SECRET, "public-key");
        of_argocd.or_else(|| self.annotation(SECRET, "public-key"))
    }

    pub(crate) fn git_accepts(&self, key: &str) -> bool {
        [&self.git.current, &self.git.next]
            .into_iter()
            .flatten()
            .any(|it| it == key)
    }

    /// Lets the Git server take the record over.
    pub(crate) fn register(&mut self) {
        self.git = self.record.clone();
        let keys = self.record.clone();
        self.settings.send_modify(|config| {
            let gitops = &mut Arc::make_mut(config).gitops;
            gitops.keys = keys;
            gitops.registered = true;
        });
    }

    /// Syncs as Flux does, with the Secret as it is now.
    fn sync(&mut self) {
        let key = self.key().unwrap_or_default();
        let is_accepted = self.git_accepts(&key);
        self.refused_syncs += usize::from(!is_accepted);
        let failure = match (&self.fails_with, is_accepted) {
            (_, false) => Some("unable to authenticate".to_owned()),
            (Some(message), true)
                if self.annotation(SECRET, "rotation").as_deref() != Some("0") =>
            {
                Some(message.clone())
            }
            _ => None,
        };
        let Some(source) = self.objects.get_mut(SOURCE) else {
            return;
        };
        let requested =
            source["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"].clone();
        let ready = match failure {
            None => json!({ "type": "Ready", "status": "True" }),
            Some(message) => json!({ "type": "Ready", "status": "False", "message": message }),
        };
        source["status"] = json!({ "lastHandledReconcileAt": requested, "conditions": [ready] });
    }

    fn write(&mut self, method: &Method, path: &str, mut object: Value) -> (u16, Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = match path {
            SECRETS | ARGOCD_SECRETS | DELIVERY_SECRETS | EVENTS => format!("{path}/{name}"),
            path => path.to_owned(),
        };
        let known = self.objects.get(&path);
        if *method == Method::DELETE {
            let version = &object["preconditions"]["resourceVersion"];
            return match known {
                None => (404, json!({})),
                Some(known) if known["metadata"]["resourceVersion"] != *version => (409, json!({})),
                Some(_) => (200, self.objects.remove(&path).unwrap_or_default()),
            };
        }
        let is_create = *method == Method::POST;
        match known {
            Some(_) if is_create => return (409, json!({})),
            None if !is_create => return (404, json!({})),
            Some(known)
                if known["metadata"]["resourceVersion"]
                    != object["metadata"]["resourceVersion"] =>
            {
                return (409, json!({}));
            }
            _ => {}
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(format!("v{}", self.version));
        let time = |second: u64| {
            json!(format!(
                "2026-01-01T00:{:02}:{:02}Z",
                second / 60,
                second % 60
            ))
        };
        object["metadata"]["managedFields"] = json!([{ "time": time(self.version) }]);
        self.objects.insert(path.clone(), object.clone());
        if path == ARGOCD_SECRET {
            // Argo CD compares all Applications once it does not remember their commit any more.
            let reconciled = time(self.version + 191);
            if let Some(list) = self.objects.get_mut(APPLICATIONS) {
                list["items"][0]["status"]["reconciledAt"] = reconciled;
            }
        }
        if path == SOURCE {
            self.sync();
        }
        (201, object)
    }

    /// True if this write still succeeds.
    fn spend(&mut self) -> bool {
        let allowed = self.writes_left > 0;
        self.writes_left = self.writes_left.saturating_sub(1);
        allowed
    }
}

#[async_trait]
impl KeyRegistry for Fake {
    async fn replace(&self, report: &KeyReport) -> Result<KeyReceipt, RegistryUnreachable> {
        let mut world = self.0.lock().unwrap();
        world.requests.push("hub".to_owned());
        if !world.spend() {
            return Err(RegistryUnreachable("cut off".to_owned()));
        }
        world
            .sent_to_hub
            .push(serde_json::to_string(report).unwrap());
        if world.record == report.expected {
            world.record = report.keys.clone();
            let keys = world.record.clone();
            if world.git_follows {
                world.register();
            } else {
                world.settings.send_modify(|config| {
                    let gitops = &mut Arc::make_mut(config).gitops;
                    gitops.keys = keys;
                    gitops.registered = false;
                });
            }
        }
        let keys = world.record.clone();
        Ok(KeyReceipt { keys })
    }
}

async fn answer(
    State(world): State<Arc<Mutex<World>>>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let mut world = world.lock().unwrap();
    let path = uri.path();
    world.requests.push(format!("{method} {path}"));
    let (status, body) = if method == Method::GET {
        match world.objects.get(path) {
            Some(object) => (200, object.clone()),
            None => (404, json!({})),
        }
    } else if world.spend() {
        let object = serde_json::from_slice(&body).unwrap_or_default();
        world.write(&method, path, object)
    } else {
        (world.status_of_writes, json!({ "message": "cut off" }))
    };
    let status = StatusCode::from_u16(status).unwrap();
    (status, body.to_string()).into_response()
}
