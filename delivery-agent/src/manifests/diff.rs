//! Differences between a spec and the cluster, by dry runs. Values of Secrets are hidden.

use fairlead_api::delivery::{FieldDiff, IgnoreRule, ObjectChange, ObjectDiff, RunDiff};
use fairlead_manifests::{
    GENERATION_ANNOTATION, Inventory, ObjectKey, Prepared,
    drift::{FieldDifference, FieldOwner, WalkRules, differences, fields_of},
    foreign_owner, hide_secret_values,
};
use serde_json::Value;

use super::apply;
use crate::{
    drift::{ObjectApi, keep_ignored},
    engine::{RunContext, RunFailure},
    kube::ApiResource,
};

/// Changed objects with their fields in one answer.
const MAX_OBJECTS: usize = 200;
/// Changed fields of one object in an answer.
const MAX_FIELDS: usize = 20;
/// Longest value in an answer, in bytes of JSON.
const MAX_VALUE_BYTES: usize = 256;

/// Writer of the objects of a diff.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiffWriter<'a> {
    /// Field manager.
    pub(crate) manager: &'a str,
    /// Fields that keep their live values.
    pub(crate) ignore: &'a [IgnoreRule],
    /// True: objects of others are not written.
    pub(crate) is_exclusive: bool,
    /// True: objects that are not in the content any more are deleted.
    pub(crate) prunes: bool,
}

/// Compares objects with the cluster.
pub(crate) async fn diff(
    run: &RunContext,
    prepared: &[Prepared],
    writer: &DiffWriter<'_>,
) -> Result<RunDiff, RunFailure> {
    let mut diff = RunDiff::default();
    for object in prepared {
        run.cancel.check()?;
        match of_object(run, object, writer).await? {
            None => diff.unchanged += 1,
            Some(change) => push(run, &mut diff, change),
        }
    }
    let old = run.journal.state().await.inventory;
    let new: Inventory = prepared.iter().map(super::entry).collect();
    for entry in old.iter().filter(|it| new.get(&it.key).is_none()) {
        if writer.prunes {
            push(run, &mut diff, changed(&entry.key, ObjectChange::Delete));
        }
    }
    Ok(diff)
}

fn push(run: &RunContext, diff: &mut RunDiff, change: ObjectDiff) {
    lines(&change).iter().for_each(|line| run.log.line(line));
    if diff.objects.len() < MAX_OBJECTS {
        diff.objects.push(change);
    } else {
        diff.omitted += 1;
    }
}

/// Lines of a change in the log of the run.
fn lines(change: &ObjectDiff) -> Vec<String> {
    let sign = match change.change {
        ObjectChange::Create => '+',
        ObjectChange::Update => '~',
        ObjectChange::Delete => '-',
    };
    let mut lines = vec![format!("{sign} {}", change.object)];
    for field in &change.fields {
        let show = |value: &Option<Value>| value.as_ref().map(ToString::to_string);
        let (from, to) = (show(&field.from), show(&field.to));
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        lines.push(format!("    {}: {from} -> {to}", field.path));
    }
    lines.extend(
        change
            .error
            .iter()
            .map(|error| format!("    error: {error}")),
    );
    lines
}

fn changed(key: &ObjectKey, change: ObjectChange) -> ObjectDiff {
    ObjectDiff {
        object: key.to_string(),
        change,
        fields: Vec::new(),
        error: None,
    }
}

async fn of_object(
    run: &RunContext,
    object: &Prepared,
    writer: &DiffWriter<'_>,
) -> Result<Option<ObjectDiff>, RunFailure> {
    let resource = run.discovery.resource(&object.kind).await;
    let resource = resource.map_err(|error| RunFailure::of_kube(&error))?;
    let create = || Ok(Some(changed(&object.key, ObjectChange::Create)));
    let Some(resource) = resource else {
        return create();
    };
    let path = resource.object_path(&object.key);
    let live = run.kube.get(&path).await;
    let Some(live) = live.map_err(|error| RunFailure::of_kube(&error))? else {
        return create();
    };
    let mut change = changed(&object.key, ObjectChange::Update);
    if let Some(owner) = foreign_owner(&live, run.bundle().as_str())
        && writer.is_exclusive
    {
        change.error = Some(format!("{} belongs to {owner}", object.key));
        return Ok(Some(change));
    }
    let manifest = desired(&run.kube, object, &live, writer).await;
    match dry_run(run, object, &resource, &manifest, writer.manager).await? {
        Err(error) => change.error = Some(error),
        Ok(dry) => {
            let owner = FieldOwner::apply(writer.manager);
            change.fields = fields(live, dry, &owner, &|text| run.log.mask(text));
            if change.fields.is_empty() {
                return Ok(None);
            }
        }
    }
    Ok(Some(change))
}

