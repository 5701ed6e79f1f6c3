//! A real kube-apiserver with thousands of pods, for LISTs of realistic size. Nothing runs the pods. They are
//! plain objects, written through the API, each about as long as a typical pod.

use std::time::Duration;

use anyhow::Context as _;
use fairlead_e2e::Cluster;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time};

use crate::{
    api::Api,
    peers::{Server, write_secret},
};

pub(crate) const POD_COUNT: usize = 5000;
/// Connections that write pods at the same time.
const POD_WRITERS: usize = 8;
const FILL_DEADLINE: Duration = Duration::from_secs(300);
const SERVICE_ACCOUNT: &str = "kube-system:bench";

/// A running API server. It ends when this is dropped.
pub(crate) struct BenchApiServer {
    cluster: Cluster,
    token_file: std::path::PathBuf,
}

impl BenchApiServer {
    /// Starts a server and fills it with pods. With a cold cache its programs are built first, which takes
    /// minutes.
    ///
    /// # Errors
    /// The server cannot be built, does not start, or rejects a pod.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start_lite().await?;
        let kubectl = async |words: &[&str]| {
            let ran = cluster.kubectl().args(words).run().await?;
            anyhow::Ok(ran.success()?.trim().to_owned())
        };
        kubectl(&["create", "serviceaccount", "bench", "-n", "kube-system"]).await?;
        let account = format!("--serviceaccount={SERVICE_ACCOUNT}");
        let role = "--clusterrole=cluster-admin";
        kubectl(&["create", "clusterrolebinding", "bench", role, &account]).await?;
        let hours = "--duration=24h";
        let token = kubectl(&["create", "token", "bench", "-n", "kube-system", hours]).await?;
        let token_file = cluster.dir().join("bench.token");
        write_secret(&token_file, &token)?;
        let server = Self {
            cluster,
            token_file,
        };
        let filled = time::timeout(FILL_DEADLINE, server.fill()).await;
        filled.context("writing pods takes too long")??;
        Ok(server)
    }

    pub(crate) fn server(&self) -> anyhow::Result<Server> {
        let dir = self.cluster.dir();
        let pid = std::fs::read_to_string(dir.join("pids/apiserver"))?;
        Ok(Server {
            url: self.cluster.api_url(),
            ca_file: dir.join("pki/ca.crt"),
            token_file: self.token_file.clone(),
            pid: pid.trim().parse()?,
        })
    }

    async fn fill(&self) -> anyhow::Result<()> {
        let Server { url, ca_file, .. } = self.server()?;
        let mut writers = JoinSet::new();
        for writer in 0..POD_WRITERS {
            let api = Api::new(&url, &ca_file, &self.token_file)?;
            writers.spawn(async move {
                let numbers = (writer..POD_COUNT).step_by(POD_WRITERS);
                let pods = numbers.map(|number| pod(number).to_string());
                let path = "/api/v1/namespaces/default/pods";
                api.create::<IgnoredAny>(path, pods).await
            });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        Ok(())
    }
}

/// A pod with the fields that a typical Deployment sets: labels, annotations, variables, probes, volumes,
/// tolerations.
fn pod(number: usize) -> Value {
    let app = format!("shop-{}", number % 100);
    let variables: Vec<Value> = (0..16)
        .map(|n| json!({"name": format!("SHOP_SETTING_{n}"), "value": format!("a value of about forty bytes, number {n}")}))
        .collect();
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}, "initialDelaySeconds": 5, "periodSeconds": 10});
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{app}-7d9c6b5f48-{number:05}"),
            "labels": {
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/instance": format!("{app}-production"),
                "app.kubernetes.io/version": "4.11.2",
                "pod-template-hash": "7d9c6b5f48",
            },
            "annotations": {
                "checksum/config": "0f3a8b7e5d2c4f6a9b1d0e3c5a7f9b2d4e6f8a0c2e4d6b8f0a2c4e6d8b0f1a3c",
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
            },
        },
        "spec": {
            "containers": [{
                "name": "shop",
                "image": format!("registry.example.com/team/{app}:4.11.2"),
                "args": ["--listen=:8080", "--metrics=:9090", "--log-format=json", "--log-level=info"],
                "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
                "env": variables,
                "resources": resources,
                "livenessProbe": probe("/healthz"),
                "readinessProbe": probe("/readyz"),
                "volumeMounts": [{"name": "config", "mountPath": "/etc/shop", "readOnly": true}],
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true},
            }],
            "volumes": [{"name": "config", "configMap": {"name": format!("{app}-config")}}],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "shop", "effect": "NoSchedule"}],
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
            }],
        },
    })
}
