//! Chart of a bundle: its files for the runner, and the custom resource definitions of its folders `crds`.
//!
//! Helm installs definitions once and never changes them, so that the agent applies them itself. It needs those of enabled
//! dependencies only, and judges `condition` and `tags` as Helm does.

mod dependencies;

use std::collections::BTreeSet;

use bytes::Bytes;
use fairlead_bundle::{
    fields::{CHART_FILE_NAME, FILE_NAME},
    folder::{Folder, FolderError},
    merge_values,
};
use fairlead_manifests::{
    ObjectKey,
    yaml::{self, Manifest, ManifestError},
};
use fairlead_runner::{FilePath, NameError, RunFile};
use serde_json::{Map, Value};

use dependencies::Dependencies;

/// Path of the chart in the work folder of a run.
const CHART_PATH: &str = "chart";
const PACKED_CHART_PATH: &str = "chart.tgz";
/// Largest depth of dependencies in dependencies.
const MAX_DEPTH: usize = 8;

/// Folder that Helm cannot use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChartError {
    /// There is no chart.
    #[error("the folder has no file Chart.yaml")]
    Missing,
    /// A packed chart cannot be read.
    #[error("{0}: {1}")]
    Packed(String, #[source] FolderError),
    /// A file is no YAML, or a definition has no name.
    #[error(transparent)]
    Yaml(#[from] ManifestError),
    /// The runner takes no file with this name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Dependencies are nested too deeply.
    #[error("dependencies are nested deeper than {MAX_DEPTH}")]
    Depth,
}

/// Chart for the runner.
#[derive(Debug)]
pub(crate) struct Chart {
    /// Folder or archive of the chart in the work folder.
    pub(crate) path: FilePath,
    pub(crate) files: Vec<RunFile>,
    /// Definitions of the chart and of its enabled dependencies, each once.
    pub(crate) definitions: Vec<Manifest>,
}

impl Chart {
    /// Chart in a folder: its root, its only folder, or its only packed chart. `values` enable dependencies.
    pub(crate) fn of(folder: &Folder, values: &Value) -> Result<Self, ChartError> {
        let (root, files, path) = locate(folder)?;
        let mut definitions = Vec::new();
        collect(&root, values.clone(), 0, &mut definitions)?;
        let mut seen = BTreeSet::new();
        definitions.retain(|it| ObjectKey::of(&it.object).is_some_and(|key| seen.insert(key)));
        Ok(Chart {
            path: path.parse()?,
            files,
            definitions,
        })
    }
}

/// Files of one chart by their path in it.
type Files<'a> = Vec<(&'a str, &'a [u8])>;

enum Tree<'a> {
    Borrowed(Files<'a>),
    Unpacked(Folder),
}

impl Tree<'_> {
    fn files(&self) -> Files<'_> {
        match self {
            Tree::Borrowed(files) => files.clone(),
            Tree::Unpacked(folder) => all(folder),
        }
    }
}

fn all(folder: &Folder) -> Files<'_> {
    let files = folder.iter();
    files
        .map(|(path, content)| (path.as_str(), content.as_slice()))
        .collect()
}

fn locate(folder: &Folder) -> Result<(Tree<'_>, Vec<RunFile>, &'static str), ChartError> {
    let files: Files<'_> = all(folder)
        .into_iter()
        .filter(|(path, _)| *path != FILE_NAME)
        .collect();
    let charts = files.iter().filter_map(|(path, _)| {
        let prefix = path.strip_suffix(CHART_FILE_NAME)?;
        (prefix.is_empty() || prefix.find('/') == Some(prefix.len() - 1)).then_some(prefix)
    });
    // The root comes first: an empty prefix is the shortest one.
    let mut prefixes: Vec<&str> = charts.collect();
    prefixes.sort_unstable();
    match &prefixes[..] {
        ["", ..] => in_folder(&files, ""),
        [prefix] => in_folder(&files, prefix),
        [] => packed(&files),
        _ => Err(ChartError::Missing),
    }
}

fn in_folder<'a>(
    files: &Files<'a>,
    prefix: &str,
) -> Result<(Tree<'a>, Vec<RunFile>, &'static str), ChartError> {
    let files = below(files, prefix);
    let run_file = |(path, content): &(&str, &[u8])| {
        Ok(RunFile {
            path: format!("{CHART_PATH}/{path}").parse()?,
            content: Bytes::copy_from_slice(content),
        })
    };
    let run_files = files
        .iter()
        .map(run_file)
        .collect::<Result<_, NameError>>()?;
    Ok((Tree::Borrowed(files), run_files, CHART_PATH))
}

