//! Documents of tenants, clusters and deliveries in files: the fields that people write, the parser, and the order of requests.

mod ci_values;
mod kind;
mod patch;
pub mod plan;
pub mod removals;

use std::{collections::BTreeSet, fmt};

use fairlead_api::{Code, Failure};
use serde_json::{Map, Value};

pub use kind::DocumentKind;

/// Words of the field `kind` that are options of a bundle, not kinds of documents.
const WAYS_OF_DELIVERY: [&str; 2] = ["manifests", "helm"];

/// Desired state of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Kind of the resource.
    pub kind: DocumentKind,
    /// Id with its prefix.
    pub id: String,
    /// Tenant of the resource; `None` for a tenant.
    pub tenant: Option<String>,
    /// Other fields that people write.
    pub fields: Map<String, Value>,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

impl Document {
    /// Path of the resource in the API.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.kind.collection(), self.id)
    }

    /// Document of a resource as returned by the hub.
    ///
    /// # Errors
    /// [`InvalidDocument`] for a resource with other fields than expected.
    pub fn of(kind: DocumentKind, shown: &Value) -> Result<Self, InvalidDocument> {
        let fields = shown.as_object().cloned().unwrap_or_default();
        read_one(fields, kind)
    }

    /// All fields, as in a file.
    #[must_use]
    pub fn whole(&self) -> Map<String, Value> {
        let mut whole = Map::new();
        whole.insert("id".to_owned(), self.id.as_str().into());
        if let Some(tenant) = &self.tenant {
            whole.insert("tenant".to_owned(), tenant.as_str().into());
        }
        whole.extend(self.fields.clone());
        whole
    }

    /// Tenant that must exist before this resource.
    #[must_use]
    pub fn needs(&self) -> Option<&str> {
        match self.kind {
            DocumentKind::Tenant => self.fields.get("tenantRef").and_then(Value::as_str),
            _ => self.tenant.as_deref(),
        }
    }

    /// Body of a PUT.
    pub(crate) fn body(&self) -> Map<String, Value> {
        let mut whole = self.whole();
        if !self.kind.takes_patch() {
            whole.remove("id");
        }
        whole
    }
}

/// A document that cannot be applied; its text is one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDocument(String);

impl From<InvalidDocument> for Failure {
    fn from(error: InvalidDocument) -> Self {
        Failure::with_cause(Code::Invalid, error.0)
    }
}

fn invalid(detail: impl fmt::Display) -> InvalidDocument {
    InvalidDocument(format!("{}: {detail}", Code::Invalid.title()))
}

/// Parses documents of several files, each given with its name. The kind of a document comes from its `kind`, else from the
/// prefix of its id, else it is `usual`.
///
/// # Errors
/// `FL-4109` with the file, the number of the document and the field.
pub fn read(
    texts: &[(String, String)],
    usual: DocumentKind,
) -> Result<Vec<Document>, InvalidDocument> {
    let mut documents: Vec<Document> = Vec::new();
    for (name, text) in texts {
        let values: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| invalid(format_args!("{name}: {error}")))?;
        for (number, value) in values.into_iter().enumerate() {
            let at = |error: InvalidDocument| {
                InvalidDocument(format!("{name}, document {}: {error}", number + 1))
            };
            for document in read_value(value, usual).map_err(at)? {
                if documents.iter().any(|known| known.id == document.id) {
                    return Err(at(invalid(format_args!("{document} is there twice"))));
                }
                documents.push(document);
            }
        }
    }
    if documents.is_empty() {
        return Err(invalid("there is no document"));
    }
    Ok(in_order(documents))
}

/// Parses one YAML document: a resource, a list of resources like in `list -o yaml`, or nothing.
fn read_value(value: Value, usual: DocumentKind) -> Result<Vec<Document>, InvalidDocument> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            let read = items.into_iter().map(|item| read_value(item, usual));
            Ok(read.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Value::Object(mut fields) => match fields.get("items") {
            Some(Value::Array(_)) if !fields.contains_key("id") => {
                read_value(fields.remove("items").unwrap_or_default(), usual)
            }
            _ => Ok(vec![read_one(fields, usual)?]),
        },
        _ => Err(invalid("expected fields of a resource")),
    }
}

