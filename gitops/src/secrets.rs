//! Secrets of a key: that of the tool, and the agent's own with the keys of a running rotation.
//!
//! Public halves are annotations, so that no private key is parsed. A Secret without the agent's label belongs to
//! others, and is never written.

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::gitops::GitOpsTool;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::{
    key::KeyPair,
    request::Desired,
    tool::{KEYRING, Layout},
};

/// Type of the Secrets: an admission policy of the install manifest allows the agent no common ones.
const SECRET_TYPE: &str = "fairlead/gitops";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "fairlead";
const PUBLIC_KEY: &str = "fairlead/public-key";
const ROTATION: &str = "fairlead/rotation";
const NEXT_PUBLIC_KEY: &str = "fairlead/next-public-key";
const NEXT_ROTATION: &str = "fairlead/next-rotation";
/// Reason for which the next key was put aside.
const FAILURE: &str = "fairlead/failure";
/// Annotation that pauses repairs.
pub(crate) const PAUSED: &str = "fairlead/paused";
const KNOWN_HOSTS: &str = "known_hosts";
const PREVIOUS_FIELD: &str = "previous";
const NEXT_FIELD: &str = "next";

/// Key with the number of its rotation.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) public: String,
    pub(crate) rotation: u32,
    /// PEM in base64, as Secrets have it.
    private: SecretString,
}

impl Key {
    pub(crate) fn new(pair: &KeyPair, rotation: u32) -> Self {
        Key {
            public: pair.public.clone(),
            rotation,
            private: STANDARD.encode(pair.private.expose_secret()).into(),
        }
    }
}

/// Secret, if it exists.
#[derive(Debug, Clone)]
pub(crate) enum Found<T> {
    Absent,
    /// Of another owner.
    Foreign,
    Own(T),
}

/// Secret of the tool.
#[derive(Debug, Clone)]
pub(crate) struct ToolSecret {
    version: String,
    pub(crate) key: Key,
    /// Host keys of Flux.
    pub(crate) known_hosts: String,
    /// Repository of Argo CD.
    pub(crate) url: Option<String>,
    /// Time of the last write, by the API server's clock.
    pub(crate) written: Option<String>,
    /// True if an annotation pauses repairs.
    pub(crate) is_paused: bool,
}

/// Secret with the keys of a rotation.
#[derive(Debug, Clone)]
pub(crate) struct Keyring {
    pub(crate) version: String,
    pub(crate) previous: Key,
    pub(crate) next: Key,
    /// Reason for which the next key was put aside.
    pub(crate) failure: Option<String>,
}

impl ToolSecret {
    /// Reads the Secret. One without the label or without a key is of someone else.
    pub(crate) fn read(layout: &Layout, object: Option<&Value>) -> Found<Self> {
        let Some(object) = object else {
            return Found::Absent;
        };
        let secret = || {
            Some(ToolSecret {
                version: owned_version(object)?,
                key: key(object, layout.private_field, PUBLIC_KEY, ROTATION)?,
                known_hosts: decoded(object, KNOWN_HOSTS).unwrap_or_default(),
                url: decoded(object, "url"),
                written: written(object),
                is_paused: annotation(object, PAUSED) == Some("true"),
            })
        };
        secret().map_or(Found::Foreign, Found::Own)
    }

    /// Object with this key. `version`: that of the replaced one.
    pub(crate) fn object(
        layout: &Layout,
        key: &Key,
        desired: &Desired,
        version: Option<&str>,
    ) -> Value {
        let annotations = json!({ PUBLIC_KEY: key.public, ROTATION: key.rotation.to_string() });
        let private = key.private.expose_secret();
        let (data, label) = match layout.tool {
            GitOpsTool::Argocd => (
                json!({
                    layout.private_field: private,
                    "type": STANDARD.encode("git"),
                    "url": STANDARD.encode(&desired.url),
                }),
                Some(("argocd.argoproj.io/secret-type", "repository")),
            ),
            GitOpsTool::Flux | GitOpsTool::None => (
                json!({
                    layout.private_field: private,
                    "identity.pub": STANDARD.encode(format!("{}\n", key.public)),
                    KNOWN_HOSTS: STANDARD.encode(&desired.known_hosts),
                }),
                None,
            ),
        };
        let name = (layout.namespace, layout.secret);
        let mut object = object(name, version, annotations, data);
        if let (Some((label, value)), Some(Value::Object(labels))) =
            (label, object.pointer_mut("/metadata/labels"))
        {
            labels.insert(label.to_owned(), value.into());
        }
        object
    }

