//! Typed requests, and the command lines that the runner makes of them.

use std::{ffi::OsString, fmt, path::Path, str::FromStr};

use fairlead_api::{BundleId, RunId, delivery::SpecId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::{
    names::{FilePath, NameError, Namespace, ReleaseName},
    refusal::Refusal,
    work::POST_RENDERER,
};

/// Name of the program Helm in a request.
pub(crate) const HELM: &str = "helm";
/// Label of a release with the id of the run that wrote it.
pub(crate) const RUN_LABEL: &str = "fairlead-run";
/// Label of a release with the attempt of that run.
pub(crate) const ATTEMPT_LABEL: &str = "fairlead-attempt";
/// Label of a release with its bundle.
pub(crate) const BUNDLE_LABEL: &str = "fairlead-bundle";
/// Label of a release with its spec.
pub(crate) const SPEC_LABEL: &str = "fairlead-spec";
const SPEC_LABEL_CHARS: usize = 40;
const MAX_SERVER_URL_CHARS: usize = 512;

/// One attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunKey {
    /// Run.
    pub run: RunId,
    /// Attempt, from 1; it fences earlier ones.
    pub attempt: u32,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.attempt)
    }
}

impl FromStr for RunKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parse = || {
            let (run, attempt) = text.split_once('.')?;
            let key = RunKey {
                run: run.parse().ok()?,
                attempt: attempt.parse().ok()?,
            };
            // One text for each key: no sign, no leading zeros.
            (key.to_string() == text).then_some(key)
        };
        parse().ok_or_else(|| NameError::Key(text.to_owned()))
    }
}

impl TryFrom<String> for RunKey {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<RunKey> for String {
    fn from(key: RunKey) -> Self {
        key.to_string()
    }
}

/// Request to start a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunRequest {
    /// Name of the program in the runner's table: `helm`.
    pub program: String,
    /// Work of the program.
    pub operation: Operation,
    /// API server and token; none only for [`Operation::Version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterAccess>,
    /// Time until the program is terminated, in seconds.
    pub timeout_seconds: u32,
    /// Files that follow, in the order of their contents.
    #[serde(default)]
    pub files: Vec<FileEntry>,
}

/// One file of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path in the folder of the run.
    pub path: FilePath,
    /// Length in bytes.
    pub size: u64,
}

/// API server of the cluster, with the token of one run.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterAccess {
    /// URL of the API server.
    pub server: String,
    /// CA certificates as PEM; none: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Name in the certificate of the API server, if it is not the URL's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Token of the run. The runner writes it to a file, which can be renewed.
    pub token: String,
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Work of Helm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Operation {
    /// `helm upgrade --install`.
    UpgradeInstall(UpgradeInstall),
    /// `helm rollback`.
    Rollback(Rollback),
    /// `helm uninstall`.
    Uninstall(Uninstall),
    /// `helm status`, as JSON.
    Status(StatusQuery),
    /// `helm version`.
    Version,
}

/// Installation or upgrade of a release.
///
/// Helm waits for hooks only: the agent judges the health of the objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of Helm")]
pub struct UpgradeInstall {
    /// Release.
    pub release: ReleaseName,
    /// Namespace of the release.
    pub namespace: Namespace,
    /// Chart: a folder of the files, or a file `.tgz`.
    pub chart: FilePath,
    /// Files with values; later ones override earlier ones.
    #[serde(default)]
    pub values: Vec<FilePath>,
    /// Bundle, noted as a label of the release.
    pub bundle: BundleId,
    /// Spec, noted as a label of the release.
    pub spec: SpecId,
    /// Time for one hook, in seconds.
    pub timeout_seconds: u32,
    /// Number of revisions that Helm keeps.
    pub history_max: u32,
    /// True: the namespace is created.
    #[serde(default)]
    pub create_namespace: bool,
    /// True: objects of others become part of the release.
    #[serde(default)]
    pub take_ownership: bool,
    /// True: Helm installs no custom resource definitions of the chart.
    #[serde(default)]
    pub skip_crds: bool,
    /// True: fields of other managers are overwritten.
    #[serde(default)]
    pub force_conflicts: bool,
    /// True: the API server validates the objects, and nothing is written; the output is JSON.
    #[serde(default)]
    pub dry_run: bool,
    /// File with live values that the rendered objects keep; the runner's own post-renderer reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<FilePath>,
}

