//! A fake API server in this process: server-side apply, ownership of fields, watches. Times come from a counter.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use fairlead_api::{BundleId, RunId, delivery::DriftedObject};
use fairlead_manifests::{ObjectKind, Scope};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    drift::{AccessError, CorrectionOutcome, CorrectionRun, DriftAccess, EventStream, ObjectApi},
    kube::{ApiResource, KubeError, ObjectList, Query, WatchEvent},
};

type EventSender = mpsc::Sender<Result<WatchEvent, KubeError>>;
type Fault = Box<dyn Fn(&str, &str) -> Option<KubeError> + Send>;

#[derive(Default)]
struct World {
    objects: BTreeMap<String, Value>,
    version: u64,
    watches: Vec<(String, Query, EventSender)>,
    requests: Vec<String>,
    fault: Option<Fault>,
    /// Versions before this one are refused with 410.
    oldest: u64,
}

/// Clones share the cluster.
#[derive(Clone, Default)]
pub(crate) struct FakeCluster {
    world: Arc<Mutex<World>>,
    pub(crate) corrections: Arc<AtomicUsize>,
    pub(crate) is_busy: Arc<AtomicBool>,
    pub(crate) sentences: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn refused(status: u16, message: &str) -> KubeError {
    KubeError::Status {
        status,
        body: json!({"message": message, "code": status}),
    }
}

pub(crate) fn resource(group: &str, kind: &str, plural: &str) -> Arc<ApiResource> {
    Arc::new(ApiResource {
        kind: ObjectKind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
        },
        plural: plural.to_owned(),
        scope: Scope::Namespaced,
        is_watchable: true,
    })
}

impl FakeCluster {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(crate) fn get_now(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    pub(crate) fn objects_below(&self, start: &str) -> Vec<Value> {
        let world = self.lock();
        let objects = world.objects.iter().filter(|it| it.0.starts_with(start));
        objects.map(|it| it.1.clone()).collect()
    }

    /// Changes an object as another manager.
    pub(crate) fn edit(&self, path: &str, manager: &str, change: impl FnOnce(&mut Value)) {
        let mut world = self.lock();
        let before = world.objects[path].clone();
        let mut after = before.clone();
        change(&mut after);
        let (old, new) = (leaves(&before), leaves(&after));
        let changed: BTreeSet<_> = new
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(value))
            .map(|it| it.0.clone())
            .collect();
        let gone: BTreeSet<_> = old
            .keys()
            .filter(|path| !new.contains_key(*path))
            .cloned()
            .collect();
        let mut owners = owners(&after);
        for (_, paths) in owners.values_mut() {
            paths.retain(|it| !changed.contains(it) && !gone.contains(it));
        }
        let time = time(world.version + 1);
        let entry = owners
            .entry((manager.to_owned(), "Update".to_owned()))
            .or_default();
        entry.0.clone_from(&time);
        entry.1.extend(changed);
        set_owners(&mut after, &owners);
        world.store(path, after);
    }

    /// Writes the status, which nobody owns here.
    pub(crate) fn set_status(&self, path: &str, status: Value) {
        let mut world = self.lock();
        let mut object = world.objects[path].clone();
        object["status"] = status;
        world.store(path, object);
    }

    /// Changes an object without an event.
    pub(crate) fn change_unseen(&self, path: &str, change: impl FnOnce(&mut Value)) {
        change(self.lock().objects.get_mut(path).unwrap());
    }

    pub(crate) fn remove(&self, path: &str) {
        let mut world = self.lock();
        let object = world.objects.remove(path).unwrap();
        world.version += 1;
        world.send(path, &WatchEvent::Deleted(object));
    }

    /// Ends all watches. `expires`: their versions are too old afterwards.
    pub(crate) fn end_watches(&self, expires: bool) {
        let mut world = self.lock();
        world.watches.clear();
        if expires {
            world.oldest = world.version + 1;
        }
    }

    pub(crate) fn set_fault(
        &self,
        fault: impl Fn(&str, &str) -> Option<KubeError> + Send + 'static,
    ) {
        self.lock().fault = Some(Box::new(fault));
    }

    pub(crate) fn clear_fault(&self) {
        self.lock().fault = None;
    }

    /// Requests since the last call, like `apply /api/v1/...`; a dry run is `dry-run`.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().requests)
    }

    fn begin(&self, verb: &str, path: &str) -> Result<MutexGuard<'_, World>, KubeError> {
        let mut world = self.lock();
        world.requests.push(format!("{verb} {path}"));
        match world.fault.as_ref().and_then(|it| it(verb, path)) {
            Some(error) => Err(error),
            None => Ok(world),
        }
    }

    /// Apply as a bundle does it in a run.
    pub(crate) fn apply_now(&self, path: &str, manager: &str, object: &Value) -> Value {
        let mut world = self.lock();
        let applied = world.applied(path, manager, object);
        world.store(path, applied);
        world.objects[path].clone()
    }
}

