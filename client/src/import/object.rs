//! One object of Lieutenant, consumed field by field. ObjectFields left over are unsupported and get
//! reported.

use std::{collections::BTreeMap, fmt, mem};

use serde_json::{Map, Value};

const API_GROUP_PREFIX: &str = "syn.tools/";
/// Prefix of kubectl's own annotations, such as the last applied configuration.
const KUBECTL_PREFIX: &str = "kubectl.kubernetes.io/";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectKind {
    Tenant,
    TenantTemplate,
    Cluster,
    GitRepo,
}

#[derive(Debug, Clone)]
pub(super) struct LieutenantObject {
    pub(super) kind: ObjectKind,
    pub(super) name: String,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) spec: ObjectFields,
    pub(super) status: ObjectFields,
}

impl fmt::Display for LieutenantObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

impl LieutenantObject {
    /// Reads a Kubernetes object.
    ///
    /// # Errors
    /// One line with the reason why it is none of Lieutenant's kinds.
    pub(super) fn read(object: Value) -> Result<Self, String> {
        let text = |at: &str| {
            object
                .pointer(at)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let name = text("/metadata/name").unwrap_or_default();
        let version = text("/apiVersion").unwrap_or_default();
        let kind = text("/kind").unwrap_or_default();
        let label = format!("{kind} {name}");
        let recognised = match (version.starts_with(API_GROUP_PREFIX), kind.as_str()) {
            (true, "Tenant") => ObjectKind::Tenant,
            (true, "TenantTemplate") => ObjectKind::TenantTemplate,
            (true, "Cluster") => ObjectKind::Cluster,
            (true, "GitRepo") => ObjectKind::GitRepo,
            _ => return Err(format!("{label}: not a resource of Lieutenant ({version})")),
        };
        if name.is_empty() {
            return Err(format!("{label}: no name"));
        }
        let Value::Object(mut fields) = object else {
            return Err(format!("{label}: not an object"));
        };
        let metadata = ObjectFields::of(fields.remove("metadata"));
        let annotations = ObjectFields::of(metadata.get("annotations").cloned()).into_texts();
        let annotations = annotations
            .into_iter()
            .filter(|(name, _)| !name.starts_with(KUBECTL_PREFIX));
        Ok(LieutenantObject {
            kind: recognised,
            name,
            annotations: annotations.collect(),
            spec: ObjectFields::of(fields.remove("spec")),
            status: ObjectFields::of(fields.remove("status")),
        })
    }

    /// Reports each field that was not consumed.
    pub(super) fn report_rest(&mut self, notes: &mut Vec<String>) {
        for (of, fields) in [("spec", &mut self.spec), ("status", &mut self.status)] {
            for name in mem::take(fields).rest() {
                notes.push(format!(
                    "{:?} {}: {of}.{name} is not supported",
                    self.kind, self.name
                ));
            }
        }
    }
}

/// ObjectFields of an object, each consumed once. Empty strings, objects and lists count as missing, as
/// Go omits them.
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectFields(Map<String, Value>);

impl ObjectFields {
    pub(super) fn of(value: Option<Value>) -> Self {
        let mut fields = match value {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        fields.retain(|_, value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Object(inner) => !inner.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Bool(_) | Value::Number(_) => true,
        });
        ObjectFields(fields)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                self.0.insert(name.to_owned(), other);
                None
            }
            None => None,
        }
    }

    pub(super) fn boolean(&mut self, name: &str) -> bool {
        matches!(self.0.remove(name), Some(Value::Bool(true)))
    }

    pub(super) fn object(&mut self, name: &str) -> ObjectFields {
        ObjectFields::of(self.0.remove(name))
    }

    /// All fields as strings; other types are written as JSON.
    pub(super) fn into_texts(self) -> BTreeMap<String, String> {
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        self.0
            .into_iter()
            .map(|(name, value)| (name, text(value)))
            .collect()
    }

    pub(super) fn into_inner(self) -> Map<String, Value> {
        self.0
    }

    /// Fills missing fields from `other`, nested objects field by field.
    pub(super) fn fill(&mut self, other: &Map<String, Value>) {
        fill(&mut self.0, other);
    }

    fn rest(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(name, _)| name)
    }
}

fn fill(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (None, value) => {
                into.insert(name.clone(), value.clone());
            }
            (Some(Value::Object(into)), Value::Object(from)) => fill(into, from),
            (Some(_), _) => {}
        }
    }
}

/// A document without nulls and empty objects.
pub(super) fn document<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().filter(|(_, value)| match value {
        Value::Null => false,
        Value::Object(inner) => !inner.is_empty(),
        _ => true,
    });
    Value::Object(
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}
