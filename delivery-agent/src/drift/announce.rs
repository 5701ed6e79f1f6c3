//! Kubernetes Events about repaired objects of a GitOps tool.

use fairlead_api::hex;
use fairlead_manifests::ObjectKind;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tracing::debug;

use super::{api::ObjectApi, deployment::FollowedObject};

/// Namespace of Events about objects of the cluster, as that of the control plane.
const CLUSTER_NAMESPACE: &str = "default";
/// Longest note of an Event, in characters. The API server accepts 1024 bytes.
const MAX_NOTE_CHARS: usize = 250;
/// Random bytes in the name of an Event.
const NAME_BYTES: usize = 8;

/// Reason of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// A change by others was corrected, or a missing object made again.
    Repaired,
    /// A change that the tool made of itself was taken back.
    RolledBack,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Reason::Repaired => "Repaired",
            Reason::RolledBack => "RolledBack",
        }
    }

    /// Type of the Event.
    const fn level(self) -> &'static str {
        match self {
            Reason::Repaired => "Normal",
            Reason::RolledBack => "Warning",
        }
    }
}

/// Writes the Event of a repaired object. A missing right holds back no repair.
pub(super) async fn announce(
    api: &dyn ObjectApi,
    object: &FollowedObject,
    uid: &str,
    reason: Reason,
    note: &str,
) {
    let key = &object.key;
    let namespace = key.namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let kind = &object.resource.kind;
    let event = event(object, kind, (namespace, uid), reason, note);
    if let Err(error) = api.create(&path, &event).await {
        debug!(object = %key, %error, "event of a repair not written");
    }
}

fn event(
    object: &FollowedObject,
    kind: &ObjectKind,
    (namespace, uid): (&str, &str),
    reason: Reason,
    note: &str,
) -> Value {
    let now = OffsetDateTime::now_utc();
    let seconds = now.replace_nanosecond(0).unwrap_or(now);
    let at = seconds.format(&Rfc3339).unwrap_or_default();
    let mut random = [0; NAME_BYTES];
    // Without random bytes the name may be taken: that Event is lost, and its repair is not.
    let _ = aws_lc_rs::rand::fill(&mut random);
    let note: String = note.chars().take(MAX_NOTE_CHARS).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{}", object.key.name, hex::encode(&random)),
            "namespace": namespace,
        },
        "involvedObject": {
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "namespace": object.key.namespace,
            "name": object.key.name,
            "uid": uid,
        },
        "type": reason.level(),
        "reason": reason.as_str(),
        "message": note,
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": { "component": "fairlead-agent" },
        "reportingComponent": "fairlead-agent",
        "reportingInstance": "",
    })
}
