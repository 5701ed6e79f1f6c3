//! Status of pods, as a kubelet writes it: ready, or in a crash loop with an image named `bad`. Syncs of the source, as
//! its controller writes them.

use std::{sync::Arc, time::Duration};

use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use fairlead_delivery_agent::kube::{KubeClient, Query, RequestRate};
use fairlead_e2e::Cluster;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::interval};

const WRITE_INTERVAL: Duration = Duration::from_millis(500);
const PODS: &str = "/api/v1/namespaces/flux-system/pods";
const SOURCE: &str =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system";

/// Ends with its owner.
pub(super) struct Kubelet(JoinHandle<()>);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelet {
    pub(super) fn start(cluster: &Cluster) -> Self {
        let target = ApiServerConfig::Kubeconfig {
            path: cluster.kubeconfig(),
            context: None,
        };
        let upstream = Arc::new(Upstream::new(ApiCredentials::new(&target)));
        let client = KubeClient::new(upstream).with_rate(RequestRate::new(50, 50));
        Self(tokio::spawn(async move {
            let mut ticks = interval(WRITE_INTERVAL);
            for number in 0_u64.. {
                ticks.tick().await;
                write_pods(&client).await;
                write_sync(&client, number).await;
            }
        }))
    }
}

async fn write_pods(client: &KubeClient) {
    let Ok(Some(pods)) = client.list(PODS, &Query::default()).await else {
        return;
    };
    for pod in pods.items {
        let status = status(&pod);
        let is_written =
            pod["status"]["containerStatuses"] == status["status"]["containerStatuses"];
        if is_written || !pod["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        // A pod that ends meanwhile has no status.
        let _ = client
            .merge_patch(&format!("{PODS}/{name}/status"), &status)
            .await;
    }
}

fn status(pod: &Value) -> Value {
    let container = &pod["spec"]["containers"][0];
    let image = container["image"].as_str().unwrap_or_default();
    let is_bad = image.ends_with("bad");
    let state = match is_bad {
        true => json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
        false => json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } }),
    };
    let ready = if is_bad { "False" } else { "True" };
    json!({ "status": {
        "phase": "Running",
        "conditions": [
            { "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "ContainersReady", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ],
        "containerStatuses": [{
            "name": container["name"],
            "image": image,
            "imageID": "",
            "lastState": {},
            "ready": !is_bad,
            "restartCount": if is_bad { 3 } else { 0 },
            "started": !is_bad,
            "state": state,
        }],
    } })
}

/// A sync every ten seconds.
async fn write_sync(client: &KubeClient, number: u64) {
    if !number.is_multiple_of(20) {
        return;
    }
    let second = number / 20 % 60;
    let status = json!({ "status": {
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact",
            "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z"),
        }],
    } });
    // The source may not be there yet, or no longer.
    let _ = client
        .merge_patch(&format!("{SOURCE}/status"), &status)
        .await;
}
