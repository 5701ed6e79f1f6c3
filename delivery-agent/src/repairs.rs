//! Last repairs of GitOps tools: a Secret of the agent, so that each agent of the cluster reports the same ones.

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{
    delivery::DriftedObject,
    gitops::{MAX_REPAIRS, REPAIRS_FIELD, REPAIRS_SECRET, Repair},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::{
    fence::DELIVERY_NAMESPACE,
    kube::{KubeClient, KubeError},
};

/// Type of the Secret; the install manifest allows the agent this one.
const SECRET_TYPE: &str = "fairlead/release";
/// Tries against other writers.
const MAX_WRITES: usize = 4;
/// Fields of one repair.
const MAX_FIELDS: usize = 5;

/// Repairs of these objects, now.
pub(crate) fn repairs_of(
    objects: &[DriftedObject],
    reason: &str,
    now: OffsetDateTime,
) -> Vec<Repair> {
    let at = now.replace_nanosecond(0).unwrap_or(now);
    let repair = |object: &DriftedObject| Repair {
        at,
        object: object.object.clone(),
        reason: reason.to_owned(),
        fields: object.fields.iter().take(MAX_FIELDS).cloned().collect(),
        manager: object.manager.clone(),
    };
    objects.iter().map(repair).collect()
}

/// Adds repairs to the Secret; the oldest ones go.
///
/// # Errors
/// The Secret cannot be read or written.
pub(crate) async fn note(client: &KubeClient, repairs: &[Repair]) -> Result<(), KubeError> {
    let collection = format!("/api/v1/namespaces/{DELIVERY_NAMESPACE}/secrets");
    let path = format!("{collection}/{REPAIRS_SECRET}");
    let mut last = Ok(());
    for _ in 0..MAX_WRITES {
        let live = client.get(&path).await?;
        let mut all = live.as_ref().map(read).unwrap_or_default();
        all.extend_from_slice(repairs);
        let surplus = all.len().saturating_sub(MAX_REPAIRS);
        all.drain(..surplus);
        let version = live
            .as_ref()
            .and_then(|it| it.pointer("/metadata/resourceVersion"));
        let secret = secret(&all, version);
        let written = match live {
            None => client.create(&collection, &secret).await,
            Some(_) => client.replace(&path, &secret).await,
        };
        match written {
            Ok(_) => return Ok(()),
            Err(error) if error.status() == Some(409) => last = Err(error),
            Err(error) => return Err(error),
        }
    }
    last
}

/// Repairs in the Secret. Unreadable ones are forgotten.
fn read(secret: &Value) -> Vec<Repair> {
    let text = secret
        .pointer(&format!("/data/{REPAIRS_FIELD}"))
        .and_then(Value::as_str);
    let bytes = text.and_then(|text| STANDARD.decode(text).ok());
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn secret(repairs: &[Repair], version: Option<&Value>) -> Value {
    let json = serde_json::to_vec(repairs).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": REPAIRS_SECRET,
            "namespace": DELIVERY_NAMESPACE,
            "resourceVersion": version,
        },
        "type": SECRET_TYPE,
        "data": { REPAIRS_FIELD: STANDARD.encode(json) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_its_repairs_and_no_more_than_the_limit() {
        let object = DriftedObject {
            object: "Deployment flux-system/source-controller".to_owned(),
            fields: (0..9).map(|it| format!(".spec.f{it}")).collect(),
            manager: Some("kubectl-edit".to_owned()),
        };
        let repairs = repairs_of(&[object], "Repaired", OffsetDateTime::UNIX_EPOCH);
        assert_eq!(repairs[0].fields.len(), MAX_FIELDS);
        let secret = secret(&repairs, None);
        assert_eq!(read(&secret), repairs);
        assert_eq!(read(&json!({"data": {REPAIRS_FIELD: "!"}})), []);
    }
}