/// The object as a sync would apply it over a live one.
async fn desired(
    api: &dyn ObjectApi,
    object: &Prepared,
    live: &Value,
    writer: &DiffWriter<'_>,
) -> Value {
    let mut manifest = object.object.clone();
    let owner = FieldOwner::apply(writer.manager);
    keep_ignored(api, writer.ignore, &mut manifest, live, &owner).await;
    manifest
}

/// The object after an apply, or the sentence of its refusal.
async fn dry_run(
    run: &RunContext,
    object: &Prepared,
    resource: &ApiResource,
    manifest: &Value,
    manager: &str,
) -> Result<Result<Value, String>, RunFailure> {
    let force = run.spec.conflicts == fairlead_api::delivery::ConflictPolicy::Force;
    let dry = run
        .kube
        .apply(
            &resource.object_path(&object.key),
            manager,
            force,
            true,
            manifest,
        )
        .await;
    match dry {
        Ok(dry) => Ok(Ok(dry)),
        Err(error) => {
            let failure = apply::refusal(run, object, resource, "patch", &error)?;
            Ok(Err(run.log.mask(&failure.sentence)))
        }
    }
}

/// Changed fields of an object after a dry run of `owner`; those that change with each write are left out.
fn fields(
    mut live: Value,
    mut dry: Value,
    owner: &FieldOwner,
    mask: &dyn Fn(&str) -> String,
) -> Vec<FieldDiff> {
    let own = owner.entry(&dry).map(|it| fields_of(it.fields));
    let own = own.unwrap_or_default();
    hide_secret_values(Some(&mut live), Some(&mut dry));
    for object in [&mut live, &mut dry] {
        strip(object);
    }
    // A person looks for the part that changes, also in a field that the API server replaces as a whole.
    let rules = WalkRules {
        own: &own,
        opens_atomic: true,
        ignored: &[],
    };
    let found = differences(&live, &dry, rules);
    let show = |value: Option<&Value>| {
        let mut value = short(value?);
        mask_value(&mut value, mask);
        Some(value)
    };
    let field = |found: FieldDifference<'_>| FieldDiff {
        path: mask(&found.path.to_string()),
        from: show(found.from),
        to: show(found.to),
    };
    found.into_iter().take(MAX_FIELDS).map(field).collect()
}

