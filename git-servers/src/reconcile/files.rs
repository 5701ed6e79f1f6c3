//! Files of a repository, changed in one commit. A file whose content the hub did not write stays.

use std::collections::BTreeMap;

use fairlead_repositories::{DesiredFile, DesiredRepo, GitServerError};

use super::Reconciler;
use crate::{
    blob::is_blob,
    provider::{FileChange, FoundRepo, Tree},
};

/// Reconciles the files of the default branch.
pub(super) async fn reconcile(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    desired: &DesiredRepo,
    corrected: &mut Vec<String>,
) -> Result<(), GitServerError> {
    if desired.files.is_empty() {
        return Ok(());
    }
    let tree = reconciler.provider.tree(repo).await;
    let tree = tree.map_err(|error| reconciler.error("reading the files", error))?;
    let changes = changes(&tree, &desired.files);
    if changes.is_empty() {
        return Ok(());
    }
    let message = format!("Update files of {}", desired.owner);
    let done = reconciler.provider.commit(repo, &changes, &message).await;
    done.map_err(|error| reconciler.error("writing the files", error))?;
    corrected.extend(changes.keys().map(|path| format!("file {path}")));
    Ok(())
}

fn changes(tree: &Tree, desired: &BTreeMap<String, DesiredFile>) -> BTreeMap<String, FileChange> {
    let mut changes = BTreeMap::new();
    for (path, file) in desired {
        let change = match (tree.get(path), file) {
            (None, DesiredFile::Content { content, .. }) => FileChange::Create(content.clone()),
            (Some(id), DesiredFile::Content { content, earlier })
                if !is_blob(id, content) && is_one_of(id, earlier) =>
            {
                FileChange::Update(content.clone(), id.clone())
            }
            (Some(id), DesiredFile::Absent { earlier }) if is_one_of(id, earlier) => {
                FileChange::Delete(id.clone())
            }
            _ => continue,
        };
        changes.insert(path.clone(), change);
    }
    changes
}

fn is_one_of(id: &str, contents: &[String]) -> bool {
    contents.iter().any(|content| is_blob(id, content))
}
