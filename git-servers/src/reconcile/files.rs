//! Files of a repository, changed in one commit. Declared files are kept as declared. All others
//! stay unless the hub wrote their content.

use std::collections::BTreeMap;

use fairlead_repositories::{DesiredFile, DesiredRepo, GitServerError};

use super::Reconciler;
use crate::{
    blob::{SHA1_DIGITS, blob_id, is_blob},
    provider::{FileChange, FoundRepo, Tree},
};

/// Ids of the blobs of declared files, by path.
type Written = BTreeMap<String, String>;

/// Reconciles the files of the default branch. `written` are the declared files of the last call.
pub(super) async fn reconcile(
    reconciler: &Reconciler<'_>,
    repo: &FoundRepo,
    desired: &DesiredRepo,
    written: &Written,
    corrected: &mut Vec<String>,
) -> Result<Written, GitServerError> {
    if desired.files.is_empty() && written.is_empty() {
        return Ok(Written::new());
    }
    let tree = reconciler.provider.tree(repo).await;
    let tree = tree.map_err(|error| reconciler.error("reading the files", error))?;
    let changes = changes(&tree, &desired.files, written);
    if !changes.is_empty() {
        check_places(&tree, &changes)?;
        let message = format!("Update files of {}", desired.owner);
        let done = reconciler.provider.commit(repo, &changes, &message).await;
        done.map_err(|error| reconciler.error("writing the files", error))?;
        corrected.extend(changes.keys().map(|path| format!("file {path}")));
    }
    // The first commit shows the object format: an empty repository of SHA-256 is one of SHA-1
    // until the next call.
    let digits = tree.values().next().map_or(SHA1_DIGITS, String::len);
    let declared = desired.files.iter().filter_map(|(path, file)| match file {
        DesiredFile::Declared(content) => Some((path.clone(), blob_id(content, digits)?)),
        _ => None,
    });
    Ok(declared.collect())
}

fn changes(
    tree: &Tree,
    desired: &BTreeMap<String, DesiredFile>,
    written: &Written,
) -> BTreeMap<String, FileChange> {
    let mut changes = BTreeMap::new();
    for (path, file) in desired {
        let is_ours = |id: &String, earlier: &[String]| {
            is_one_of(id, earlier) || written.get(path).is_some_and(|it| it == id)
        };
        let change = match (tree.get(path), file) {
            (None, DesiredFile::Content { content, .. } | DesiredFile::Declared(content)) => {
                FileChange::Create(content.clone())
            }
            (Some(id), DesiredFile::Declared(content)) if !is_blob(id, content) => {
                FileChange::Update(content.clone(), id.clone())
            }
            (Some(id), DesiredFile::Content { content, earlier })
                if !is_blob(id, content) && is_ours(id, earlier) =>
            {
                FileChange::Update(content.clone(), id.clone())
            }
            (Some(id), DesiredFile::Deleted) => FileChange::Delete(id.clone()),
            (Some(id), DesiredFile::Absent { earlier }) if is_ours(id, earlier) => {
                FileChange::Delete(id.clone())
            }
            _ => continue,
        };
        changes.insert(path.clone(), change);
    }
    let undeclared = written
        .iter()
        .filter(|(path, _)| !desired.contains_key(*path));
    for (path, written) in undeclared {
        if let Some(id) = tree.get(path).filter(|id| *id == written) {
            changes.insert(path.clone(), FileChange::Delete(id.clone()));
        }
    }
    changes
}

fn is_one_of(id: &str, contents: &[String]) -> bool {
    contents.iter().any(|content| is_blob(id, content))
}

/// Refuses a new file in the place of a folder, or below another file. GitHub would replace that
/// without a word.
fn check_places(tree: &Tree, changes: &BTreeMap<String, FileChange>) -> Result<(), GitServerError> {
    let stays = |path: &str| !matches!(changes.get(path), Some(FileChange::Delete(_)));
    let new = changes.iter().filter_map(|(path, change)| match change {
        FileChange::Create(_) => Some(path),
        _ => None,
    });
    for path in new {
        let folder = format!("{path}/");
        let below = tree.range(folder.clone()..);
        let below = below.map(|(it, _)| it.as_str());
        let mut below = below.take_while(|it| it.starts_with(&folder));
        let ends = path.match_indices('/').map(|(at, _)| at);
        let mut above = ends.filter_map(|end| path.get(..end));
        let other = below
            .find(|it| stays(it))
            .or_else(|| above.find(|it| tree.contains_key(*it) && stays(it)));
        if let Some(other) = other {
            return Err(GitServerError::Rejected(format!(
                "the file {path} cannot be written beside the file {other} of the repository; declare another path, or delete that file"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        let id = |path: &&str| ((*path).to_owned(), "id".to_owned());
        paths.iter().map(id).collect()
    }

    #[test]
    fn folders_and_files_are_not_replaced_by_each_other() {
        let create = |path: &str| (path.to_owned(), FileChange::Create(String::new()));
        let delete = |path: &str| (path.to_owned(), FileChange::Delete("id".to_owned()));
        let tree = tree(&["a/b", "c", "d.x"]);
        for path in ["a", "c/d"] {
            let refused = check_places(&tree, &[create(path)].into());
            assert!(refused.is_err(), "{path}");
        }
        for changes in [
            vec![create("d")],
            vec![create("a/c"), create("e/f")],
            vec![create("a"), delete("a/b")],
            vec![create("c/d"), delete("c")],
        ] {
            let done = check_places(&tree, &changes.clone().into_iter().collect());
            assert_eq!(done, Ok(()), "{changes:?}");
        }
    }
}
