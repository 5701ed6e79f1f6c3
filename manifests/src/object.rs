//! Names of objects and of their kinds.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// API group, version and kind of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind {
    /// API group; `""` for the core group.
    pub group: String,
    /// Version, like `v1`.
    pub version: String,
    /// Kind, like `Deployment`.
    pub kind: String,
}

impl ObjectKind {
    /// Reads `apiVersion` and `kind` of an object.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let api_version = text(object, "/apiVersion")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(object, "/kind")?.to_owned(),
        })
    }

    /// The `apiVersion` in JSON.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            return self.version.clone();
        }
        format!("{}/{}", self.group, self.version)
    }
}

/// Identity of an object in a cluster. All versions of a kind share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// API group; `""` for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; missing for objects of the cluster.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// Reads the identity of an object.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let kind = ObjectKind::of(object)?;
        Some(Self {
            group: kind.group,
            kind: kind.kind,
            namespace: text(object, "/metadata/namespace").map(str::to_owned),
            name: text(object, "/metadata/name")?.to_owned(),
        })
    }

    /// True for a kind of an API group.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// Kind, namespace and name, like `Deployment shop/web`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A non-empty string at a JSON pointer.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object
        .pointer(pointer)?
        .as_str()
        .filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn identity_has_no_version() {
        let key = |version: &str| {
            ObjectKey::of(&json!({
                "apiVersion": format!("apps/{version}"), "kind": "Deployment",
                "metadata": {"namespace": "shop", "name": "web"},
            }))
        };
        assert_eq!(key("v1"), key("v1beta1"));
        assert_eq!(key("v1").unwrap().to_string(), "Deployment shop/web");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        assert_eq!(ObjectKey::of(&node).unwrap().to_string(), "Node n");
        assert_eq!(ObjectKind::of(&node).unwrap().api_version(), "v1");
        assert_eq!(ObjectKey::of(&json!({"kind": "Node"})), None);
    }
}