impl World {
    fn store(&mut self, path: &str, mut object: Value) {
        let before = self.objects.get(path).cloned();
        let version = |it: &Value| {
            let mut it = it.clone();
            it["metadata"]["resourceVersion"] = Value::Null;
            it
        };
        if before.as_ref().map(version) == Some(version(&object)) {
            return;
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        let event = match before {
            None => WatchEvent::Added(object),
            Some(_) => WatchEvent::Modified(object),
        };
        self.send(path, &event);
    }

    fn send(&mut self, path: &str, event: &WatchEvent) {
        let (WatchEvent::Added(object)
        | WatchEvent::Modified(object)
        | WatchEvent::Deleted(object)) = event
        else {
            return;
        };
        self.watches.retain(|(collection, query, sender)| {
            !is_in(path, collection)
                || !selects(query, object)
                || sender.try_send(Ok(event.clone())).is_ok()
        });
    }

    fn applied(&self, path: &str, manager: &str, manifest: &Value) -> Value {
        let live = self.objects.get(path);
        let mut object = live
            .cloned()
            .unwrap_or_else(|| json!({"metadata": {"uid": format!("uid-{}", self.version)}}));
        let owner = (manager.to_owned(), "Apply".to_owned());
        let mut owners = owners(&object);
        let wanted = leaves(manifest);
        let had = owners
            .get(&owner)
            .map(|it| it.1.clone())
            .unwrap_or_default();
        for path in had.iter().filter(|it| !wanted.contains_key(*it)) {
            remove(&mut object, path);
        }
        let before = leaves(&object);
        merge(&mut object, manifest);
        let own: BTreeSet<_> = wanted.keys().cloned().collect();
        let taken: BTreeSet<_> = wanted
            .iter()
            .filter(|(path, value)| before.get(*path) != Some(value))
            .map(|it| it.0.clone())
            .collect();
        let mut is_changed = !taken.is_empty() || own != had;
        for (other, (_, paths)) in &mut owners {
            if *other != owner {
                paths.retain(|it| !taken.contains(it));
            }
        }
        is_changed |= live.is_none();
        let entry = owners.entry(owner).or_default();
        entry.1 = own;
        if is_changed {
            entry.0 = time(self.version + 1);
        }
        set_owners(&mut object, &owners);
        object
    }
}

fn time(version: u64) -> String {
    format!(
        "2026-11-24T{:02}:{:02}:{:02}Z",
        version / 3600,
        version / 60 % 60,
        version % 60
    )
}

/// Leaves below maps, by JSON pointer; without identity and server fields.
fn leaves(object: &Value) -> BTreeMap<String, Value> {
    fn walk(value: &Value, path: &str, leaves: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    walk(value, &format!("{path}/{}", key.replace('/', "~1")), leaves);
                }
            }
            other => drop(leaves.insert(path.to_owned(), other.clone())),
        }
    }
    let mut found = BTreeMap::new();
    walk(object, "", &mut found);
    found.retain(|path, _| {
        path.starts_with("/metadata/labels")
            || path.starts_with("/metadata/annotations")
            || !(path.starts_with("/metadata")
                || path.starts_with("/status")
                || path == "/kind"
                || path == "/apiVersion")
    });
    found
}

type Owners = BTreeMap<(String, String), (String, BTreeSet<String>)>;

fn owners(object: &Value) -> Owners {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let entry = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        let mut paths = BTreeSet::new();
        collect(&entry["fieldsV1"], "", &mut paths);
        ((text("manager"), text("operation")), (text("time"), paths))
    };
    entries.iter().map(entry).collect()
}

fn collect(fields: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let children = fields.as_object().unwrap();
    if children.is_empty() {
        paths.insert(path.to_owned());
    }
    for (key, child) in children {
        let key = key.strip_prefix("f:").unwrap().replace('/', "~1");
        collect(child, &format!("{path}/{key}"), paths);
    }
}

fn set_owners(object: &mut Value, owners: &Owners) {
    let entries: Vec<_> = owners
        .iter()
        .filter(|(_, (_, paths))| !paths.is_empty())
        .map(|((manager, operation), (time, paths))| {
            let mut fields = json!({});
            for path in paths {
                let mut node = &mut fields;
                for key in path.split('/').skip(1) {
                    let key = format!("f:{}", key.replace("~1", "/"));
                    node = node.as_object_mut().unwrap().entry(key).or_insert(json!({}));
                }
            }
            json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
        })
        .collect();
    object["metadata"]["managedFields"] = json!(entries);
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => target.clone_from(patch),
    }
}

fn remove(object: &mut Value, path: &str) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
        parent.remove(&name.replace("~1", "/"));
    }
}

