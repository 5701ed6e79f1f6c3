//! Content of a folder of a commit, read without a working copy.

use std::{collections::HashMap, time::Duration};

use fairlead_bundle::folder::{FileEntry, Folder, MAX_FILES, MAX_UNPACKED_BYTES};

use super::{
    failure::SourceFailure,
    fetch::CachedRepository,
    git::{Git, GitCall},
};

/// Limit of the list of files of a folder, in bytes.
const MAX_LIST_BYTES: u64 = 8 * 1024 * 1024;
/// Limit of the time for the contents of a folder.
const READ_DEADLINE: Duration = Duration::from_secs(120);
/// Length of a line before a content: name, type and size of the object.
const MAX_HEAD_BYTES: u64 = 128;

/// A file of a tree.
#[derive(Debug, PartialEq, Eq)]
struct TreeFile<'a> {
    mode: u32,
    object: &'a str,
    path: &'a str,
}

/// Reads a folder; `None` if the commit has no such folder.
///
/// # Errors
/// [`SourceFailure`] for a symbolic link or a submodule, named by its path, and for exceeded limits.
pub(super) async fn read_folder(
    git: &Git,
    repository: &CachedRepository,
    (commit, path): (&str, &str),
) -> Result<Option<Folder>, SourceFailure> {
    let Some(tree) = tree_of(git, repository, (commit, path)).await? else {
        return Ok(None);
    };
    let mut call = GitCall::new([
        "ls-tree",
        "-r",
        "-z",
        "--long",
        "--full-tree",
        "--end-of-options",
        &tree,
    ]);
    call.max_output = MAX_LIST_BYTES;
    let list = git.run(Some(repository.path()), call).await?;
    let list = str::from_utf8(&list);
    let list = list.map_err(|_| SourceFailure::folder(path, "a path is no UTF-8"))?;
    let files = parse_list(list).map_err(|cause| SourceFailure::folder(path, cause))?;
    let contents = contents(git, repository, &files).await?;
    let entries = files.iter().map(|file| FileEntry {
        path: file.path.to_owned(),
        mode: file.mode,
        content: contents.get(file.object).cloned().unwrap_or_default(),
    });
    let folder = Folder::from_files(entries);
    folder
        .map(Some)
        .map_err(|error| SourceFailure::folder(path, error))
}

/// Name of the tree at a path; `None` if there is none.
async fn tree_of(
    git: &Git,
    repository: &CachedRepository,
    (commit, path): (&str, &str),
) -> Result<Option<String>, SourceFailure> {
    if path == "." {
        return Ok(Some(format!("{commit}^{{tree}}")));
    }
    // The answer names each entry of that path, and is empty without one.
    let call = GitCall::new([
        "--literal-pathspecs",
        "ls-tree",
        "-z",
        "--full-tree",
        commit,
        "--",
        path,
    ]);
    let output = git.run(Some(repository.path()), call).await?;
    let output = String::from_utf8_lossy(&output);
    let entry = output.split('\0').next().unwrap_or_default();
    let Some((head, _)) = entry.split_once('\t') else {
        return Ok(None);
    };
    let mut words = head.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (_, Some("tree"), Some(object)) => Ok(Some(object.to_owned())),
        (Some("160000"), _, _) => Err(SourceFailure::folder(path, "it is a submodule")),
        (Some("120000"), _, _) => Err(SourceFailure::folder(path, "it is a symbolic link")),
        _ => Err(SourceFailure::folder(path, "it is a file, not a folder")),
    }
}

