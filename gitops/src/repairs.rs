//! Repairs: the list that all agents of the cluster share, and the Kubernetes Event of each.

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::gitops::{MAX_REPAIRS, REPAIRS_FIELD, REPAIRS_SECRET, Repair};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tracing::debug;

use crate::{
    kube::{ObjectError, Objects},
    tool::Layout,
};

const SECRETS: &str = "/api/v1/namespaces/fairlead-delivery/secrets";
/// Type of the Secret; the install manifest allows the agent this one.
const SECRET_TYPE: &str = "fairlead/release";
/// Reason of Events, and of repairs in the list.
const REASON: &str = "Repaired";

/// Last repairs, the newest last. Without delivery in the cluster there are none.
pub(crate) async fn read(objects: &Objects) -> Vec<Repair> {
    match objects.get(&format!("{SECRETS}/{REPAIRS_SECRET}")).await {
        Ok(secret) => secret.as_ref().map(repairs_in).unwrap_or_default(),
        Err(error) => {
            debug!(%error, "repairs not read");
            Vec::new()
        }
    }
}

/// Announces that the Secret of the tool was given its host keys back.
pub(crate) async fn announce_hosts(objects: &Objects, layout: &Layout, now: OffsetDateTime) {
    let at = now.replace_nanosecond(0).unwrap_or(now);
    let path = format!("/api/v1/namespaces/{}/events", layout.namespace);
    let event = event(layout, at);
    if let Err(error) = objects.create(&path, &event).await {
        debug!(%error, "event of a repair not written");
    }
    let repair = Repair {
        at,
        object: format!("Secret {}/{}", layout.namespace, layout.secret),
        reason: REASON.to_owned(),
        fields: vec![".data.known_hosts".to_owned()],
        manager: None,
    };
    if let Err(error) = note(objects, repair).await {
        debug!(%error, "repair not listed");
    }
}

async fn note(objects: &Objects, repair: Repair) -> Result<(), ObjectError> {
    let path = format!("{SECRETS}/{REPAIRS_SECRET}");
    let live = objects.get(&path).await?;
    let mut all = live.as_ref().map(repairs_in).unwrap_or_default();
    all.push(repair);
    let surplus = all.len().saturating_sub(MAX_REPAIRS);
    all.drain(..surplus);
    let version = live
        .as_ref()
        .and_then(|it| it.pointer("/metadata/resourceVersion"));
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": REPAIRS_SECRET,
            "namespace": "fairlead-delivery",
            "resourceVersion": version,
        },
        "type": SECRET_TYPE,
        "data": { REPAIRS_FIELD: STANDARD.encode(serde_json::to_vec(&all).unwrap_or_default()) },
    });
    match live {
        None => objects.create(SECRETS, &secret).await,
        Some(_) => objects.replace(&path, &secret).await,
    }
}

fn repairs_in(secret: &Value) -> Vec<Repair> {
    let text = secret
        .pointer(&format!("/data/{REPAIRS_FIELD}"))
        .and_then(Value::as_str);
    let bytes = text.and_then(|text| STANDARD.decode(text).ok());
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn event(layout: &Layout, at: OffsetDateTime) -> Value {
    let time = at.format(&Rfc3339).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.hosts{}", layout.secret, at.unix_timestamp()),
            "namespace": layout.namespace,
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Secret",
            "namespace": layout.namespace,
            "name": layout.secret,
        },
        "type": "Normal",
        "reason": REASON,
        "message": "host keys of the repository were replaced by others, and are as the registry has them",
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": { "component": "fairlead-agent" },
        "reportingComponent": "fairlead-agent",
        "reportingInstance": "",
    })
}
