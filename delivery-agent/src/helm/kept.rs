//! Ignored fields in an upgrade: their live values go into the manifests that Helm renders, so that no field is ever reset.
//!
//! The agent reads the values before the upgrade and sends them to the runner as a file. Helm starts the runner's own
//! program as its post-renderer (Helm 4 knows them as plugins), which puts the values in before anything is applied.
//! The file is in memory, as that of the values: it may hold fields of Secrets.

use std::collections::BTreeMap;

use fairlead_api::Code;
use fairlead_manifests::{
    ObjectKey,
    drift::{LiveField, ignored_pointers, live_fields},
    yaml,
};
use fairlead_runner::{RunFile, release::Record};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::release::Release;
use crate::{
    drift::{DeliveryOwner, ignored_of},
    engine::{AppliedObject, FailureClass, RunFailure},
};

/// File with the values in the work folder of a run.
const KEPT_PATH: &str = "kept.json";
/// Objects read at the same time.
const CONCURRENT_READS: usize = 8;
/// Separator of documents in the stream of a post-renderer.
const SEPARATOR: &str = "---";

/// Live values that an upgrade keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KeptFields {
    /// Namespace of the release, which objects without one get.
    namespace: String,
    objects: Vec<KeptObject>,
}

/// Live values of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KeptObject {
    key: ObjectKey,
    fields: Vec<LiveField>,
}

impl Release<'_> {
    /// File with the live values of ignored fields; none without such fields. `newest`: record of the newest revision.
    /// `rendered`: objects of the next one, if they are known, because an upgrade may take over objects that were never in
    /// the release.
    pub(crate) async fn kept_fields(
        &self,
        newest: Option<&Record>,
        rendered: Vec<AppliedObject>,
    ) -> Result<Option<RunFile>, RunFailure> {
        let state = self.run.journal.state().await;
        let noted = state
            .content
            .objects
            .iter()
            .filter_map(|it| it.to_applied());
        let recorded = self.recorded_objects(newest).await?;
        let all = noted.chain(recorded).chain(rendered);
        let objects: BTreeMap<_, _> = all.map(|object| (object.key.clone(), object)).collect();
        let rules = &self.run.spec.ignore;
        // An autoscaler may have taken the replicas over.
        let may_keep = |object: &AppliedObject| {
            object.manifest.pointer("/spec/replicas").is_some()
                || !ignored_pointers(rules, &object.key, None, false).is_empty()
        };
        let mut reads = Vec::new();
        for object in objects.values().filter(|it| may_keep(it)) {
            reads.push(self.kept_object(object));
        }
        let mut reads = stream::iter(reads).buffered(CONCURRENT_READS);
        let mut kept = Vec::new();
        while let Some(object) = reads.next().await {
            kept.extend(object?);
        }
        if kept.is_empty() {
            return Ok(None);
        }
        self.log_kept(&kept);
        let fields = KeptFields {
            namespace: self.target.namespace.as_str().to_owned(),
            objects: kept,
        };
        let internal =
            |error: String| RunFailure::new(FailureClass::Permanent, Code::Internal, error);
        let content = serde_json::to_vec(&fields).map_err(|error| internal(error.to_string()))?;
        let path = KEPT_PATH.parse();
        Ok(Some(RunFile {
            path: path.map_err(|error| internal(format!("{error}")))?,
            content: content.into(),
        }))
    }

    /// Objects of the newest revision. A manifest that cannot be read must not hold back its successor.
    async fn recorded_objects(
        &self,
        newest: Option<&Record>,
    ) -> Result<Vec<AppliedObject>, RunFailure> {
        let Some(record) = newest else {
            return Ok(Vec::new());
        };
        match self.objects(record.manifest()).await {
            Err(failure) if failure.class == FailureClass::Permanent => {
                let line = format!("ignored fields are not known: {}", failure.sentence);
                self.run.log.line(&line);
                Ok(Vec::new())
            }
            objects => objects,
        }
    }

    /// Live values of one object. None if it is gone, or has no ignored fields.
    async fn kept_object(&self, object: &AppliedObject) -> Result<Option<KeptObject>, RunFailure> {
        let kube = &self.run.kube;
        let of_kube = |error| self.records().failure(&error);
        let resource = self.run.discovery.resource(&object.kind).await;
        let Some(resource) = resource.map_err(of_kube)? else {
            return Ok(None);
        };
        let live = kube.get(&resource.object_path(&object.key)).await;
        let Some(live) = live.map_err(of_kube)? else {
            return Ok(None);
        };
        let pointers = ignored_of(kube, &self.run.spec.ignore, &object.key, &live).await;
        let owner = DeliveryOwner::Helm.of_live(&live);
        let fields = live_fields(&live, &pointers, &owner);
        let key = object.key.clone();
        Ok((!fields.is_empty()).then_some(KeptObject { key, fields }))
    }

    fn log_kept(&self, kept: &[KeptObject]) {
        for KeptObject { key, fields } in kept {
            let pointers: Vec<_> = fields.iter().map(|it| it.pointer.as_str()).collect();
            let line = format!("{key} keeps its live value of {}", pointers.join(", "));
            self.run.log.line(&line);
        }
    }
}