/// True for an object of a collection of one namespace, or of all.
fn is_in(path: &str, collection: &str) -> bool {
    let (of, _) = path.rsplit_once('/').unwrap();
    let Some((group, rest)) = of.split_once("/namespaces/") else {
        return of == collection;
    };
    let plural = rest.split_once('/').unwrap().1;
    of == collection || format!("{group}/{plural}") == collection
}

fn selects(query: &Query, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let has_label = |selector: &str| match selector.split_once('=') {
        None => selector.is_empty() || !labels[selector].is_null(),
        Some((label, value)) => labels[label] == value,
    };
    let name = query.fields.strip_prefix("metadata.name=");
    query.labels.split(',').all(has_label) && name.is_none_or(|it| object["metadata"]["name"] == it)
}

struct FakeEvents(mpsc::Receiver<Result<WatchEvent, KubeError>>);

#[async_trait]
impl EventStream for FakeEvents {
    async fn next(&mut self) -> Result<Option<WatchEvent>, KubeError> {
        self.0.recv().await.transpose()
    }
}

#[async_trait]
impl ObjectApi for FakeCluster {
    async fn get(&self, path: &str) -> Result<Option<Value>, KubeError> {
        let world = self.begin("get", path)?;
        Ok(world.objects.get(path).cloned())
    }

    async fn list(&self, path: &str, query: &Query) -> Result<Option<ObjectList>, KubeError> {
        let world = self.begin("list", path)?;
        let items = world
            .objects
            .iter()
            .filter(|(of, it)| is_in(of, path) && selects(query, it));
        Ok(Some(ObjectList {
            items: items.map(|it| it.1.clone()).collect(),
            resource_version: world.version.to_string(),
        }))
    }

    async fn apply(
        &self,
        path: &str,
        manager: &str,
        dry_run: bool,
        object: &Value,
    ) -> Result<Value, KubeError> {
        let mut world = self.begin(if dry_run { "dry-run" } else { "apply" }, path)?;
        let applied = world.applied(path, manager, object);
        if dry_run {
            return Ok(applied);
        }
        world.store(path, applied);
        Ok(world.objects[path].clone())
    }

    async fn create(&self, path: &str, object: &Value) -> Result<Value, KubeError> {
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        self.begin("create", &path)?.store(&path, object.clone());
        Ok(object.clone())
    }

    async fn json_patch(&self, path: &str, patch: &Value) -> Result<Value, KubeError> {
        let mut world = self.begin("json-patch", path)?;
        let mut object = world.objects[path].clone();
        object["metadata"]["managedFields"] = patch[0]["value"].clone();
        world.store(path, object);
        Ok(world.objects[path].clone())
    }

    async fn delete(&self, path: &str, _uid: &str) -> Result<(), KubeError> {
        drop(self.begin("delete", path)?);
        self.remove(path);
        Ok(())
    }

    async fn watch(
        &self,
        path: &str,
        query: &Query,
        resource_version: &str,
    ) -> Result<Box<dyn EventStream>, KubeError> {
        let mut world = self.begin("watch", path)?;
        let (sender, receiver) = mpsc::channel(1000);
        let version = resource_version.parse::<u64>().ok();
        match version {
            Some(version) if version < world.oldest => return Err(refused(410, "too old")),
            // Events between the version and now are not kept: tests end watches with `expires` for that.
            Some(_) => {}
            None => {
                for (of, object) in &world.objects {
                    if is_in(of, path) && selects(query, object) {
                        sender
                            .try_send(Ok(WatchEvent::Added(object.clone())))
                            .unwrap();
                    }
                }
                let resource_version = world.version.to_string();
                let end = WatchEvent::Bookmark {
                    resource_version,
                    initial_end: true,
                };
                sender.try_send(Ok(end)).unwrap();
            }
        }
        world.watches.push((path.to_owned(), query.clone(), sender));
        Ok(Box::new(FakeEvents(receiver)))
    }
}

struct FakeRun(FakeCluster);

#[async_trait]
impl CorrectionRun for FakeRun {
    fn api(&self) -> Arc<dyn ObjectApi> {
        Arc::new(self.0.clone())
    }

    async fn end(self: Box<Self>, _outcome: CorrectionOutcome, sentence: &str) -> Option<RunId> {
        self.0.sentences.lock().unwrap().push(sentence.to_owned());
        None
    }
}

#[async_trait]
impl DriftAccess for FakeCluster {
    async fn observer(&self, _account: &str) -> Result<Arc<dyn ObjectApi>, AccessError> {
        Ok(Arc::new(self.clone()))
    }

    async fn begin_correction(
        &self,
        _bundle: &BundleId,
        _objects: &[DriftedObject],
    ) -> Result<Box<dyn CorrectionRun>, AccessError> {
        if self.is_busy.load(Ordering::SeqCst) {
            return Err(AccessError::Busy);
        }
        self.corrections.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FakeRun(self.clone())))
    }
}
