//! A commit of a source as bundles and generations in the store.

use std::collections::BTreeMap;

use fairlead_api::{
    BundleId, Code, SourceId,
    delivery::{ArtifactId, BundleFields, SourceArtifact, UntargetPolicy},
};
use fairlead_bundle::{Removal, find_cycle};
use fairlead_store::{
    Draft, StoreError, View,
    model::{BundleRecord, BundleSource, Generation},
};
use time::OffsetDateTime;

use super::{
    failure::SourceFailure,
    state::{PollResult, reason_of},
};
use crate::{
    confirm::{Affected, removals, write_tombstones},
    hub_bundles,
};

/// Stored content of one folder for one bundle.
#[derive(Debug, Clone)]
pub(super) struct StoredFolder {
    pub(super) path: String,
    pub(super) bundle: BundleId,
    /// Options: those of the file, or those that the bundle has.
    pub(super) fields: BundleFields,
    /// True: the bundle keeps its options.
    pub(super) keeps_fields: bool,
    pub(super) artifact: ArtifactId,
    /// Name of the options.
    pub(super) options: ArtifactId,
}

/// Bundles that have a folder of a source already, and their options.
pub(super) fn bundles_of<'a>(
    view: &'a View,
    source: &'a SourceId,
    path: &'a str,
) -> impl Iterator<Item = &'a BundleRecord> {
    let bundles = view.bundles().map(|it| &it.value);
    bundles.filter(move |it| {
        it.source.as_ref() == Some(source) && it.path.as_deref() == Some(path) && !it.deleting
    })
}

/// A read commit of a source.
#[derive(Debug, Clone)]
pub(super) struct ReadCommit {
    pub(super) source: SourceId,
    pub(super) commit: String,
    pub(super) folders: Vec<StoredFolder>,
    /// Folders that exist and cannot become a bundle: their bundles keep their content.
    pub(super) refused: Vec<String>,
    /// Reasons of refused folders.
    pub(super) failures: Vec<SourceFailure>,
    pub(super) at: OffsetDateTime,
    /// Newest request before the poll.
    pub(super) requested: i64,
}

/// Outcome of writing a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    /// Bundles with a new generation.
    pub(super) released: Vec<BundleId>,
    /// Number of new tombstones.
    pub(super) removals: usize,
    /// Bundles whose folder is gone.
    pub(super) orphaned: Vec<BundleId>,
    /// Refused folders, and those that were not written.
    pub(super) failures: Vec<SourceFailure>,
    /// A person changed options meanwhile: the commit is read again.
    pub(super) is_outdated: bool,
}

/// Writes the commit in the turn of a change. `None` if the source is gone.
///
/// # Errors
/// [`StoreError`]
pub(super) fn write(draft: &mut Draft, read: &ReadCommit) -> Result<Option<Written>, StoreError> {
    let Some(source) = draft.source(&read.source).map(|it| it.value.clone()) else {
        return Ok(None);
    };
    let before = View::clone(draft);
    let mut written = Written {
        failures: read.failures.clone(),
        ..Written::default()
    };
    let mut changed = Vec::new();
    for folder in &read.folders {
        match bundle_of(draft, &source, (read, folder)) {
            Ok(Some((bundle, is_new_content))) => {
                if is_new_content {
                    written.released.push(bundle.id.clone());
                }
                changed.push(bundle.id.clone());
                draft.put_bundle(bundle)?;
            }
            Ok(None) => {}
            Err(None) => written.is_outdated = true,
            Err(Some(failure)) => written.failures.push(failure),
        }
    }
    written.removals = remove_untargeted(draft, &before, changed)?;
    written.orphaned = orphan(draft, &source, read)?;
    let mut artifacts: Vec<SourceArtifact> = read.folders.iter().map(artifact).collect();
    artifacts.sort_by(|a, b| a.path.cmp(&b.path));
    artifacts.dedup();
    let result = PollResult {
        at: read.at,
        reason: reason_of(&written.failures),
        requested: read.requested,
    };
    let after = BundleSource {
        artifacts,
        ..result.apply(&source, Some(read.commit.clone()))
    };
    if after != source {
        draft.put_source(after)?;
    }
    Ok(Some(written))
}

/// Writes tombstones for clusters that changed bundles target no longer; returns their number.
///
/// Nobody confirms a commit. So it deletes objects only if the bundle had `onUntarget: remove` before the commit, and has it
/// after.
fn remove_untargeted(
    draft: &mut Draft,
    before: &View,
    bundles: Vec<BundleId>,
) -> Result<usize, StoreError> {
    if bundles.is_empty() {
        return Ok(0);
    }
    let removed_before = |id: &BundleId| {
        let bundle = before.bundle(id);
        bundle.is_some_and(|it| it.value.fields.on_untarget == UntargetPolicy::Remove)
    };
    let clusters = draft.clusters().map(|it| it.value.id.clone());
    let affected = Affected {
        clusters: clusters.collect(),
        bundles,
    };
    let removals = removals(before, draft, &affected);
    let removals = removals.into_iter().map(|removal| Removal {
        deletes: removal.deletes && removed_before(&removal.bundle),
        ..removal
    });
    let removals = removals.collect();
    write_tombstones(draft, &affected, &removals)?;
    Ok(removals.iter().filter(|it| it.deletes).count())
}

fn artifact(folder: &StoredFolder) -> SourceArtifact {
    SourceArtifact {
        path: folder.path.clone(),
        artifact: folder.artifact.clone(),
    }
}

