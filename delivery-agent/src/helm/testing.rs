//! Samples for the tests.

use fairlead_api::delivery::{BundleKind, ConflictPolicy, DriftPolicy, Spec};
use serde_json::{Value, json};

pub(crate) const RUN: &str = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV";
pub(crate) const OTHER_RUN: &str = "run-01ARZ3NDEKTSV4RRFFQ69G5FAW";

pub(crate) fn spec() -> Spec {
    let digest = format!("sha256:{}", "ab".repeat(32));
    Spec {
        bundle: "b-web".parse().unwrap(),
        tenant: "t-shop".parse().unwrap(),
        kind: BundleKind::Helm,
        artifact: digest.parse().unwrap(),
        namespace: "shop".to_owned(),
        service_account: "deployer".to_owned(),
        helm: None,
        variables: Default::default(),
        patches: Vec::new(),
        secrets: Vec::new(),
        depends_on: Vec::new(),
        drift: DriftPolicy::Correct,
        ignore: Vec::new(),
        conflicts: ConflictPolicy::Fail,
        adopt: false,
        prune: true,
        timeout_seconds: 600,
        retries: 5,
    }
}

/// Metadata of the Secret of a revision.
pub(crate) fn record_secret(number: u32, status: &str, labels: &[(&str, &str)]) -> Value {
    let mut all =
        json!({"owner": "helm", "name": "web", "status": status, "version": number.to_string()});
    for (name, value) in labels {
        all[*name] = json!(value);
    }
    json!({"metadata": {
        "name": format!("sh.helm.release.v1.web.v{number}"), "resourceVersion": "7", "labels": all,
    }})
}