fn read_one(
    mut fields: Map<String, Value>,
    usual: DocumentKind,
) -> Result<Document, InvalidDocument> {
    if fields.contains_key("apiVersion") {
        let detail = "that is an object of Kubernetes; `fairlead import lieutenant` takes those";
        return Err(invalid(detail));
    }
    let said = kind_of(&mut fields)?;
    let id = text(&mut fields, "id")?.ok_or_else(|| invalid("`id` is missing"))?;
    let kind = said.or(DocumentKind::of_id(&id)).unwrap_or(usual);
    let tenant = match kind.has_tenant() {
        false => None,
        true => text(&mut fields, "tenant")?
            .map(|tenant| DocumentKind::Tenant.whole_id(&tenant))
            .transpose()?,
    };
    if let Some(parent) = text(&mut fields, "tenantRef")? {
        let parent = DocumentKind::Tenant.whole_id(&parent)?;
        fields.insert("tenantRef".to_owned(), parent.into());
    }
    fields.retain(|name, _| !kind.managed_fields().contains(&name.as_str()));
    if let Some(Value::Object(repo)) = fields.get_mut("gitRepo") {
        repo.remove("state");
        // The hub returns an empty object for a cluster without a repository.
        if repo.is_empty() {
            fields.remove("gitRepo");
        }
    }
    Ok(Document {
        id: kind.whole_id(&id)?,
        kind,
        tenant,
        fields,
    })
}

/// Takes the kind of a document. A bundle has a field `kind` of its own, which stays.
fn kind_of(fields: &mut Map<String, Value>) -> Result<Option<DocumentKind>, InvalidDocument> {
    let Some(word) = text(fields, "kind")? else {
        return Ok(None);
    };
    if WAYS_OF_DELIVERY.contains(&word.as_str()) {
        fields.insert("kind".to_owned(), word.into());
        return Ok(Some(DocumentKind::Bundle));
    }
    let kind = DocumentKind::of_word(&word).ok_or_else(|| {
        let words = DocumentKind::ALL.map(DocumentKind::word).join(", ");
        invalid(format_args!("kind: expected one of {words}, not {word:?}"))
    })?;
    let is_chart = ["helm", "chart"].iter().any(|it| fields.contains_key(*it));
    if kind == DocumentKind::Bundle && is_chart {
        fields.insert("kind".to_owned(), "helm".into());
    }
    Ok(Some(kind))
}

fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, InvalidDocument> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(format_args!("{name}: expected a string"))),
    }
}

