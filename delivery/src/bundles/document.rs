//! Document of a bundle, as people send it.

use fairlead_api::{
    SourceId, TenantId,
    delivery::{ArtifactId, BundleFields, BundleKind},
};
use fairlead_bundle::fields::parse_json;
use fairlead_routes::{InvalidValue, invalid};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Content of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Uploaded.
    Artifact(ArtifactId),
    /// A folder of a source.
    Source(SourceId, String),
}

/// A read document.
#[derive(Debug, Clone)]
pub(super) struct BundleDocument {
    pub(super) tenant: TenantId,
    pub(super) content: Content,
    /// `None`: as before.
    pub(super) suspended: Option<bool>,
    pub(super) fields: BundleFields,
    names_kind: bool,
}

impl BundleDocument {
    /// Reads a document.
    ///
    /// # Errors
    /// `FL-4109` for unknown fields, `null`, and wrong types.
    pub(super) fn read(document: Value) -> Result<Self, InvalidValue> {
        let Value::Object(mut given) = document else {
            return Err(invalid("a bundle is an object"));
        };
        let tenant = field(&mut given, "tenant")?;
        let tenant = tenant.ok_or_else(|| invalid("tenant: the field is required"))?;
        let artifact = field(&mut given, "artifact")?;
        let source = field(&mut given, "source")?;
        let path: Option<String> = field(&mut given, "path")?;
        let content = match (artifact, source, path) {
            (Some(artifact), None, None) => Content::Artifact(artifact),
            (None, Some(source), Some(path)) => Content::Source(source, path),
            _ => {
                let cause = "either artifact, or source and path, are required";
                return Err(invalid(cause));
            }
        };
        let suspended = field(&mut given, "suspended")?;
        let names_kind = given.contains_key("kind");
        Ok(BundleDocument {
            tenant,
            content,
            suspended,
            fields: parse_json(given, false).map_err(invalid)?,
            names_kind,
        })
    }

    /// The options for a folder: a chart, unless the document names another kind.
    pub(super) fn fields_for(&self, has_chart: bool) -> BundleFields {
        let mut fields = self.fields.clone();
        if has_chart && !self.names_kind {
            fields.kind = BundleKind::Helm;
        }
        fields
    }
}

/// Takes a field out of a document.
fn field<T: DeserializeOwned>(
    given: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, InvalidValue> {
    let value = given.remove(name);
    let value = value.map(serde_json::from_value).transpose();
    value.map_err(|error| invalid(format_args!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_either_an_artifact_or_a_folder_of_a_source() {
        let artifact = ArtifactId::of_sha256(&[1; 32]);
        let uploaded = json!({"tenant": "t-a", "artifact": artifact, "vars": {"a": 1}});
        let read = BundleDocument::read(uploaded).unwrap();
        assert_eq!(read.content, Content::Artifact(artifact.clone()));
        assert_eq!(read.suspended, None);
        assert_eq!(read.fields_for(true).kind, BundleKind::Helm);
        let of_source =
            json!({"tenant": "t-a", "source": "s-a", "path": "shop", "kind": "manifests"});
        let read = BundleDocument::read(of_source).unwrap();
        assert_eq!(read.fields_for(true).kind, BundleKind::Manifests);
        for (bad, word) in [
            (json!([]), "object"),
            (json!({"artifact": artifact}), "tenant"),
            (json!({"tenant": "t-a"}), "artifact"),
            (json!({"tenant": "t-a", "source": "s-a"}), "path"),
            (json!({"tenant": "t-a", "artifact": "sha256:1"}), "artifact"),
            (
                json!({"tenant": "t-a", "artifact": artifact, "path": "x"}),
                "either",
            ),
            (
                json!({"tenant": "t-a", "artifact": artifact, "suspended": null}),
                "suspended",
            ),
            (
                json!({"tenant": "t-a", "artifact": artifact, "id": "b-x"}),
                "id",
            ),
            (
                json!({"tenant": "t-a", "artifact": artifact, "helm": null}),
                "helm",
            ),
        ] {
            let error = BundleDocument::read(bad.clone()).unwrap_err().to_string();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