    /// Object with another key, other host keys or another repository.
    pub(crate) fn replaced(&self, layout: &Layout, key: &Key, desired: &Desired) -> Value {
        Self::object(layout, key, desired, Some(&self.version))
    }
}

impl Keyring {
    pub(crate) fn read(object: Option<&Value>) -> Found<Self> {
        let Some(object) = object else {
            return Found::Absent;
        };
        let keyring = || {
            Some(Keyring {
                version: owned_version(object)?,
                previous: key(object, PREVIOUS_FIELD, PUBLIC_KEY, ROTATION)?,
                next: key(object, NEXT_FIELD, NEXT_PUBLIC_KEY, NEXT_ROTATION)?,
                failure: annotation(object, FAILURE).map(str::to_owned),
            })
        };
        keyring().map_or(Found::Foreign, Found::Own)
    }

    /// Object of a new keyring.
    pub(crate) fn object(layout: &Layout, previous: &Key, next: &Key) -> Value {
        Self::written(layout, previous, next, None, None)
    }

    /// The same keyring, whose next key was put aside.
    pub(crate) fn failed(&self, layout: &Layout, failure: &str) -> Value {
        let version = Some(self.version.as_str());
        Self::written(layout, &self.previous, &self.next, version, Some(failure))
    }

    fn written(
        layout: &Layout,
        previous: &Key,
        next: &Key,
        version: Option<&str>,
        failure: Option<&str>,
    ) -> Value {
        let mut annotations = Map::new();
        for (name, value) in [
            (PUBLIC_KEY, Some(previous.public.clone())),
            (ROTATION, Some(previous.rotation.to_string())),
            (NEXT_PUBLIC_KEY, Some(next.public.clone())),
            (NEXT_ROTATION, Some(next.rotation.to_string())),
            (FAILURE, failure.map(str::to_owned)),
        ] {
            if let Some(value) = value {
                annotations.insert(name.to_owned(), value.into());
            }
        }
        let data = json!({
            PREVIOUS_FIELD: previous.private.expose_secret(),
            NEXT_FIELD: next.private.expose_secret(),
        });
        object(
            (layout.namespace, KEYRING),
            version,
            annotations.into(),
            data,
        )
    }
}

/// Secret of the agent with other content than keys.
pub(crate) fn owned_secret(name: (&str, &str), data: Value) -> Value {
    object(name, None, json!({}), data)
}

fn object(
    (namespace, name): (&str, &str),
    version: Option<&str>,
    annotations: Value,
    data: Value,
) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { MANAGED_BY: MANAGER },
            "annotations": annotations,
        },
        "data": data,
    });
    if let (Some(version), Some(Value::Object(metadata))) = (version, object.get_mut("metadata")) {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    object
}

/// Version of a Secret with the agent's label.
pub(crate) fn owned_version(object: &Value) -> Option<String> {
    let metadata = object.get("metadata")?;
    let manager = metadata.get("labels")?.get(MANAGED_BY)?.as_str()?;
    let version = metadata.get("resourceVersion")?.as_str()?;
    (manager == MANAGER).then(|| version.to_owned())
}

pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(name)?.as_str()
}

/// Latest time in the managed fields. All have the format of Kubernetes, so texts compare as times do.
fn written(object: &Value) -> Option<String> {
    let fields = object.pointer("/metadata/managedFields")?.as_array()?;
    let times = fields.iter().filter_map(|it| it.get("time")?.as_str());
    times.max().map(str::to_owned)
}

fn key(object: &Value, field: &str, public: &str, rotation: &str) -> Option<Key> {
    let private = object.get("data")?.get(field)?.as_str()?;
    Some(Key {
        public: annotation(object, public)?.to_owned(),
        rotation: annotation(object, rotation)?.parse().ok()?,
        private: private.into(),
    })
}

fn decoded(object: &Value, field: &str) -> Option<String> {
    let text = object.get("data")?.get(field)?.as_str()?;
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}