/// Return of a release to an earlier revision, as a new revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// Release.
    pub release: ReleaseName,
    /// Namespace of the release.
    pub namespace: Namespace,
    /// Revision with the desired content.
    pub revision: u32,
    /// Time for one hook, in seconds.
    pub timeout_seconds: u32,
    /// Number of revisions that Helm keeps.
    pub history_max: u32,
}

/// Removal of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Uninstall {
    /// Release.
    pub release: ReleaseName,
    /// Namespace of the release.
    pub namespace: Namespace,
    /// Time for one hook, in seconds.
    pub timeout_seconds: u32,
}

/// Query of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusQuery {
    /// Release.
    pub release: ReleaseName,
    /// Namespace of the release.
    pub namespace: Namespace,
}

/// Text of a spec in the label `fairlead-spec` of a release: its first 40 digits, since a label has 63 characters at most.
#[must_use]
pub fn spec_label(spec: &SpecId) -> String {
    let digits = spec.as_str().trim_start_matches("sha256:");
    digits.chars().take(SPEC_LABEL_CHARS).collect()
}

/// Description of a revision that a run deployed. Unlike labels, later revisions of others do not inherit it.
#[must_use]
pub fn release_description(key: &RunKey) -> String {
    format!("Fairlead {}, attempt {}", key.run, key.attempt)
}

impl Operation {
    /// Name for people and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Operation::UpgradeInstall(_) => "upgrade-install",
            Operation::Rollback(_) => "rollback",
            Operation::Uninstall(_) => "uninstall",
            Operation::Status(_) => "status",
            Operation::Version => "version",
        }
    }

    /// Whether the output is for programs: then it holds stdout alone.
    pub(crate) fn is_query(&self) -> bool {
        match self {
            Operation::UpgradeInstall(upgrade) => upgrade.dry_run,
            Operation::Rollback(_) | Operation::Uninstall(_) => false,
            Operation::Status(_) | Operation::Version => true,
        }
    }

    /// Arguments of Helm. `files` is the folder with the files of the run.
    ///
    /// Each name has been parsed, and none starts with a dash. Values of flags are joined to them by `=`.
    pub(crate) fn args(&self, key: &RunKey, files: &Path) -> Vec<OsString> {
        let mut args = Arguments::default();
        match self {
            Operation::UpgradeInstall(it) => {
                args.words(&["upgrade", "--install"]);
                args.word(it.release.as_str());
                args.path("", files, &it.chart);
                args.flag("--namespace", &it.namespace);
                for values in &it.values {
                    args.path("--values=", files, values);
                }
                let RunKey { run, attempt } = key;
                let (bundle, spec) = (&it.bundle, spec_label(&it.spec));
                let labels = format!(
                    "{RUN_LABEL}={run},{ATTEMPT_LABEL}={attempt},{BUNDLE_LABEL}={bundle},{SPEC_LABEL}={spec}"
                );
                args.flag("--labels", labels);
                args.flag("--description", release_description(key));
                args.flag("--history-max", it.history_max);
                args.words(&["--wait=hookOnly", "--server-side=auto", "--reset-values"]);
                args.seconds(it.timeout_seconds);
                args.switch("--create-namespace", it.create_namespace);
                args.switch("--take-ownership", it.take_ownership);
                args.switch("--skip-crds", it.skip_crds);
                args.switch("--force-conflicts", it.force_conflicts);
                args.switch("--dry-run=server", it.dry_run);
                args.switch("--output=json", it.dry_run);
                args.switch(
                    &format!("--post-renderer={POST_RENDERER}"),
                    it.kept.is_some(),
                );
            }
            Operation::Rollback(it) => {
                args.word("rollback");
                args.word(it.release.as_str());
                args.word(&it.revision.to_string());
                args.flag("--namespace", &it.namespace);
                args.flag("--history-max", it.history_max);
                args.words(&["--wait=hookOnly", "--server-side=auto"]);
                args.seconds(it.timeout_seconds);
            }
            Operation::Uninstall(it) => {
                args.word("uninstall");
                args.word(it.release.as_str());
                args.flag("--namespace", &it.namespace);
                args.words(&["--ignore-not-found", "--wait=hookOnly"]);
                args.seconds(it.timeout_seconds);
            }
            Operation::Status(it) => {
                args.word("status");
                args.word(it.release.as_str());
                args.flag("--namespace", &it.namespace);
                args.word("--output=json");
            }
            Operation::Version => args.words(&["version", "--short"]),
        }
        args.0
    }

    /// File of the post-renderer, if the program needs one.
    pub(crate) fn kept(&self) -> Option<&FilePath> {
        match self {
            Operation::UpgradeInstall(upgrade) => upgrade.kept.as_ref(),
            _ => None,
        }
    }

    fn files(&self) -> impl Iterator<Item = &FilePath> {
        let upgrade = match self {
            Operation::UpgradeInstall(upgrade) => Some(upgrade),
            _ => None,
        };
        upgrade
            .into_iter()
            .flat_map(|it| it.values.iter().chain([&it.chart]).chain(&it.kept))
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn word(&mut self, word: &str) {
        self.0.push(word.into());
    }

    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn flag(&mut self, name: &str, value: impl fmt::Display) {
        self.0.push(format!("{name}={value}").into());
    }

    fn seconds(&mut self, timeout: u32) {
        self.flag("--timeout", format_args!("{timeout}s"));
    }

    fn switch(&mut self, name: &str, on: bool) {
        if on {
            self.word(name);
        }
    }

    fn path(&mut self, flag: &str, files: &Path, path: &FilePath) {
        let mut argument = OsString::from(flag);
        argument.push(files.join(path.to_path()));
        self.0.push(argument);
    }
}

