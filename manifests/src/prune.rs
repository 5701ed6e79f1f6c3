//! Deletion of objects that new content has no longer.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    inventory::{Inventory, InventoryEntry},
    object::{ObjectKey, text},
    order::delete_stages,
    prepare::BUNDLE_LABEL,
};

/// Kinds whose deletion destroys data or many objects.
const RISKY_KINDS: [(&str, &str); 3] = [
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("", "Namespace"),
    ("", "PersistentVolumeClaim"),
];
/// Names in the sentence of a blocked deletion.
const MAX_NAMES: usize = 5;

/// Objects to delete after an apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// Objects of one stage may be deleted in parallel.
    pub stages: Vec<Vec<InventoryEntry>>,
    /// Cause of a block until a person confirms the objects of the plan.
    pub blocked: Option<String>,
}

impl PrunePlan {
    /// Objects of all stages, in order.
    pub fn entries(&self) -> impl Iterator<Item = &InventoryEntry> {
        self.stages.iter().flatten()
    }

    /// True without objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
}

/// Plans the deletion of objects that `old` has and `new` has not. Another version of the API is the same object, and so
/// is another group with the same UID.
///
/// The plan is blocked if `new` is empty, if more than half of `old` would go, or for definitions, namespaces and volume
/// claims. It is not blocked if `confirmed` has all of its objects.
#[must_use]
pub fn plan_prune(old: &Inventory, new: &Inventory, confirmed: &[ObjectKey]) -> PrunePlan {
    let uids: HashSet<_> = new.iter().filter_map(|it| it.uid.as_deref()).collect();
    let doomed: Vec<_> = old
        .iter()
        .filter(|it| new.get(&it.key).is_none())
        .filter(|it| !it.uid.as_deref().is_some_and(|uid| uids.contains(uid)))
        .cloned()
        .collect();
    let risky: Vec<_> = doomed.iter().filter(|it| is_risky(&it.key)).collect();
    let is_many = doomed.len() * 2 > old.len();
    let is_confirmed = || {
        let confirmed: HashSet<_> = confirmed.iter().collect();
        doomed.iter().all(|it| confirmed.contains(&it.key))
    };
    let needs_consent = !doomed.is_empty() && (is_many || !risky.is_empty());
    let blocked = (needs_consent && !is_confirmed()).then(|| {
        let shown = if risky.is_empty() {
            doomed.iter().collect()
        } else {
            risky
        };
        sentence(doomed.len(), old.len(), new.is_empty(), &shown)
    });
    PrunePlan {
        stages: staged(doomed),
        blocked,
    }
}

/// True for a definition, a namespace or a volume claim: its deletion destroys data or many objects.
#[must_use]
pub fn is_risky(key: &ObjectKey) -> bool {
    let mut kinds = RISKY_KINDS.iter();
    kinds.any(|(group, kind)| key.is(group, kind))
}

/// Plans the deletion of all these objects, for a tombstone. It is never blocked.
#[must_use]
pub fn plan_removal(old: &Inventory) -> PrunePlan {
    PrunePlan {
        stages: staged(old.iter().cloned().collect()),
        blocked: None,
    }
}

fn staged(entries: Vec<InventoryEntry>) -> Vec<Vec<InventoryEntry>> {
    let stages = delete_stages(entries.iter().map(|it| &it.key));
    stages
        .into_iter()
        .map(|stage| {
            stage
                .members
                .into_iter()
                .filter_map(|at| entries.get(at).cloned())
                .collect()
        })
        .collect()
}

fn sentence(doomed: usize, all: usize, is_empty: bool, shown: &[&InventoryEntry]) -> String {
    let names: Vec<_> = shown
        .iter()
        .take(MAX_NAMES)
        .map(|it| it.key.to_string())
        .collect();
    let rest = match shown.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    let cause = if is_empty {
        "the bundle has no objects; "
    } else {
        ""
    };
    let names = names.join(", ");
    format!("{cause}would delete {doomed} of {all} objects, among them {names}{rest}")
}

