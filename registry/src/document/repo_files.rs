//! Declared files of repositories (`gitRepo.templateFiles`), with the checks of their paths.

use std::collections::BTreeMap;

use fairlead_api::Code;
use fairlead_routes::InvalidValue;
use fairlead_store::model::TemplateFile;

use crate::document::fields::Fields;

/// Limit of one record's files.
const MAX_FILES: usize = 200;
/// Limit of one file, in bytes.
const MAX_FILE_BYTES: usize = 128 * 1024;
/// Limit of all files of one record, in bytes. The hub has all records in memory.
const MAX_TOTAL_BYTES: usize = 256 * 1024;
/// Limit of a path, in bytes.
const MAX_PATH_BYTES: usize = 512;
/// Limit of a path's part, in bytes, as file systems have it.
const MAX_NAME_BYTES: usize = 255;

/// Files by path.
pub(super) type TemplateFiles = BTreeMap<String, TemplateFile>;

/// Reads the files.
///
/// # Errors
/// `FL-4142` with the path.
pub(super) fn read(mut given: Fields) -> Result<TemplateFiles, InvalidValue> {
    let paths: Vec<String> = given.names().map(str::to_owned).collect();
    let mut files = TemplateFiles::new();
    for path in paths {
        let Some(file) = given.value(&path) else {
            continue;
        };
        check_path(&path).map_err(|cause| refused(&path, cause))?;
        let file = match serde_json::from_value(file) {
            Ok(TemplateFile::Deleted(it)) if !it.delete => {
                return Err(refused(&path, "delete is true, or the entry has a content"));
            }
            Ok(file) => file,
            Err(_) => return Err(refused(&path, "expected a text or {\"delete\": true}")),
        };
        files.insert(path, file);
    }
    check_sizes(&files)?;
    check_places(&files)?;
    Ok(files)
}

fn refused(path: &str, cause: &str) -> InvalidValue {
    let shown: String = path.escape_debug().take(100).collect();
    let cause = format!("templateFiles: {shown}: {cause}");
    InvalidValue::with_code(Code::BadRepoFile, cause)
}

fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > MAX_PATH_BYTES {
        return Err("the path has more than 512 bytes");
    }
    path.split('/').try_for_each(check_name)
}

/// Git refuses `.git` in each form that a file system takes for it; `..` leaves the repository.
fn check_name(name: &str) -> Result<(), &'static str> {
    let lower = name.trim_end_matches(['.', ' ']).to_lowercase();
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\\' | ':' | '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
    };
    match name {
        "" => Err("the path starts or ends with a slash, or has an empty part"),
        "." | ".." => Err("a part of the path is . or .."),
        _ if lower == ".git" || lower == "git~1" => Err("a part of the path is .git"),
        _ if name.contains(is_hidden) => {
            Err("the path has a control character, a backslash or a colon")
        }
        _ if name.len() > MAX_NAME_BYTES => Err("a part of the path has more than 255 bytes"),
        _ => Ok(()),
    }
}

fn check_sizes(files: &TemplateFiles) -> Result<(), InvalidValue> {
    let too_large = |cause: String| InvalidValue::with_code(Code::BadRepoFile, cause);
    if files.len() > MAX_FILES {
        let cause = format!("templateFiles: more than {MAX_FILES} entries");
        return Err(too_large(cause));
    }
    let mut total = 0;
    for (path, file) in files {
        let TemplateFile::Content(content) = file else {
            continue;
        };
        if content.len() > MAX_FILE_BYTES {
            return Err(refused(path, "the file has more than 128 KiB"));
        }
        total += content.len();
    }
    match total {
        ..=MAX_TOTAL_BYTES => Ok(()),
        _ => {
            let cause = "templateFiles: all files together have more than 256 KiB";
            Err(too_large(cause.to_owned()))
        }
    }
}

/// A file is no folder of another one.
fn check_places(files: &TemplateFiles) -> Result<(), InvalidValue> {
    let content = |path: &str| matches!(files.get(path), Some(TemplateFile::Content(_)));
    for path in files.keys().filter(|path| content(path)) {
        let ends = path.match_indices('/').map(|(at, _)| at);
        let mut folders = ends.filter_map(|end| path.get(..end));
        if folders.any(content) {
            return Err(refused(
                path,
                "a folder of the path is a file of the record",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn files(value: Value) -> Result<TemplateFiles, String> {
        let read = read(Fields::of(value).unwrap());
        read.map_err(|error| {
            let failure = fairlead_api::Failure::from(error);
            assert_eq!(failure.code, Code::BadRepoFile);
            failure.cause
        })
    }

    #[test]
    fn paths_stay_within_the_repository() {
        for path in [
            "",
            "/a",
            "a/",
            "a//b",
            ".",
            "../a",
            "a/../b",
            ".git",
            "a/.GIT/config",
            ".git.",
            ".git ",
            "GIT~1",
            "a\\b",
            "c:d",
            "a\nb",
            ".g\u{200c}it",
            &"x".repeat(256),
            &"x/".repeat(300),
        ] {
            let refused = files(json!({ path: "text" }));
            assert!(refused.is_err(), "{path:?}");
        }
        for path in [
            "a",
            ".gitlab-ci.yml",
            "a/.gitignore",
            "ä/b c.yml",
            "...",
            "a/..b",
        ] {
            assert!(files(json!({ path: "text" })).is_ok(), "{path:?}");
        }
    }

    #[test]
    fn entries_are_texts_or_the_marker() {
        let read = files(json!({ "a": "", "b": { "delete": true }, "c": null })).unwrap();
        let marker = ("b".to_owned(), TemplateFile::DELETED);
        let empty = ("a".to_owned(), TemplateFile::Content(String::new()));
        assert_eq!(read, [empty, marker].into());
        for wrong in [
            json!(1),
            json!({ "delete": false }),
            json!({}),
            json!(["a"]),
        ] {
            assert!(files(json!({ "a": wrong })).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_folders_are_checked() {
        let large = "x".repeat(MAX_FILE_BYTES);
        let one = files(json!({ "a": format!("{large}x") })).unwrap_err();
        assert!(one.contains("128 KiB"), "{one}");
        let all = files(json!({ "a": large, "b": large, "c": "x" })).unwrap_err();
        assert!(all.contains("256 KiB"), "{all}");
        let folder = files(json!({ "a": "", "a/b/c": "" })).unwrap_err();
        assert!(folder.contains("a folder of the path"), "{folder}");
        assert!(files(json!({ "a": { "delete": true }, "a/b": "" })).is_ok());
    }
}