/// Orders documents so that each follows its tenant, and else keeps their order. Documents of a cycle come last; the hub
/// rejects them.
fn in_order(mut left: Vec<Document>) -> Vec<Document> {
    left.sort_by_key(|document| document.kind);
    let mut ordered = Vec::with_capacity(left.len());
    let mut awaited: BTreeSet<String> = left.iter().map(|it| it.id.clone()).collect();
    while !left.is_empty() {
        let (ready, later): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|it| it.needs().is_none_or(|needed| !awaited.contains(needed)));
        if ready.is_empty() {
            ordered.extend(later);
            break;
        }
        for document in &ready {
            awaited.remove(&document.id);
        }
        ordered.extend(ready);
        left = later;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Document>, InvalidDocument> {
        read(
            &[("f.yaml".to_owned(), text.to_owned())],
            DocumentKind::Cluster,
        )
    }

    #[test]
    fn tenants_precede_their_clusters() {
        let documents = of(
            "items:\n- id: edge\n  tenant: child\n---\n---\n{id: t-child, tenantRef: t-parent}\n---\n- id: t-parent\n- {kind: Tenant, id: other}\n",
        );
        let ids: Vec<String> = documents.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(ids, ["t-parent", "t-other", "t-child", "c-edge"]);
    }

    #[test]
    fn printed_resource_is_parsed_to_its_writable_fields() {
        let documents = of(
            "id: c-a\ntenant: t-a\ncreated: 2026-11-22T00:00:00Z\nversion: 3\nstatus: {state: Never}\n\
             dynamicFacts: {a: 1}\ngitRepo: {url: u, state: {phase: unknown}}\n",
        );
        let expected =
            serde_json::json!({ "id": "c-a", "tenant": "t-a", "gitRepo": { "url": "u" } });
        assert_eq!(Value::Object(documents.unwrap()[0].whole()), expected);
        let documents = of("id: t-a\ngitRepo: {state: {phase: unknown}}\n");
        assert_eq!(
            Value::Object(documents.unwrap()[0].whole()),
            serde_json::json!({ "id": "t-a" })
        );
    }

    #[test]
    fn documents_of_delivery_follow_their_tenants_and_keep_the_way_of_delivery() {
        let documents = of(
            "- {id: b-shop, tenant: a, kind: helm, generation: 3, removals: {c-a: 2}, generations: []}\n\
             - {id: shop, kind: Bundle, chart: {version: '1'}}\n\
             - {id: b-web, kind: Bundle, drift: report}\n\
             - {id: g-edge, tenant: t-a, selector: a=b, members: 3}\n\
             - {id: s-platform, tenant: t-a, git: {url: u}, commit: abc, reason: none}\n\
             - {id: t-a}\n",
        );
        // A second document with the id `b-shop` is a mistake.
        assert!(
            documents
                .unwrap_err()
                .to_string()
                .contains("b-shop is there twice")
        );
        let documents = of(
            "- {id: b-shop, tenant: a, kind: helm, generation: 3, removals: {c-a: 2}, generations: []}\n\
             - {id: api, kind: Bundle, chart: {version: '1'}}\n\
             - {id: b-web, kind: Bundle, drift: report}\n\
             - {id: s-platform, tenant: t-a, git: {url: u}, commit: abc, reason: none}\n\
             - {id: g-edge, tenant: t-a, selector: a=b, members: 3}\n\
             - {id: t-a}\n",
        )
        .unwrap();
        let ids: Vec<String> = documents.iter().map(ToString::to_string).collect();
        // Documents without a tenant in the file need no other one.
        assert_eq!(
            ids,
            ["t-a", "b-api", "b-web", "g-edge", "s-platform", "b-shop"]
        );
        let body = |id: &str| {
            let found = documents.iter().find(|it| it.id == id).unwrap();
            Value::Object(found.body())
        };
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(body("b-shop"), json(r#"{"tenant": "t-a", "kind": "helm"}"#));
        assert_eq!(
            body("b-api"),
            json(r#"{"kind": "helm", "chart": {"version": "1"}}"#)
        );
        assert_eq!(body("b-web"), json(r#"{"drift": "report"}"#));
        assert_eq!(
            body("g-edge"),
            json(r#"{"tenant": "t-a", "selector": "a=b"}"#)
        );
        assert_eq!(
            body("s-platform"),
            json(r#"{"tenant": "t-a", "git": {"url": "u"}}"#)
        );
    }

    #[test]
    fn mistake_is_reported_with_file_and_field() {
        for (text, told) in [
            (
                "id: c-a\n---\nname: b\n",
                "f.yaml, document 2: a value is not allowed: `id` is missing",
            ),
            (
                "id: c-a\n---\nid: c-a\n",
                "f.yaml, document 2: a value is not allowed: c-a is there twice",
            ),
            ("id: [a\n", "f.yaml: "),
            ("kind: Pod\nid: a\n", "expected one of Tenant, Cluster"),
            (
                "apiVersion: syn.tools/v1alpha1\nkind: Cluster\n",
                "fairlead import lieutenant",
            ),
            ("id: A_b\n", "id: an id has lower-case letters"),
            ("5\n", "expected fields"),
            ("# nothing\n", "there is no document"),
        ] {
            let failure = Failure::from(of(text).unwrap_err());
            assert_eq!(failure.code, Code::Invalid, "{text}");
            assert!(failure.cause.contains(told), "{text}: {}", failure.cause);
        }
    }
}
