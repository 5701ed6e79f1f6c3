//! Content of a bundle on this machine: a folder or an archive, and its `fairlead.yaml`.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use fairlead_api::{BundleId, Code, Failure, delivery::BundleFields};
use fairlead_bundle::{
    fields::{self, FILE_NAME},
    folder::{Artifact, FileEntry, Folder, FolderError, MAX_FILES, MAX_UNPACKED_BYTES},
};

/// Number of large files that a failure names.
const SHOWN_FILES: usize = 3;
const ARCHIVE_SUFFIXES: [&str; 3] = [".tar.gz", ".tgz", ".tar"];
const OTHER_CONTENT: &str = "Correct the folder, or name another one.";

/// Content that can be deployed.
#[derive(Debug)]
pub(crate) struct Content {
    /// Canonical archive.
    pub(crate) artifact: Artifact,
    /// Options of `fairlead.yaml`.
    pub(crate) fields: BundleFields,
    /// True for a Helm chart in the folder.
    pub(crate) has_chart_file: bool,
    /// Name in `fairlead.yaml`, else that of the folder or archive.
    name: String,
}

impl Content {
    /// Reads a folder or an archive.
    ///
    /// # Errors
    /// `FL-4119` for an unreadable file; `FL-4109` with the file that is not accepted.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let folder = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => read_folder(path)?,
            Ok(_) => read_archive(path)?,
            Err(error) => return Err(unreadable(path, &error)),
        };
        if folder.is_empty() {
            return Err(refused(path, "there is no file in it"));
        }
        let has_chart_file = folder.has_chart_file();
        let text = folder.get(FILE_NAME).unwrap_or_default();
        let text = str::from_utf8(text);
        let text = text.map_err(|_| refused(path, format_args!("{FILE_NAME} is no UTF-8")))?;
        let read = fields::parse_named_file(text, has_chart_file);
        let (name, fields) = read.map_err(|error| refused(path, error))?;
        let artifact = folder
            .pack()
            .map_err(|error| too_large(path, &folder, &error))?;
        Ok(Content {
            artifact,
            fields,
            has_chart_file,
            name: name.unwrap_or_else(|| name_of(path)),
        })
    }

    /// True if the hub has to fetch the chart that the folder names.
    pub(crate) fn needs_chart(&self) -> bool {
        self.fields.chart.is_some() && !self.has_chart_file
    }

    /// Id of the bundle: the given one, or that of the content's name.
    ///
    /// # Errors
    /// `FL-4109` for a name that makes no id.
    pub(crate) fn bundle(&self, given: Option<BundleId>) -> Result<BundleId, Failure> {
        if let Some(given) = given {
            return Ok(given);
        }
        BundleId::from_name(&self.name.to_lowercase()).map_err(|error| {
            let detail = format_args!("no bundle can be named after {:?}: {error}", self.name);
            Failure::because(Code::Invalid, detail).next("Choose its name with `--name`.")
        })
    }
}

fn name_of(path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().unwrap_or_default().to_string_lossy();
    let bare = ARCHIVE_SUFFIXES.iter().find_map(|it| name.strip_suffix(it));
    bare.unwrap_or(&name).to_owned()
}

fn read_archive(path: &Path) -> Result<Folder, Failure> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let folder = Folder::from_archive(file).map_err(|error| match error {
        FolderError::Read(error) => unreadable(path, &error),
        error => refused(path, error),
    })?;
    Ok(folder.without_top_folder())
}

/// A file of a folder before it is read.
struct FoundFile {
    path: PathBuf,
    /// Path inside of the folder.
    inner: String,
    mode: u32,
    bytes: u64,
}

fn read_folder(root: &Path) -> Result<Folder, Failure> {
    let mut found = Vec::new();
    collect(root, "", &mut found)?;
    found.sort_by(|a, b| a.inner.cmp(&b.inner));
    if found.len() > MAX_FILES {
        return Err(refused(root, FolderError::Files));
    }
    if found.iter().map(|it| it.bytes).sum::<u64>() > MAX_UNPACKED_BYTES {
        let sizes = found.iter().map(|it| (it.inner.as_str(), it.bytes));
        let detail = format_args!("{}; {}", FolderError::Unpacked, largest(sizes));
        return Err(refused(root, detail));
    }
    let mut files = Vec::with_capacity(found.len());
    for file in found {
        let content = match file.mode & 0o170_000 {
            0o100_000 => content(&file.path).map_err(|error| unreadable(&file.path, &error))?,
            // Refused below, with its kind.
            _ => Vec::new(),
        };
        files.push(FileEntry {
            path: file.inner,
            mode: file.mode,
            content,
        });
    }
    Folder::from_files(files).map_err(|error| refused(root, error))
}