/// Files of a recursive list. Sizes and kinds are checked before a content is read.
fn parse_list(list: &str) -> Result<Vec<TreeFile<'_>>, String> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    for entry in list.split('\0').filter(|it| !it.is_empty()) {
        let damaged = || format!("git lists {entry:?}");
        let (head, path) = entry.split_once('\t').ok_or_else(damaged)?;
        let mut words = head.split_ascii_whitespace();
        let mode = words.next().and_then(|it| u32::from_str_radix(it, 8).ok());
        let mode = mode.ok_or_else(damaged)?;
        let object = words.nth(1).ok_or_else(damaged)?;
        match mode {
            0o120_000 => {
                return Err(format!(
                    "{path:?} is a symbolic link; only regular files are accepted"
                ));
            }
            0o160_000 => {
                return Err(format!(
                    "{path:?} is a submodule; only regular files are accepted"
                ));
            }
            _ => {}
        }
        let size: u64 = words
            .next()
            .and_then(|it| it.parse().ok())
            .ok_or_else(damaged)?;
        bytes = bytes.saturating_add(size);
        if bytes > MAX_UNPACKED_BYTES {
            return Err(format!("it has more than {} MiB", MAX_UNPACKED_BYTES >> 20));
        }
        if files.len() >= MAX_FILES {
            return Err(format!("it has more than {MAX_FILES} files"));
        }
        files.push(TreeFile { mode, object, path });
    }
    Ok(files)
}

/// Contents by the name of their object.
async fn contents(
    git: &Git,
    repository: &CachedRepository,
    files: &[TreeFile<'_>],
) -> Result<HashMap<String, Vec<u8>>, SourceFailure> {
    let mut names: Vec<&str> = files.iter().map(|it| it.object).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let mut call = GitCall::new(["cat-file", "--batch"]);
    call.input = names
        .iter()
        .flat_map(|it| [it, "\n"])
        .collect::<String>()
        .into();
    call.max_output = MAX_UNPACKED_BYTES + MAX_HEAD_BYTES * names.len() as u64;
    call.deadline = READ_DEADLINE;
    let output = git.run(Some(repository.path()), call).await?;
    let parsed = parse_batch(&output, names.len());
    parsed.ok_or_else(|| SourceFailure::git("git sent an incomplete content"))
}

/// Contents of an answer: for each object a line with name, type and size, then the bytes and a line end.
fn parse_batch(mut output: &[u8], number: usize) -> Option<HashMap<String, Vec<u8>>> {
    let mut contents = HashMap::with_capacity(number);
    while !output.is_empty() {
        let end = output.iter().position(|byte| *byte == b'\n')?;
        let (head, rest) = output.split_at_checked(end)?;
        let mut words = str::from_utf8(head).ok()?.split(' ');
        let (name, kind, size) = (words.next()?, words.next()?, words.next()?);
        let size: usize = size.parse().ok()?;
        let (content, rest) = rest.get(1..)?.split_at_checked(size)?;
        if kind != "blob" {
            return None;
        }
        contents.insert(name.to_owned(), content.to_vec());
        output = rest.strip_prefix(b"\n")?;
    }
    (contents.len() == number).then_some(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_submodules_are_refused_by_name() {
        let list = "100644 blob aa     12\ta.yaml\x00100755 blob bb      3\tsub/b.sh\0";
        let files = parse_list(list).unwrap();
        let paths: Vec<_> = files.iter().map(|it| (it.path, it.mode)).collect();
        assert_eq!(paths, [("a.yaml", 0o100_644), ("sub/b.sh", 0o100_755)]);
        let link = parse_list("120000 blob aa     12\tlink\0").unwrap_err();
        assert!(link.contains("\"link\" is a symbolic link"), "{link}");
        let module = parse_list("160000 commit aa      -\tvendor/x\0").unwrap_err();
        assert!(module.contains("\"vendor/x\" is a submodule"), "{module}");
        let large = format!("100644 blob aa {}\tx\0", MAX_UNPACKED_BYTES + 1);
        assert!(parse_list(&large).unwrap_err().contains("64 MiB"));
    }

    #[test]
    fn contents_of_a_batch_are_read_by_length() {
        let contents = parse_batch(b"aa blob 3\na\nb\nbb blob 0\n\n", 2).unwrap();
        assert_eq!(
            (&contents["aa"][..], &contents["bb"][..]),
            (&b"a\nb"[..], &b""[..])
        );
        for bad in [
            &b"aa blob 9\nabc\n"[..],
            b"aa missing\n",
            b"aa tree 1\nx\n",
            b"aa blob 1\nx",
            b"aa blob 1\nx\n",
        ] {
            assert!(parse_batch(bad, 2).is_none(), "{bad:?}");
        }
    }
}
