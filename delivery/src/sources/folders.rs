//! Folders of a commit as bundles: their names, options and artifacts.

use std::collections::BTreeMap;

use fairlead_api::{BundleId, Code, SourceId, delivery::BundleFields};
use fairlead_bundle::{
    fields::{FILE_NAME, check_fields, parse_named_file},
    folder::{Artifact, Folder},
};

use super::failure::SourceFailure;
use crate::generations::GenerationOptions;

/// A folder that becomes a generation of a bundle.
#[derive(Debug, Clone)]
pub(super) struct FolderBundle {
    pub(super) path: String,
    pub(super) bundle: BundleId,
    /// Origin of the name and of the options.
    pub(super) file: FolderFile,
    pub(super) options: GenerationOptions,
    pub(super) artifact: Artifact,
}

/// The file with options in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderFile {
    /// The folder has none: people set the options of its bundles.
    Missing,
    /// It has options. Further bundles of people may have the same folder.
    Unnamed,
    /// It names the one bundle of the folder.
    Named,
}

/// A folder before a chart of a repository takes its place.
pub(super) struct ReadFolder {
    pub(super) path: String,
    bundle: BundleId,
    file: FolderFile,
    pub(super) fields: BundleFields,
    folder: Folder,
}

impl ReadFolder {
    /// Reads name and options.
    ///
    /// # Errors
    /// `FL-6606`
    pub(super) fn of(source: &SourceId, path: &str, folder: Folder) -> Result<Self, SourceFailure> {
        let refused = |cause: String| SourceFailure::folder(path, cause);
        let text = folder.get(FILE_NAME).unwrap_or_default();
        let text = str::from_utf8(text);
        let text = text.map_err(|_| refused(format!("{FILE_NAME} is no UTF-8")))?;
        let read = parse_named_file(text, folder.has_chart_file());
        let (name, fields) = read.map_err(|error| refused(error.to_string()))?;
        let file = match (folder.get(FILE_NAME), &name) {
            (None, _) => FolderFile::Missing,
            (Some(_), None) => FolderFile::Unnamed,
            (Some(_), Some(_)) => FolderFile::Named,
        };
        let name = name.unwrap_or_else(|| default_name(source, path));
        let bundle = BundleId::from_name(&name);
        let bundle = bundle.map_err(|error| {
            refused(format!(
                "{name:?} names no bundle ({error}); set `name` in {FILE_NAME}"
            ))
        })?;
        if folder.is_empty() {
            return Err(refused("it has no files".to_owned()));
        }
        Ok(ReadFolder {
            path: path.to_owned(),
            bundle,
            file,
            fields,
            folder,
        })
    }

    /// True if the content is a chart that the hub has to fetch.
    pub(super) fn needs_chart(&self) -> bool {
        self.fields.chart.is_some() && !self.folder.has_chart_file()
    }

    /// Packs the folder, or the fetched chart in its place.
    ///
    /// # Errors
    /// `FL-6606`
    pub(super) fn pack(self, chart: Option<Folder>) -> Result<FolderBundle, SourceFailure> {
        let folder = chart.unwrap_or(self.folder);
        let refused = |cause: String| SourceFailure::folder(&self.path, cause);
        let has_chart = folder.has_chart_file();
        let mut fields = self.fields;
        if has_chart {
            // The chart is part of the content now.
            fields.chart = None;
        }
        check_fields(&fields, has_chart)
            .map_err(|error| refused(format!("{FILE_NAME}: {error}")))?;
        if fields.depends_on.contains(&self.bundle) {
            return Err(refused(format!(
                "{FILE_NAME}: dependsOn: the bundle depends on itself"
            )));
        }
        let used = folder.used_variables();
        let artifact = folder.pack().map_err(|error| refused(error.to_string()))?;
        Ok(FolderBundle {
            bundle: self.bundle,
            file: self.file,
            options: GenerationOptions {
                fields,
                used,
                has_chart,
            },
            artifact,
            path: self.path.clone(),
        })
    }
}