/// Finds all files below a folder, and stops soon beyond the limit.
fn collect(folder: &Path, inner: &str, found: &mut Vec<FoundFile>) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(refused(&path, "its name is no UTF-8"));
        };
        if name.eq_ignore_ascii_case(".git") {
            continue;
        }
        let inner = match inner {
            "" => name.to_owned(),
            inner => format!("{inner}/{name}"),
        };
        // The link itself, because its target may lie outside of the folder.
        let metadata = fs::symlink_metadata(&path).map_err(|error| unreadable(&path, &error))?;
        if metadata.is_dir() {
            collect(&path, &inner, found)?;
        } else {
            found.push(FoundFile {
                path,
                inner,
                mode: metadata.mode(),
                bytes: metadata.len(),
            });
        }
        if found.len() > MAX_FILES {
            return Ok(());
        }
    }
    Ok(())
}

/// Content of a file. One that grows meanwhile is read up to the limit, and then refused.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut file = File::open(path)?.take(MAX_UNPACKED_BYTES + 1);
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// The largest files, for a failure.
fn largest<'a>(sizes: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut sizes: Vec<_> = sizes.collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let named = sizes.iter().take(SHOWN_FILES);
    let named: Vec<_> = named
        .map(|(path, bytes)| format!("{path} ({})", size(*bytes)))
        .collect();
    format!("its largest files are {}", named.join(", "))
}

fn too_large(path: &Path, folder: &Folder, error: &FolderError) -> Failure {
    let sizes = folder
        .iter()
        .map(|(path, content)| (path.as_str(), content.len() as u64));
    refused(path, format_args!("{error}; {}", largest(sizes)))
}

/// A number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

fn refused(path: &Path, detail: impl std::fmt::Display) -> Failure {
    let cause = format!("{}: {detail}", path.display());
    Failure::with_cause(Code::Invalid, cause).next(OTHER_CONTENT)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::because(
        Code::CannotRead,
        format_args!("{}: {error}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let shop = folder.path().join("Shop");
        for (path, text) in files {
            let path = shop.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn folder_is_named_packed_and_its_options_are_read() {
        let folder = folder(&[
            ("fairlead.yaml", "namespace: shop\n"),
            ("a/web.yaml", "kind: Service\n"),
            (".git/HEAD", "ref\n"),
        ]);
        let content = Content::read(&folder.path().join("Shop/.")).unwrap();
        assert_eq!(content.artifact.files, 2);
        assert_eq!(content.fields.namespace.as_deref(), Some("shop"));
        assert!(!content.has_chart_file);
        assert_eq!(content.bundle(None).unwrap().as_str(), "b-shop");
        // The archive of the folder is the same content.
        let archive = folder.path().join("other-1.0.tgz");
        fs::write(&archive, &content.artifact.packed).unwrap();
        let again = Content::read(&archive).unwrap();
        assert_eq!(again.artifact.id, content.artifact.id);
        let named = folder.path().join("Shop/fairlead.yaml");
        fs::write(named, "name: web\n").unwrap();
        let named = Content::read(&folder.path().join("Shop")).unwrap();
        assert_eq!(named.bundle(None).unwrap().as_str(), "b-web");
        let failure = again.bundle(None).unwrap_err();
        assert!(failure.cause.contains("\"other-1.0\""), "{failure:?}");
        assert!(failure.next_step().contains("--name"), "{failure:?}");
    }

    #[test]
    fn content_that_is_not_accepted_is_named() {
        for (files, cause) in [
            (
                &[("fairlead.yaml", "\n\nnamspace: x\n")][..],
                "fairlead.yaml, line 3",
            ),
            (
                &[("A.yaml", ""), ("a.yaml", "")],
                "differ in upper and lower case only",
            ),
        ] {
            let folder = folder(files);
            let failure = Content::read(&folder.path().join("Shop")).unwrap_err();
            assert_eq!(failure.code, Code::Invalid);
            assert!(failure.cause.contains(cause), "{failure:?}");
        }
        let folder = folder(&[("a.yaml", "")]);
        let shop = folder.path().join("Shop");
        std::os::unix::fs::symlink("/etc/passwd", shop.join("link.yaml")).unwrap();
        let failure = Content::read(&shop).unwrap_err();
        assert!(
            failure.cause.contains("\"link.yaml\" is a symbolic link"),
            "{failure:?}"
        );
        fs::remove_file(shop.join("link.yaml")).unwrap();
        fs::remove_file(shop.join("a.yaml")).unwrap();
        let failure = Content::read(&shop).unwrap_err();
        assert!(
            failure.cause.contains("there is no file in it"),
            "{failure:?}"
        );
        let failure = Content::read(&folder.path().join("none")).unwrap_err();
        assert_eq!(failure.code, Code::CannotRead);
    }

    #[test]
    fn folder_that_is_too_large_names_its_largest_files() {
        let folder = folder(&[("a.yaml", "x")]);
        let shop = folder.path().join("Shop");
        let video = File::create(shop.join("video.mp4")).unwrap();
        video.set_len(MAX_UNPACKED_BYTES + 1).unwrap();
        let failure = Content::read(&shop).unwrap_err();
        assert!(
            failure
                .cause
                .contains("largest files are video.mp4 (64.0 MiB)"),
            "{failure:?}"
        );
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1025, "2 KiB"),
            (1_572_864, "1.5 MiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
