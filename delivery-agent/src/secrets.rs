//! Secrets of the cluster as inputs of deliveries: read with the token of the run, never sent to the hub.
//!
//! RBAC of the bundle's ServiceAccount is the list of allowed Secrets. Values go into Helm values, or into variables of
//! objects of kind `Secret`. Nothing here prints a value: [`SecretInputs::masker`] removes them from texts of others.

mod changes;
mod reader;
mod variables;

use std::{collections::BTreeMap, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{Code, Failure, delivery::SecretInput};
use fairlead_masking::{MAX_VALUES_BYTES, Masker};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde_json::{Value, json};

pub use changes::{SecretChange, SecretChanges};
pub use reader::ClusterSecrets;
pub use variables::{ReplaceError, replace_variables};

use crate::{drift::ObjectApi, kube::KubeError};

/// Failure without a consequence for the journal: the deployment waits, or a person must act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretError {
    /// The deployment is `Waiting`: the cluster lacks something.
    Waiting(Failure),
    /// The content of bundle or Secret must change.
    Permanent(Failure),
    /// The API server does not answer.
    Unavailable(KubeUnavailable),
}

/// Answer that says nothing about the Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeUnavailable(pub String);

/// Namespace and name of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl SecretName {
    /// Secret of an input; `namespace` is that of the bundle.
    #[must_use]
    pub fn of(input: &SecretInput, namespace: &str) -> Self {
        let namespace = input.namespace.as_deref().unwrap_or(namespace);
        Self {
            namespace: namespace.to_owned(),
            name: input.name.clone(),
        }
    }

    /// Path at the API server.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { namespace, name } = self;
        format!("/api/v1/namespaces/{namespace}/secrets/{name}")
    }
}

/// Like `Secret shop/db`.
impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

/// UID and version of a Secret: another one means other values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretVersion {
    /// UID.
    pub uid: String,
    /// `resourceVersion`.
    pub resource_version: String,
}

impl SecretVersion {
    /// Version of a Secret, from its metadata.
    #[must_use]
    pub fn of(secret: &Value) -> Option<Self> {
        let text = |pointer: &str| secret.pointer(pointer).and_then(Value::as_str);
        Some(Self {
            uid: text("/metadata/uid")?.to_owned(),
            resource_version: text("/metadata/resourceVersion")?.to_owned(),
        })
    }
}

/// Values of Secrets, by destination.
pub struct SecretInputs {
    values: Vec<InputValue>,
}

/// One value.
struct InputValue {
    destination: String,
    /// Key and Secret, for people.
    place: String,
    value: SecretSlice<u8>,
}

/// Versions of read Secrets; `None` for a missing one.
pub type SecretVersions = BTreeMap<SecretName, Option<SecretVersion>>;

/// Destinations without values.
impl fmt::Debug for SecretInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let destinations = self.values.iter().map(|it| &it.destination);
        f.debug_list().entries(destinations).finish()
    }
}

impl SecretInputs {
    /// Reads all inputs, each Secret once. `namespace` is that of the bundle, `user` that of the token. `versions` gets each
    /// Secret that was read or is missing, also before an error.
    ///
    /// # Errors
    /// [`SecretError`] of the first input that cannot be read.
    pub async fn read(
        api: &dyn ObjectApi,
        inputs: &[SecretInput],
        namespace: &str,
        user: &str,
        versions: &mut SecretVersions,
    ) -> Result<Self, SecretError> {
        let mut secrets = BTreeMap::<SecretName, Value>::new();
        let mut values = Vec::with_capacity(inputs.len());
        let mut size = 0;
        for input in inputs {
            let name = SecretName::of(input, namespace);
            if !secrets.contains_key(&name) {
                let secret = read(api, &name, user).await?;
                let version = secret.as_ref().and_then(SecretVersion::of);
                versions.insert(name.clone(), version);
                let missing = || waiting(Code::SecretMissing, format!("{name} does not exist"));
                secrets.insert(name.clone(), secret.ok_or_else(missing)?);
            }
            let value = secrets.get(&name).and_then(|it| it.pointer("/data"));
            let value = value.and_then(|it| it.get(&input.key)?.as_str());
            let value = value.and_then(|it| STANDARD.decode(it).ok());
            let Some(value) = value else {
                let cause = format!("{name} has no key {}", input.key);
                return Err(waiting(Code::SecretMissing, cause));
            };
            size += value.len();
            values.push(InputValue {
                destination: input.destination.clone(),
                place: format!("key {} of {name}", input.key),
                value: SecretSlice::from(value),
            });
        }
        if size > MAX_VALUES_BYTES {
            let names: Vec<_> = secrets.keys().map(ToString::to_string).collect();
            let names = names.join(", ");
            let cause = format!(
                "values of {names} take {size} bytes; at most {MAX_VALUES_BYTES} can be used"
            );
            return Err(permanent(Code::SecretUnusable, cause));
        }
        Ok(Self { values })
    }

    /// Masker of all values.
    ///
    /// # Errors
    /// [`SecretError::Permanent`] for values that cannot be masked.
    pub fn masker(&self) -> Result<Masker, SecretError> {
        let values = self.values.iter().map(|it| it.value.expose_secret());
        Masker::new(values).map_err(|error| permanent(Code::SecretUnusable, error.to_string()))
    }

    /// Values of variables by the name after `vars.`, byte for byte.
    pub fn vars(&self) -> impl Iterator<Item = (&str, SecretSlice<u8>)> {
        let inputs = self.values.iter();
        inputs.filter_map(|it| Some((it.destination.strip_prefix("vars.")?, it.value.clone())))
    }

    /// Values of Helm by the path after `values.`. Helm knows texts only.
    ///
    /// # Errors
    /// [`SecretError::Permanent`] for a value that is no UTF-8.
    pub fn texts(&self) -> Result<Vec<(&str, SecretString)>, SecretError> {
        let mut texts = Vec::new();
        for input in &self.values {
            let Some(path) = input.destination.strip_prefix("values.") else {
                continue;
            };
            let text = std::str::from_utf8(input.value.expose_secret()).map_err(|_| {
                let InputValue {
                    destination, place, ..
                } = input;
                let cause = format!(
                    "{place} is no UTF-8 text, as {destination} needs it; keep base64 of it in the Secret"
                );
                permanent(Code::SecretUnusable, cause)
            })?;
            texts.push((path, SecretString::from(text)));
        }
        Ok(texts)
    }
}

async fn read(
    api: &dyn ObjectApi,
    name: &SecretName,
    user: &str,
) -> Result<Option<Value>, SecretError> {
    match api.get(&name.path()).await {
        Ok(secret) => Ok(secret),
        Err(KubeError::Status { status: 403, .. }) => Err(forbidden(name, user)),
        Err(error) => Err(SecretError::Unavailable(KubeUnavailable(error.to_string()))),
    }
}

fn forbidden(name: &SecretName, user: &str) -> SecretError {
    let rule = json!({
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": [name.name], "verbs": ["get", "list", "watch"],
    });
    let cause = format!(
        "{name} may not be read by {user}; add to a Role in namespace {}: {rule}",
        name.namespace
    );
    waiting(Code::SecretForbidden, cause)
}

fn waiting(code: Code, cause: String) -> SecretError {
    SecretError::Waiting(Failure::with_cause(code, cause))
}

fn permanent(code: Code, cause: String) -> SecretError {
    SecretError::Permanent(Failure::with_cause(code, cause))
}

#[cfg(test)]
mod tests;
