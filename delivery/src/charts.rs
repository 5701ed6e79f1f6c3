//! Charts of repositories and registries, fetched by the program helm.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use fairlead_api::delivery::Chart;
use fairlead_bundle::folder::{Folder, MAX_PACKED_BYTES};
use tempfile::TempDir;
use tokio::{
    process::Command,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::proxy::ProgramProxy;

/// Limit of the time for a chart.
const PULL_DEADLINE: Duration = Duration::from_secs(120);
/// Charts that are fetched and packed at the same time.
const MAX_PULLS: usize = 4;

/// Fetches charts. Clones share the limit.
#[derive(Debug, Clone)]
pub(crate) struct ChartFetcher {
    helm: Option<PathBuf>,
    proxy: ProgramProxy,
    turns: Arc<Semaphore>,
}

/// A chart's files. They keep their turn until they are packed, so that few are in memory at a time.
pub(crate) struct FetchedChart {
    pub(crate) folder: Folder,
    pub(crate) turn: OwnedSemaphorePermit,
}

impl ChartFetcher {
    /// Without the program helm each fetch fails.
    pub(crate) fn new(helm: Option<PathBuf>, proxy: ProgramProxy) -> Self {
        ChartFetcher {
            helm,
            proxy,
            turns: Arc::new(Semaphore::new(MAX_PULLS)),
        }
    }

    /// Fetches a chart.
    ///
    /// # Errors
    /// The chart, and the cause.
    pub(crate) async fn fetch(&self, chart: &Chart) -> Result<FetchedChart, String> {
        let fetched = self.pull(chart).await;
        fetched.map_err(|cause| format!("{}: {cause}", shown(chart)))
    }

    async fn pull(&self, chart: &Chart) -> Result<FetchedChart, String> {
        let arguments = arguments(chart)?;
        let helm = self.helm.as_ref();
        let helm = helm.ok_or("the hub was started without --helm")?;
        let turn = self.turns.clone().acquire_owned().await.map_err(text)?;
        let home = tempfile::tempdir().map_err(text)?;
        let mut command = self.command(helm, &home);
        let output = timeout(PULL_DEADLINE, command.args(arguments).output()).await;
        let seconds = PULL_DEADLINE.as_secs();
        let output = output.map_err(|_| format!("helm did not end within {seconds} s"))?;
        let output = output.map_err(|error| format!("helm cannot be started: {error}"))?;
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            let last = messages.lines().rfind(|it| !it.trim().is_empty());
            let last: String = last.unwrap_or("no message").chars().take(300).collect();
            return Err(format!("helm: {last}"));
        }
        let read = tokio::task::spawn_blocking(move || read_archive(&home));
        let folder = read.await.map_err(text)??;
        Ok(FetchedChart { folder, turn })
    }

    fn command(&self, helm: &PathBuf, home: &TempDir) -> Command {
        let mut command = Command::new(helm);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .args(["pull", "--destination"])
            .arg(home.path());
        self.proxy.set(&mut command);
        command
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Arguments of `helm pull` for a chart.
fn arguments(chart: &Chart) -> Result<Vec<String>, String> {
    let version = format!("--version={}", chart.version);
    let is_plain = |it: &&String| !it.starts_with('-') && !it.chars().any(char::is_control);
    match (&chart.oci, &chart.repository, &chart.name) {
        (Some(oci), None, _) if is_plain(&oci) && oci.starts_with("oci://") => {
            Ok(vec![version, "--".to_owned(), oci.clone()])
        }
        (None, Some(repository), Some(name)) if is_plain(&repository) && is_plain(&name) => {
            let repository = format!("--repo={repository}");
            Ok(vec![version, repository, "--".to_owned(), name.clone()])
        }
        _ => Err("expected `oci`, or `repository` and `name`".to_owned()),
    }
}

fn shown(chart: &Chart) -> String {
    let place = chart.oci.as_deref().or(chart.name.as_deref());
    format!("chart {} {}", place.unwrap_or("?"), chart.version)
}

/// The one archive that helm has written.
fn read_archive(home: &TempDir) -> Result<Folder, String> {
    let files = std::fs::read_dir(home.path()).map_err(|error| error.to_string())?;
    let mut paths = files.filter_map(Result::ok).map(|it| it.path());
    let archive = paths.find(|it| it.extension().is_some_and(|it| it == "tgz"));
    let archive = archive.ok_or("helm has written no archive")?;
    let file = std::fs::File::open(archive).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    if size > MAX_PACKED_BYTES {
        return Err(format!(
            "the chart has more than {} MiB packed",
            MAX_PACKED_BYTES >> 20
        ));
    }
    let folder = Folder::from_archive(file).map_err(|error| error.to_string())?;
    Ok(folder.without_top_folder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_never_begin_like_options() {
        let chart = |oci: Option<&str>, repository: Option<&str>, name: Option<&str>| Chart {
            oci: oci.map(str::to_owned),
            repository: repository.map(str::to_owned),
            name: name.map(str::to_owned),
            version: "1.2.3".to_owned(),
        };
        let repository = chart(None, Some("https://charts.test"), Some("web"));
        assert_eq!(
            arguments(&repository).unwrap(),
            ["--version=1.2.3", "--repo=https://charts.test", "--", "web"]
        );
        let oci = chart(Some("oci://registry.test/web"), None, None);
        assert_eq!(
            arguments(&oci).unwrap(),
            ["--version=1.2.3", "--", "oci://registry.test/web"]
        );
        for bad in [
            chart(None, None, Some("web")),
            chart(Some("https://x"), None, None),
            chart(None, Some("https://charts.test"), Some("--post-renderer=x")),
        ] {
            assert!(arguments(&bad).is_err(), "{bad:?}");
        }
    }
}