/// The bundle with this content, and true for a new generation; `None` if nothing changes. The error is `None` if the
/// options of the bundle have changed since they were read.
fn bundle_of(
    draft: &Draft,
    source: &BundleSource,
    (read, folder): (&ReadCommit, &StoredFolder),
) -> Result<Option<(BundleRecord, bool)>, Option<SourceFailure>> {
    if hub_bundles::is_reserved(&folder.bundle) {
        let (bundle, path) = (&folder.bundle, &folder.path);
        let cause =
            format!("folder {path:?} names {bundle}, which is a name for bundles of the hub");
        return Err(Some(SourceFailure::new(Code::BundleNameTaken, cause)));
    }
    let known = draft.bundle(&folder.bundle).map(|it| &it.value);
    if let Some(owner) = known.filter(|it| !is_ours(source, it, read, folder)) {
        return Err(Some(taken(owner, folder)));
    }
    if folder.keeps_fields && known.is_none_or(|it| it.fields != folder.fields) {
        return Err(None);
    }
    let is_same = |it: &BundleRecord| {
        let newest = it.newest();
        newest.is_some_and(|it| it.artifact == folder.artifact && it.options == folder.options)
    };
    if let Some(known) = known.filter(|it| is_same(it)) {
        let is_placed = !known.orphaned && known.path.as_deref() == Some(&folder.path);
        let placed = BundleRecord {
            path: Some(folder.path.clone()),
            orphaned: false,
            ..known.clone()
        };
        return Ok((!is_placed).then_some((placed, false)));
    }
    check_cycle(draft, folder).map_err(Some)?;
    let mut bundle = known.cloned().unwrap_or_else(|| {
        let (id, tenant) = (folder.bundle.clone(), source.tenant.clone());
        BundleRecord::new(id, tenant, folder.fields.clone())
    });
    bundle.source = Some(source.id.clone());
    bundle.path = Some(folder.path.clone());
    bundle.orphaned = false;
    bundle.fields = folder.fields.clone();
    let short: String = read.commit.chars().take(12).collect();
    bundle.push(Generation {
        number: 0,
        artifact: folder.artifact.clone(),
        options: folder.options.clone(),
        at: read.at,
        by: format!("{} at {short}", source.id),
    });
    Ok(Some((bundle, true)))
}

/// True if the source may write the bundle: it has the same folder, or its folder is gone, as after a rename.
fn is_ours(
    source: &BundleSource,
    bundle: &BundleRecord,
    read: &ReadCommit,
    folder: &StoredFolder,
) -> bool {
    let is_of_source = bundle.source.as_ref() == Some(&source.id);
    let path = bundle.path.as_deref();
    let is_elsewhere = path.is_some_and(|path| {
        let is_read = read.folders.iter().any(|it| it.path == path);
        let is_refused = read.refused.iter().any(|it| it == path);
        path != folder.path && (is_read || is_refused)
    });
    is_of_source && !is_elsewhere && !bundle.deleting
}

fn taken(owner: &BundleRecord, folder: &StoredFolder) -> SourceFailure {
    let (bundle, path) = (&owner.id, &folder.path);
    let owner = match (&owner.source, &owner.path) {
        _ if owner.deleting => "is being deleted".to_owned(),
        (Some(source), Some(other)) => format!("is the folder {other:?} of {source}"),
        _ => "has uploaded content".to_owned(),
    };
    // The owner may belong to a tenant that the reader does not see.
    let cause = format!("folder {path:?} names {bundle}, which {owner}");
    SourceFailure::new(Code::BundleNameTaken, cause)
}

fn check_cycle(draft: &Draft, folder: &StoredFolder) -> Result<(), SourceFailure> {
    let mut all: BTreeMap<BundleId, Vec<BundleId>> = BTreeMap::new();
    for bundle in draft.bundles() {
        let bundle = &bundle.value;
        all.insert(bundle.id.clone(), bundle.fields.depends_on.clone());
    }
    all.insert(folder.bundle.clone(), folder.fields.depends_on.clone());
    let Some(cycle) = find_cycle(&all) else {
        return Ok(());
    };
    let cycle: Vec<_> = cycle.iter().map(ToString::to_string).collect();
    let cause = format!("dependsOn makes a circle: {}", cycle.join(" -> "));
    Err(SourceFailure::folder(&folder.path, cause))
}

/// Marks bundles without a folder, or deletes them if the source prunes. Their objects stay in both cases.
fn orphan(
    draft: &mut Draft,
    source: &BundleSource,
    read: &ReadCommit,
) -> Result<Vec<BundleId>, StoreError> {
    let is_there = |bundle: &BundleRecord| {
        let is_read = read.folders.iter().any(|it| it.bundle == bundle.id);
        let path = bundle.path.as_ref();
        is_read || path.is_some_and(|path| read.refused.contains(path))
    };
    let bundles = draft.bundles().map(|it| &it.value);
    let gone = bundles.filter(|it| it.source.as_ref() == Some(&source.id) && !is_there(it));
    let gone: Vec<BundleRecord> = gone.cloned().collect();
    let mut orphaned = Vec::new();
    for bundle in gone {
        let id = bundle.id.clone();
        if source.prune {
            draft.delete_bundle(&id)?;
        } else if bundle.orphaned {
            continue;
        } else {
            draft.put_bundle(BundleRecord {
                orphaned: true,
                ..bundle
            })?;
        }
        orphaned.push(id);
    }
    Ok(orphaned)
}