/// Puts kept values into a stream of rendered manifests: the work of Helm's post-renderer.
///
/// Documents of other objects stay as they are, letter by letter.
///
/// # Errors
/// The file with the values is damaged.
pub fn post_render(manifests: &str, kept: &[u8]) -> Result<String, String> {
    let kept: KeptFields = serde_json::from_slice(kept)
        .map_err(|error| format!("the file with kept fields is damaged: {error}"))?;
    let mut rendered = String::with_capacity(manifests.len());
    for document in documents(manifests) {
        rendered.push_str(SEPARATOR);
        rendered.push('\n');
        match kept.changed(&document) {
            Some(object) => rendered.push_str(&format!("{object}\n")),
            None => rendered.push_str(&document),
        }
    }
    Ok(rendered)
}

impl KeptFields {
    /// Object of a document with its kept values; none if it has none.
    fn changed(&self, document: &str) -> Option<Value> {
        // Helm reports a document that cannot be read.
        let mut values = yaml::values("manifest", document.as_bytes()).ok()?;
        let (mut object, _) = values.pop().filter(|_| values.is_empty())?;
        let key = ObjectKey::of(&object)?;
        let kept = self.objects.iter().find(|it| self.is_same(&it.key, &key))?;
        kept.fields.iter().for_each(|it| it.keep_in(&mut object));
        Some(object)
    }

    /// True if a rendered object is the live one. Charts may leave the namespace out, and may set one where there is none.
    fn is_same(&self, live: &ObjectKey, rendered: &ObjectKey) -> bool {
        let given = rendered.namespace.as_deref().filter(|it| !it.is_empty());
        let has_namespace = |it: &str| it == given.unwrap_or(&self.namespace);
        rendered.is(&live.group, &live.kind)
            && rendered.name == live.name
            && live.namespace.as_deref().is_none_or(has_namespace)
    }
}

/// Documents between separators. Helm writes the stream, so that a separator is a line of its own.
fn documents(manifests: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in manifests.lines() {
        match documents.last_mut() {
            Some(document) if line.trim_end() != SEPARATOR => {
                document.push_str(line);
                document.push('\n');
            }
            _ => documents.push(String::new()),
        }
    }
    documents.retain(|it| !it.trim().is_empty());
    documents
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANIFESTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, paused: true}
---
# Not ours, and with an odd form.
apiVersion: v1
kind:   ConfigMap
metadata: {name: web}
data: {text: \"a: ${HOME}\", mode: 0644}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: other}
spec: {replicas: 2}
";

    fn kept() -> Vec<u8> {
        let key =
            json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web"});
        let fields = json!([
            {"pointer": "/spec/replicas", "value": 5, "isOwn": false},
            {"pointer": "/spec/paused", "value": null, "isOwn": false},
            {"pointer": "/spec/minReadySeconds", "value": 9, "isOwn": true},
            {"pointer": "/spec/revisionHistoryLimit", "value": 10, "isOwn": false},
        ]);
        let kept = json!({"namespace": "shop", "objects": [{"key": key, "fields": fields}]});
        kept.to_string().into_bytes()
    }

    #[test]
    fn rendered_object_gets_its_live_values_and_others_stay() {
        let rendered = post_render(MANIFESTS, &kept()).unwrap();
        let documents = documents(&rendered);
        let web: Value = serde_json::from_str(&documents[0]).unwrap();
        assert_eq!(web["spec"], json!({"replicas": 5, "minReadySeconds": 9}));
        let before = super::documents(MANIFESTS);
        assert_eq!(documents[1..], before[1..]);
    }

    #[test]
    fn damaged_file_of_kept_fields_is_refused() {
        let error = post_render(MANIFESTS, b"{}").unwrap_err();
        assert!(error.contains("kept fields is damaged"), "{error}");
    }
}
