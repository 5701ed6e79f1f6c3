//! Requests to the API server, through `kubectl proxy`.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use fairlead_testkit::{
    process::{Launch, Process},
    raw::RawClient,
};

use crate::kube::Cluster;

const START_DEADLINE: Duration = Duration::from_secs(20);
const ANNOUNCED: &str = "Starting to serve on ";

/// Client of the API server.
#[derive(Debug)]
pub(super) struct Api {
    address: SocketAddr,
}

impl Api {
    pub(super) async fn start(cluster: &Cluster, folder: &Path) -> anyhow::Result<(Process, Self)> {
        let mut proxy = Launch::new(cluster.kubectl().program())
            .args(["proxy", "--port=0", "--kubeconfig"])
            .args([cluster.kubeconfig()])
            .spawn(folder.join("proxy.log"))?;
        proxy.wait_for_log(ANNOUNCED, START_DEADLINE).await?;
        // The line may be read before its end.
        proxy.wait_for_log("\n", START_DEADLINE).await?;
        let log = proxy.log()?;
        let address = log.lines().find_map(|line| line.strip_prefix(ANNOUNCED));
        let address = address.context("no address")?.trim().parse()?;
        Ok((proxy, Self { address }))
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send("GET", path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("POST", path, Some(("application/json", body)))
            .await
    }

    /// Merge patch.
    pub(super) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("PATCH", path, Some(("application/merge-patch+json", body)))
            .await
    }

    /// Removes a pod whose containers have ended.
    pub(super) async fn end_pod(&self, path: &str, uid: &str) -> anyhow::Result<()> {
        let options = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid } });
        let body = Some(("application/json", &options));
        self.send("DELETE", path, body).await.map(drop)
    }

    /// Values of a Secret or ConfigMap by key.
    pub(super) async fn values(
        &self,
        kinds: &str,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let path = format!("/api/v1/namespaces/{namespace}/{kinds}/{name}");
        let object = self.get(&path).await?;
        let data = object
            .get("data")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let values = data.into_iter().map(|(key, value)| {
            let text = value.as_str().unwrap_or_default();
            let bytes = match kinds {
                "secrets" => STANDARD.decode(text)?,
                _ => text.as_bytes().to_vec(),
            };
            anyhow::Ok((key, bytes))
        });
        values.collect()
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> anyhow::Result<Value> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        let text = body.map(|(kind, body)| {
            request += &format!("Content-Type: {kind}\r\n");
            body.to_string()
        });
        let text = text.unwrap_or_default();
        request += &format!("Content-Length: {}\r\n\r\n{text}", text.len());
        let answer = RawClient::plain(self.address).send(request).await?;
        let status = answer.status;
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status}: {}",
            answer.text()
        );
        Ok(serde_json::from_slice(&answer.body)?)
    }
}