fn packed<'a>(files: &Files<'a>) -> Result<(Tree<'a>, Vec<RunFile>, &'static str), ChartError> {
    let mut archives = files
        .iter()
        .filter(|(path, _)| path.ends_with(".tgz") && !path.contains('/'));
    let (Some((path, content)), None) = (archives.next(), archives.next()) else {
        return Err(ChartError::Missing);
    };
    let file = RunFile {
        path: PACKED_CHART_PATH.parse()?,
        content: Bytes::copy_from_slice(content),
    };
    Ok((unpacked(path, content)?, vec![file], PACKED_CHART_PATH))
}

fn unpacked<'a>(path: &str, content: &[u8]) -> Result<Tree<'a>, ChartError> {
    let folder = Folder::from_archive(content)
        .map_err(|error| ChartError::Packed(path.to_owned(), error))?;
    Ok(Tree::Unpacked(folder.without_top_folder()))
}

fn below<'a>(files: &Files<'a>, prefix: &str) -> Files<'a> {
    let below = files.iter();
    below
        .filter_map(|(path, content)| Some((path.strip_prefix(prefix)?, *content)))
        .collect()
}

/// Adds the definitions of a chart, then those of its enabled dependencies.
fn collect(
    tree: &Tree<'_>,
    given: Value,
    depth: usize,
    definitions: &mut Vec<Manifest>,
) -> Result<(), ChartError> {
    if depth > MAX_DEPTH {
        return Err(ChartError::Depth);
    }
    let files = tree.files();
    for (path, content) in &files {
        let is_yaml = [".yaml", ".yml", ".json"]
            .iter()
            .any(|extension| path.ends_with(extension));
        if path.starts_with("crds/") && is_yaml {
            definitions.extend(yaml::parse(path, content)?);
        }
    }
    let values = with_defaults(&files, given)?;
    let dependencies = Dependencies::of(&files)?;
    for (name, child) in children(&files)? {
        let name = chart_name(&child.files())?.unwrap_or(name);
        for key in dependencies.enabled(&name, &values) {
            let given = values.get(&key).cloned().unwrap_or(Value::Null);
            collect(&child, given, depth + 1, definitions)?;
        }
    }
    Ok(())
}

/// Values of the file `values.yaml`, overridden by the given ones.
fn with_defaults(files: &Files<'_>, given: Value) -> Result<Map<String, Value>, ChartError> {
    let mut values = match document(files, "values.yaml")? {
        Some(Value::Object(values)) => values,
        _ => Map::new(),
    };
    if let Value::Object(given) = given {
        merge_values(&mut values, &given);
    }
    Ok(values)
}

fn document(files: &Files<'_>, name: &str) -> Result<Option<Value>, ChartError> {
    let Some((path, content)) = files.iter().find(|(path, _)| *path == name) else {
        return Ok(None);
    };
    let documents = yaml::values(path, content)?;
    Ok(documents.into_iter().next().map(|(value, _)| value))
}

fn chart_name(files: &Files<'_>) -> Result<Option<String>, ChartError> {
    let chart = document(files, CHART_FILE_NAME)?;
    let name = chart.as_ref().and_then(|it| it.get("name")?.as_str());
    Ok(name.map(str::to_owned))
}

/// Charts in the folder `charts`, by the name of their folder or archive.
fn children<'a>(files: &Files<'a>) -> Result<Vec<(String, Tree<'a>)>, ChartError> {
    let mut children = Vec::new();
    let mut folders = BTreeSet::new();
    for (path, content) in files {
        let Some(rest) = path.strip_prefix("charts/") else {
            continue;
        };
        match rest.split_once('/') {
            // Helm leaves these out.
            Some((name, _)) if name.starts_with(['_', '.']) => {}
            Some((name, _)) if folders.insert(name) => {
                let tree = Tree::Borrowed(below(files, &format!("charts/{name}/")));
                children.push((name.to_owned(), tree));
            }
            None if rest.ends_with(".tgz") => {
                children.push((rest.to_owned(), unpacked(path, content)?));
            }
            _ => {}
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests;