/// Last part of the path; of the whole repository the name of the source.
fn default_name(source: &SourceId, path: &str) -> String {
    match path.rsplit('/').next() {
        None | Some("" | ".") => source
            .as_str()
            .trim_start_matches(SourceId::PREFIX)
            .to_owned(),
        Some(last) => last.to_lowercase(),
    }
}

/// Folders with a name of their own, and a failure for each other one.
pub(super) fn without_collisions(
    folders: Vec<FolderBundle>,
) -> (Vec<FolderBundle>, Vec<SourceFailure>) {
    let mut paths: BTreeMap<BundleId, Vec<String>> = BTreeMap::new();
    for folder in &folders {
        let of_bundle = paths.entry(folder.bundle.clone()).or_default();
        of_bundle.push(folder.path.clone());
    }
    let collisions = paths.iter().filter(|(_, paths)| paths.len() > 1);
    let failures = collisions.map(|(bundle, paths)| {
        let cause = format!(
            "{bundle} is the name of the folders {}",
            paths.join(" and ")
        );
        SourceFailure::new(Code::BundleNameTaken, cause)
    });
    let failures = failures.collect();
    let is_alone = |it: &FolderBundle| paths.get(&it.bundle).is_some_and(|all| all.len() == 1);
    (folders.into_iter().filter(is_alone).collect(), failures)
}

#[cfg(test)]
mod tests {
    use fairlead_bundle::folder::FileEntry;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> Folder {
        let files = files.iter().map(|(path, content)| FileEntry {
            path: (*path).to_owned(),
            mode: 0o100_644,
            content: content.as_bytes().to_vec(),
        });
        Folder::from_files(files).unwrap()
    }

    fn read(path: &str, files: &[(&str, &str)]) -> Result<FolderBundle, SourceFailure> {
        let source = "s-platform".parse().unwrap();
        ReadFolder::of(&source, path, folder(files))?.pack(None)
    }

    #[test]
    fn a_bundle_is_named_by_its_file_or_its_folder() {
        let manifest = ("a.yaml", "kind: ConfigMap");
        let name = |path: &str, file: &str| {
            let files = [manifest, (FILE_NAME, file)];
            read(path, &files).map(|it| it.bundle.to_string())
        };
        assert_eq!(
            read("apps/Shop", &[manifest]).unwrap().bundle.as_str(),
            "b-shop"
        );
        assert_eq!(
            read(".", &[manifest]).unwrap().bundle.as_str(),
            "b-platform"
        );
        assert_eq!(name("apps/shop", "name: store\n").unwrap(), "b-store");
        assert_eq!(name("apps/shop", "namespace: x\n").unwrap(), "b-shop");
        let refused = name("apps/my_shop", "").unwrap_err();
        assert_eq!(refused.code, Code::BadSourceFolder);
        assert!(refused.cause.contains("apps/my_shop"), "{refused}");
    }

    #[test]
    fn invalid_options_are_refused_with_folder_and_field() {
        let files = [("a.yaml", "a"), (FILE_NAME, "namspace: x\n")];
        let refused = read("apps/shop", &files).unwrap_err();
        assert!(refused.cause.contains("apps/shop"), "{refused}");
        assert!(refused.cause.contains("namspace"), "{refused}");
        assert!(
            read("apps/shop", &[]).is_err(),
            "an empty folder has no content"
        );
        let files = [("a.yaml", "a"), (FILE_NAME, "dependsOn: [b-shop]\n")];
        assert!(read("apps/shop", &files).is_err());
    }

    #[test]
    fn folders_of_one_name_are_left_out_with_both_paths() {
        let files = [("a.yaml", "a")];
        let all = ["one/shop", "two/shop", "two/crds"].map(|path| read(path, &files).unwrap());
        let (kept, failures) = without_collisions(all.into());
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].path, "two/crds");
        let cause = &failures[0].cause;
        assert!(cause.contains("one/shop and two/shop"), "{cause}");
    }
}