impl RunRequest {
    /// Checks everything that types do not hold: program, access, paths, sizes.
    pub(crate) fn check(&self, max_bytes: u64, max_files: usize) -> Result<(), Refusal> {
        let invalid = |text: &str| Err(Refusal::Invalid(text.to_owned()));
        if self.program != HELM {
            return Err(Refusal::UnknownProgram(self.program.clone()));
        }
        match (&self.cluster, &self.operation) {
            (None, Operation::Version) => {}
            (None, _) => return invalid("the access to the cluster is missing"),
            (Some(cluster), _) => cluster.check()?,
        }
        if self.timeout_seconds == 0 {
            return invalid("a timeout has one second at least");
        }
        let mut bytes = self.files.iter().map(|file| file.size);
        let bytes = bytes.try_fold(0_u64, u64::checked_add);
        if self.files.len() > max_files || bytes.is_none_or(|bytes| bytes > max_bytes) {
            return Err(Refusal::TooLarge);
        }
        for path in self.operation.files() {
            if !self.files.iter().any(|file| path.contains(&file.path)) {
                return Err(Refusal::Invalid(format!(
                    "no file of the request is {path}"
                )));
            }
            // Helm reads the flag `--values` as a list with commas and quotes.
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if !path.as_str().chars().all(plain) {
                return Err(Refusal::Invalid(format!(
                    "{path} has characters that Helm splits"
                )));
            }
        }
        Ok(())
    }

    /// Whether both requests start the same run. A token may differ: it was renewed.
    pub(crate) fn is_same(&self, other: &RunRequest) -> bool {
        let server = |it: &RunRequest| it.cluster.as_ref().map(|cluster| cluster.server.clone());
        self.program == other.program
            && self.operation == other.operation
            && self.files == other.files
            && server(self) == server(other)
    }
}

impl ClusterAccess {
    fn check(&self) -> Result<(), Refusal> {
        let invalid = |text: &str| Err(Refusal::Invalid(text.to_owned()));
        let plain = |text: &str| text.bytes().all(|c| c.is_ascii_graphic());
        let is_url = self.server.starts_with("https://") || self.server.starts_with("http://");
        if !is_url || !plain(&self.server) || self.server.len() > MAX_SERVER_URL_CHARS {
            return invalid("the URL of the API server is invalid");
        }
        check_token(&self.token)
    }

    /// Kubeconfig with the path of the token's file: Helm reads that file again, so a renewed token takes effect.
    pub(crate) fn kubeconfig(&self, token_file: &Path, ca_file: Option<&Path>) -> String {
        let mut cluster = Map::new();
        cluster.insert("server".into(), json!(self.server));
        if let Some(ca_file) = ca_file {
            cluster.insert("certificate-authority".into(), json!(ca_file));
        }
        if let Some(name) = &self.tls_server_name {
            cluster.insert("tls-server-name".into(), json!(name));
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "run", "user": {"tokenFile": token_file}}],
            "contexts": [{"name": "run", "context": {"cluster": "cluster", "user": "run"}}],
            "current-context": "run",
        })
        .to_string()
    }
}

/// Checks the form of a token: one line of printable ASCII.
pub(crate) fn check_token(token: &str) -> Result<(), Refusal> {
    if token.is_empty() || !token.bytes().all(|c| c.is_ascii_graphic()) {
        return Err(Refusal::Invalid(
            "the token is not one printable word".into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
