//! Locks: a Secret per attempt.

use fairlead_api::{BundleId, Code};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    FencedAttempt,
    account::{AccountName, DELIVERY_NAMESPACE},
    failure,
};
use crate::{
    engine::{FailureClass, RunFailure},
    kube::{KubeClient, KubeError},
    process::ProcessIdentity,
};

/// Type of the Secrets. An admission policy lets the agent make no others beside journals.
pub(super) const LOCK_TYPE: &str = "fairlead/run";
/// Annotation with the process of the attempt.
const PROCESS_ANNOTATION: &str = "fairlead/process";
/// Label with the bundle of the attempt.
pub(super) const LOCK_LABEL: &str = "fairlead/lock";
/// Locks in other namespaces: RBAC limits no creation by name, but server-side apply.
const MAX_SLOTS: usize = 4;

/// Place and UID of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockPlace {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// UID of the Secret.
    pub uid: String,
}

impl LockPlace {
    /// Path of the Secret.
    #[must_use]
    pub fn path(&self) -> String {
        path(&self.namespace, &self.name)
    }
}

pub(super) fn path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

/// Name of the lock of a bundle in the namespace of deliveries.
pub(super) fn name_of(bundle: &BundleId) -> String {
    format!("run-{bundle}")
}

pub(super) fn slot_name(slot: usize) -> String {
    format!("fairlead-run-{slot}")
}

pub(super) fn slots() -> impl Iterator<Item = String> {
    (0..MAX_SLOTS).map(slot_name)
}

/// Process of a lock; none if the annotation is missing or damaged.
pub(super) fn process_of(lock: &Value) -> Option<ProcessIdentity> {
    let text = lock
        .pointer("/metadata/annotations/fairlead~1process")?
        .as_str()?;
    serde_json::from_str(text).ok()
}

pub(super) async fn acquire(
    client: &KubeClient,
    process: &ProcessIdentity,
    attempt: FencedAttempt<'_>,
    account: &AccountName,
) -> Result<LockPlace, RunFailure> {
    if account.is_local() {
        return create(client, process, attempt).await;
    }
    let namespace = account.namespace();
    let manager = format!("{}.{}", attempt.run, attempt.attempt);
    for name in slots() {
        let object = object(namespace, &name, process, attempt);
        let applied = client
            .apply(&path(namespace, &name), &manager, false, false, &object)
            .await;
        match applied {
            Ok(secret) => return place(namespace, &name, &secret),
            // Another attempt has the slot.
            Err(KubeError::Status { status: 409, .. }) => {}
            Err(error) => {
                let subject = format!("Secret {namespace}/{name} cannot be made");
                return Err(failure(&error, &subject));
            }
        }
    }
    let sentence = format!("waits for one of {MAX_SLOTS} slots in namespace {namespace}");
    let class = FailureClass::Waiting;
    Err(RunFailure::new(class, Code::DeploymentWaits, sentence))
}

async fn create(
    client: &KubeClient,
    process: &ProcessIdentity,
    attempt: FencedAttempt<'_>,
) -> Result<LockPlace, RunFailure> {
    let name = name_of(attempt.bundle);
    let collection = format!("/api/v1/namespaces/{DELIVERY_NAMESPACE}/secrets");
    let object = object(DELIVERY_NAMESPACE, &name, process, attempt);
    match client.create(&collection, &object).await {
        Ok(secret) => place(DELIVERY_NAMESPACE, &name, &secret),
        Err(KubeError::Status { status: 409, .. }) => {
            let sentence = format!("Secret {DELIVERY_NAMESPACE}/{name} belongs to another run");
            let class = FailureClass::Waiting;
            Err(RunFailure::new(class, Code::RunFenced, sentence))
        }
        Err(error) => {
            let subject = format!("Secret {DELIVERY_NAMESPACE}/{name} cannot be made");
            Err(failure(&error, &subject))
        }
    }
}

fn object(
    namespace: &str,
    name: &str,
    process: &ProcessIdentity,
    attempt: FencedAttempt<'_>,
) -> Value {
    let process = serde_json::to_string(process).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { LOCK_LABEL: attempt.bundle },
            "annotations": {
                PROCESS_ANNOTATION: process,
                "fairlead/run": format!("{}.{}", attempt.run, attempt.attempt),
            },
        },
        "type": LOCK_TYPE,
    })
}

fn place(namespace: &str, name: &str, secret: &Value) -> Result<LockPlace, RunFailure> {
    let uid = secret.pointer("/metadata/uid").and_then(Value::as_str);
    let uid = uid.ok_or_else(|| {
        let sentence = format!("Secret {namespace}/{name} has no UID");
        RunFailure::new(FailureClass::Retry, Code::RunFenced, sentence)
    })?;
    Ok(LockPlace {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    })
}