/// Decision about one object of a plan, before its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteDecision {
    /// Delete it, with this UID as a precondition.
    Delete {
        /// UID of the live object.
        uid: String,
    },
    /// It is being deleted already.
    Terminating,
    /// Keep it; the text is the cause.
    Keep(String),
}

/// Decides about a live object of a plan. Only an object that still carries the bundle's label is deleted.
#[must_use]
pub fn decide_delete(entry: &InventoryEntry, live: &Value, bundle: &str) -> DeleteDecision {
    let keep = |cause: String| DeleteDecision::Keep(format!("{} {cause}", entry.key));
    let label = live
        .pointer("/metadata/labels")
        .and_then(|it| it.get(BUNDLE_LABEL));
    match label.and_then(Value::as_str) {
        Some(label) if label == bundle => {}
        Some(other) => return keep(format!("belongs to bundle {other}")),
        None => return keep(format!("has no label {BUNDLE_LABEL}")),
    }
    decide_delete_owned(entry, live)
}

/// As [`decide_delete`], of a live object whose owner the caller has checked.
#[must_use]
pub fn decide_delete_owned(entry: &InventoryEntry, live: &Value) -> DeleteDecision {
    let keep = |cause: String| DeleteDecision::Keep(format!("{} {cause}", entry.key));
    let Some(uid) = text(live, "/metadata/uid") else {
        return keep("has no UID".to_owned());
    };
    if entry.uid.as_deref().is_some_and(|it| it != uid) {
        return keep("was deleted and made again by others".to_owned());
    }
    if text(live, "/metadata/deletionTimestamp").is_some() {
        return DeleteDecision::Terminating;
    }
    DeleteDecision::Delete {
        uid: uid.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entry(group: &str, kind: &str, name: &str) -> InventoryEntry {
        InventoryEntry {
            key: ObjectKey {
                group: group.to_owned(),
                kind: kind.to_owned(),
                namespace: (kind != "Namespace").then(|| "shop".to_owned()),
                name: name.to_owned(),
            },
            version: "v1".to_owned(),
            uid: Some(format!("uid-{group}-{kind}-{name}")),
        }
    }

    fn maps(range: std::ops::Range<usize>) -> impl Iterator<Item = InventoryEntry> {
        range.map(|at| entry("", "ConfigMap", &format!("a{at:02}")))
    }

    #[test]
    fn missing_objects_are_deleted_in_reverse_order() {
        let old: Inventory = maps(0..10)
            .chain([
                entry("apps", "Deployment", "web"),
                entry("", "Service", "web"),
            ])
            .collect();
        let plan = plan_prune(&old, &maps(0..9).collect(), &[]);
        assert_eq!(plan.blocked, None);
        let names: Vec<_> = plan.entries().map(|it| it.key.to_string()).collect();
        assert_eq!(
            names,
            [
                "Deployment shop/web",
                "Service shop/web",
                "ConfigMap shop/a09"
            ]
        );
        assert!(plan_prune(&old, &old, &[]).is_empty());
    }

    #[test]
    fn risky_deletions_are_blocked_until_confirmed() {
        let old: Inventory = maps(0..39)
            .chain([entry("", "Namespace", "shop")])
            .collect();
        for (new, blocked) in [
            (
                Inventory::default(),
                "the bundle has no objects; would delete 40 of 40 objects, among them Namespace shop",
            ),
            (
                maps(0..6).collect(),
                "would delete 34 of 40 objects, among them Namespace shop",
            ),
            (
                maps(0..39).collect(),
                "would delete 1 of 40 objects, among them Namespace shop",
            ),
        ] {
            let plan = plan_prune(&old, &new, &[]);
            assert_eq!(plan.blocked.as_deref(), Some(blocked));
            let mut confirmed: Vec<_> = plan.entries().map(|it| it.key.clone()).collect();
            assert_eq!(plan_prune(&old, &new, &confirmed).blocked, None);
            confirmed.pop();
            assert!(plan_prune(&old, &new, &confirmed).blocked.is_some());
        }
        let maps_only: Inventory = maps(0..10).collect();
        assert_eq!(
            plan_prune(&maps_only, &maps(0..5).collect(), &[]).blocked,
            None
        );
        assert_eq!(
            plan_prune(&maps_only, &maps(0..4).collect(), &[])
                .blocked
                .as_deref(),
            Some(
                "would delete 6 of 10 objects, among them ConfigMap shop/a04, ConfigMap shop/a05, ConfigMap shop/a06, ConfigMap shop/a07, ConfigMap shop/a08 and 1 more"
            )
        );
        for (group, kind) in RISKY_KINDS {
            let old: Inventory = maps(0..9).chain([entry(group, kind, "x")]).collect();
            assert!(
                plan_prune(&old, &maps(0..9).collect(), &[])
                    .blocked
                    .is_some(),
                "{kind}"
            );
        }
    }

    #[test]
    fn other_version_or_group_of_an_object_is_kept() {
        let mut old = entry("extensions", "Ingress", "web");
        let mut new = entry("networking.k8s.io", "Ingress", "web");
        new.uid.clone_from(&old.uid);
        let objects = |it: &InventoryEntry| maps(0..3).chain([it.clone()]).collect::<Inventory>();
        assert!(plan_prune(&objects(&old), &objects(&new), &[]).is_empty());
        old.version = "v1beta1".to_owned();
        let mut newer = old.clone();
        newer.version = "v1".to_owned();
        newer.uid = None;
        assert!(plan_prune(&objects(&old), &objects(&newer), &[]).is_empty());
    }

    #[test]
    fn only_labelled_objects_with_their_uid_are_deleted() {
        let entry = entry("", "ConfigMap", "a");
        let uid = entry.uid.clone().unwrap();
        let live = |label: Value, uid: &str| json!({"metadata": {"uid": uid, "labels": {"fairlead/bundle": label}}});
        let decide = |live: &Value| decide_delete(&entry, live, "b-shop");
        assert_eq!(
            decide(&live(json!("b-shop"), &uid)),
            DeleteDecision::Delete { uid: uid.clone() }
        );
        let keep = |text: &str| DeleteDecision::Keep(text.to_owned());
        assert_eq!(
            decide(&live(json!("b-web"), &uid)),
            keep("ConfigMap shop/a belongs to bundle b-web")
        );
        assert_eq!(
            decide(&live(json!(null), &uid)),
            keep("ConfigMap shop/a has no label fairlead/bundle")
        );
        assert_eq!(
            decide(&json!({})),
            keep("ConfigMap shop/a has no label fairlead/bundle")
        );
        assert_eq!(
            decide(&live(json!("b-shop"), "other")),
            keep("ConfigMap shop/a was deleted and made again by others")
        );
        let mut ending = live(json!("b-shop"), &uid);
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(decide(&ending), DeleteDecision::Terminating);
        let mut unknown = entry.clone();
        unknown.uid = None;
        assert_eq!(
            decide_delete(&unknown, &live(json!("b-shop"), "x"), "b-shop"),
            DeleteDecision::Delete { uid: "x".into() }
        );
    }

    #[test]
    fn removal_has_all_objects() {
        let old: Inventory = maps(0..2).chain([entry("", "Namespace", "shop")]).collect();
        let plan = plan_removal(&old);
        assert_eq!(plan.blocked, None);
        assert_eq!(plan.entries().last().unwrap().key.kind, "Namespace");
        assert_eq!(plan.entries().count(), 3);
    }

    proptest! {
        #[test]
        fn object_of_the_new_content_is_never_planned(
            old in prop::collection::btree_set(0_usize..30, 0..30),
            new in prop::collection::btree_set(0_usize..30, 0..30),
        ) {
            let inventory = |set: &std::collections::BTreeSet<usize>| {
                set.iter().flat_map(|at| maps(*at..at + 1)).collect::<Inventory>()
            };
            let (old_objects, new_objects) = (inventory(&old), inventory(&new));
            let plan = plan_prune(&old_objects, &new_objects, &[]);
            prop_assert_eq!(plan.entries().count(), old.difference(&new).count());
            prop_assert!(plan.entries().all(|it| new_objects.get(&it.key).is_none()));
            let is_many = old.difference(&new).count() * 2 > old.len();
            prop_assert_eq!(plan.blocked.is_some(), is_many);
        }
    }
}