/// Masks values of Secrets, which a chart may put anywhere: the hub must never get them.
fn mask_value(value: &mut Value, mask: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = mask(text),
        Value::Array(items) => items.iter_mut().for_each(|it| mask_value(it, mask)),
        Value::Object(map) => {
            let entries = std::mem::take(map).into_iter();
            *map = entries
                .map(|(key, mut value)| {
                    mask_value(&mut value, mask);
                    (mask(&key), value)
                })
                .collect();
        }
        Value::Number(_) => {
            // A port or a PIN is a secret value, too.
            let text = value.to_string();
            let masked = mask(&text);
            if masked != text {
                *value = Value::from(masked);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Leaves out the annotation that changes with each generation.
fn strip(object: &mut Value) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return;
    };
    annotations.remove(GENERATION_ANNOTATION);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The value, or a note about its length.
fn short(value: &Value) -> Value {
    let length = value.to_string().len();
    if length <= MAX_VALUE_BYTES {
        return value.clone();
    }
    Value::from(format!("({length} bytes)"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner() -> FieldOwner {
        FieldOwner::apply("fairlead/b-shop")
    }

    #[test]
    fn changed_fields_are_named_and_values_of_secrets_are_not() {
        let live = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "b2xk"}, "type": "Opaque"});
        let mut dry = live.clone();
        dry["data"]["k"] = json!("bmV3");
        dry["metadata"]["resourceVersion"] = json!("2");
        let fields = fields(live, dry, &owner(), &str::to_owned);
        assert_eq!(fields.len(), 1);
        assert_eq!(fields[0].path, ".data.k");
        let text = serde_json::to_string(&fields).unwrap();
        assert!(!text.contains("b2xk") && !text.contains("bmV3"), "{text}");
    }

    #[test]
    fn log_has_the_refusal_of_an_object() {
        let change = ObjectDiff {
            object: "ConfigMap shop/a".to_owned(),
            change: ObjectChange::Update,
            fields: Vec::new(),
            error: Some("ConfigMap shop/a belongs to bundle b-other".to_owned()),
        };
        assert_eq!(
            lines(&change),
            [
                "~ ConfigMap shop/a",
                "    error: ConfigMap shop/a belongs to bundle b-other"
            ]
        );
    }

    #[test]
    fn items_of_lists_are_compared_one_by_one() {
        let live = json!({"spec": {"ports": [{"port": 80}], "old": 1}});
        let dry = json!({"spec": {"ports": [{"port": 81}]}});
        let paths: Vec<_> = fields(live, dry, &owner(), &str::to_owned)
            .into_iter()
            .map(|it| it.path)
            .collect();
        assert_eq!(paths, [".spec.old", ".spec.ports[0].port"]);
    }

    #[test]
    fn items_with_keys_are_named_by_them() {
        let with = |ports: Value| json!({"metadata": {"name": "a"}, "spec": {"ports": ports}});
        let live = with(json!([{"port": 80, "name": "a"}]));
        let mut dry = with(json!([{"port": 79, "name": "b"}, {"port": 80, "name": "web"}]));
        dry["metadata"]["managedFields"] = json!([{
            "manager": "fairlead/b-shop", "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:name": {}}}}},
        }]);
        let paths: Vec<_> = fields(live, dry, &owner(), &str::to_owned)
            .into_iter()
            .map(|it| it.path)
            .collect();
        assert_eq!(paths, [".spec.ports[port=80].name", ".spec.ports[port=79]"]);
    }

    #[test]
    fn values_of_inputs_are_masked_at_any_depth() {
        let live = json!({"data": {"url": "db://old-pass@db"}});
        let dry = json!({"data": {"url": "db://hunter2@db"}, "list": [{"hunter2": ["x hunter2"]}]});
        let mask = |text: &str| text.replace("hunter2", "***").replace("old-pass", "***");
        let fields = fields(live, dry, &owner(), &mask);
        let text = serde_json::to_string(&fields).unwrap();
        assert!(
            !text.contains("hunter2") && !text.contains("old-pass"),
            "{text}"
        );
        assert!(text.contains("db://***@db"), "{text}");
    }

    #[tokio::test]
    async fn ignored_fields_are_compared_with_their_live_values() {
        let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"}, "data": {"k": value}});
        let object = Prepared {
            key: ObjectKey::of(&map("ours")).unwrap(),
            kind: fairlead_manifests::ObjectKind::of(&map("ours")).unwrap(),
            object: map("ours"),
            place: fairlead_manifests::yaml::Place {
                file: "a.yaml".into(),
                document: 1,
                line: 1,
            },
        };
        let rules = [IgnoreRule {
            kind: Some("ConfigMap".to_owned()),
            group: None,
            name: None,
            namespace: None,
            pointers: vec!["/data/k".to_owned()],
        }];
        fn writer(ignore: &[IgnoreRule]) -> DiffWriter<'_> {
            DiffWriter {
                manager: "fairlead/b-shop",
                ignore,
                is_exclusive: true,
                prunes: true,
            }
        }
        let cluster = crate::drift::tests::FakeCluster::default();
        let live = map("theirs");
        let kept = desired(&cluster, &object, &live, &writer(&rules)).await;
        assert_eq!(kept, live);
        let reset = desired(&cluster, &object, &live, &writer(&[])).await;
        assert_eq!(reset, map("ours"));
    }
}
