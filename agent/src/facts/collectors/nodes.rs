//! `nodes`: totals over all nodes, so that the fact does not grow with the cluster.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use crate::facts::{
    bounded::BoundedTally,
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

/// Maximum number of operating systems, kernels, kubelets and the like.
const MAX_KINDS: usize = 32;
/// Maximum number of labels with their values, and of taints.
const MAX_LABELS: usize = 256;
/// Label with another value on each node; left out.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

pub(super) struct Nodes {
    count: u64,
    /// Capacity in thousandths of a core.
    cpu: u64,
    /// Capacity in bytes.
    memory: u64,
    operating_system: BoundedTally,
    os_image: BoundedTally,
    kernel: BoundedTally,
    kubelet: BoundedTally,
    container_runtime: BoundedTally,
    architecture: BoundedTally,
    labels: BoundedTally,
    taints: BoundedTally,
}

impl Default for Nodes {
    fn default() -> Self {
        let kinds = || BoundedTally::new(MAX_KINDS);
        Nodes {
            count: 0,
            cpu: 0,
            memory: 0,
            operating_system: kinds(),
            os_image: kinds(),
            kernel: kinds(),
            kubelet: kinds(),
            container_runtime: kinds(),
            architecture: kinds(),
            labels: BoundedTally::new(MAX_LABELS),
            taints: BoundedTally::new(MAX_LABELS),
        }
    }
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    metadata: NodeMetadata,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
struct NodeMetadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct NodeSpec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Deserialize)]
struct Taint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    capacity: Capacity,
    node_info: NodeInfo,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Capacity {
    cpu: String,
    memory: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    operating_system: String,
    os_image: String,
    kernel_version: String,
    kubelet_version: String,
    container_runtime_version: String,
    architecture: String,
}

impl Collector for Nodes {
    fn sources(&self) -> Vec<CollectorSource> {
        vec![CollectorSource::list("/api/v1/nodes", "list nodes")]
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let node: Node = serde_json::from_slice(object)?;
        self.count += 1;
        let Capacity { cpu, memory } = &node.status.capacity;
        self.cpu = self.cpu.saturating_add(thousandths(cpu).unwrap_or(0));
        let memory = thousandths(memory).unwrap_or(0) / 1000;
        self.memory = self.memory.saturating_add(memory);
        let info = &node.status.node_info;
        for (tally, text) in [
            (&mut self.operating_system, &info.operating_system),
            (&mut self.os_image, &info.os_image),
            (&mut self.kernel, &info.kernel_version),
            (&mut self.kubelet, &info.kubelet_version),
            (&mut self.container_runtime, &info.container_runtime_version),
            (&mut self.architecture, &info.architecture),
        ] {
            if !text.is_empty() {
                tally.count(text);
            }
        }
        for (key, value) in &node.metadata.labels {
            if key != HOSTNAME_LABEL {
                self.labels.count(&format!("{key}={value}"));
            }
        }
        for Taint { key, value, effect } in &node.spec.taints {
            let taint = match value.is_empty() {
                true => format!("{key}:{effect}"),
                false => format!("{key}={value}:{effect}"),
            };
            self.taints.count(&taint);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        if self.count == 0 {
            return Vec::new();
        }
        let tallies = [
            ("operatingSystem", self.operating_system),
            ("osImage", self.os_image),
            ("kernel", self.kernel),
            ("kubelet", self.kubelet),
            ("containerRuntime", self.container_runtime),
            ("architecture", self.architecture),
            ("labels", self.labels),
            ("taints", self.taints),
        ];
        let mut left_out = 0;
        // Cores have at most three decimal places.
        let cores = self.cpu as f64 / 1000.0;
        let mut nodes = serde_json::Map::from_iter([
            ("count".to_owned(), json!(self.count)),
            ("cpu".to_owned(), json!(cores)),
            ("memory".to_owned(), json!(self.memory)),
        ]);
        for (name, tally) in tallies {
            left_out += tally.left_out();
            nodes.insert(name.to_owned(), tally.into_value());
        }
        vec![CollectedFact {
            name: "nodes".to_owned(),
            value: nodes.into(),
            left_out,
        }]
    }
}

/// Kubernetes quantity, such as `3920m`, `16Gi` or `1e3`, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let digits = |c: char| !(c.is_ascii_digit() || c == '.');
    let (number, suffix) = match text.find(digits) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let number: f64 = number.parse().ok()?;
    let binary = |power: i32| 1024_f64.powi(power);
    let decimal = |power: i32| 10_f64.powi(power);
    let factor = match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => 1.0,
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let value = (number * factor * 1000.0).round();
    // `as` saturates, and digits never make a NaN.
    value.is_finite().then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::collectors::facts_of;

    fn node(name: &str, cpu: &str, kubelet: &str) -> serde_json::Value {
        json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "zone": "a" } },
            "spec": { "taints": [
                { "key": "dedicated", "value": "db", "effect": "NoSchedule" },
                { "key": "cordoned", "effect": "NoExecute" },
            ] },
            "status": {
                "capacity": { "cpu": cpu, "memory": "16Gi", "pods": "110" },
                "images": [{ "names": ["x"] }],
                "nodeInfo": {
                    "operatingSystem": "linux", "osImage": "Debian 13", "kernelVersion": "6.12",
                    "kubeletVersion": kubelet, "containerRuntimeVersion": "containerd://2", "architecture": "amd64",
                },
            },
        })
    }

    #[test]
    fn node_capacities_are_summed() {
        let nodes = [
            (0, node("a", "4", "v1.37.1")),
            (0, node("b", "3920m", "v1.37.1")),
            (0, node("c", "4", "v1.36.0")),
        ];
        let facts = facts_of(Box::new(Nodes::default()), &nodes);
        assert_eq!(
            facts["nodes"],
            json!({
                "count": 3, "cpu": 11.92, "memory": 3_u64 * 16 * 1024 * 1024 * 1024,
                "operatingSystem": { "linux": 3 }, "osImage": { "Debian 13": 3 }, "kernel": { "6.12": 3 },
                "kubelet": { "v1.36.0": 1, "v1.37.1": 2 }, "containerRuntime": { "containerd://2": 3 },
                "architecture": { "amd64": 3 }, "labels": { "zone=a": 3 },
                "taints": { "dedicated=db:NoSchedule": 3, "cordoned:NoExecute": 3 },
            })
        );
    }

    #[test]
    fn node_with_few_fields_is_counted() {
        let facts = facts_of(Box::new(Nodes::default()), &[(0, json!({}))]);
        assert_eq!(facts["nodes"]["count"], 1);
        assert_eq!(facts["nodes"]["kubelet"], json!({}));
    }

    #[test]
    fn kubernetes_quantities_are_parsed() {
        for (text, value) in [
            ("4", Some(4000)),
            ("3920m", Some(3920)),
            ("0.5", Some(500)),
            ("1Ki", Some(1_024_000)),
            ("1e3", Some(1_000_000)),
            (
                "2E",
                Some(2_000_000_000_000_000_000_000_u128.min(u64::MAX.into()) as u64),
            ),
            ("", None),
            ("x", None),
            ("1x", None),
            ("-1", None),
            ("1.2.3", None),
        ] {
            assert_eq!(thousandths(text), value, "{text}");
        }
    }
}
