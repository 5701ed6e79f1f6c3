//! Fetches one commit into a bare repository of the cache, and verifies its signature.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_api::Code;
use tokio::time::sleep;

use super::{
    access::GitAccess,
    failure::SourceFailure,
    git::{Git, GitCall},
    remote::RemoteTarget,
};

/// Name of the fetched commit in the cache.
const FETCHED: &str = "refs/fairlead/fetched";
/// Limit of the time of a fetch.
const FETCH_DEADLINE: Duration = Duration::from_secs(300);
/// Limit of the growth of the cache in one fetch, in bytes.
pub(super) const MAX_FETCH_BYTES: u64 = 512 * 1024 * 1024;
/// Interval at which the size of a running fetch is measured.
const MEASURE_INTERVAL: Duration = Duration::from_millis(250);
/// Number of packs above which the cache is made anew: packs of old commits are never read again.
const MAX_PACKS: usize = 20;

/// A bare repository in the cache.
#[derive(Debug, Clone)]
pub(super) struct CachedRepository {
    folder: PathBuf,
    /// Limit of the growth in one fetch, in bytes.
    max_growth: u64,
}

impl CachedRepository {
    pub(super) fn at(folder: PathBuf, max_growth: u64) -> Self {
        CachedRepository { folder, max_growth }
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Fetches the target, and returns its commit: the branch may have moved since the poll.
    ///
    /// # Errors
    /// [`SourceFailure`]
    pub(super) async fn fetch(
        &self,
        git: &Git,
        access: &GitAccess,
        (url, target): (&str, &RemoteTarget),
    ) -> Result<String, SourceFailure> {
        self.prepare(git).await?;
        let refspec = format!("+{}:{FETCHED}", target.fetch);
        let mut call = GitCall::new([
            "fetch",
            "--quiet",
            "--depth",
            "1",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--",
            url,
            &refspec,
        ]);
        call.deadline = FETCH_DEADLINE;
        let call = call.environment(&access.environment);
        self.run_limited(git, call).await?;
        let commit = format!("{FETCHED}^{{commit}}");
        let call = GitCall::new(["rev-parse", "--verify", "--end-of-options", &commit]);
        let output = git.run(Some(&self.folder), call).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    /// Runs a fetch, and ends it beyond the limit of the growth: git has no such limit of its own. The cache is deleted then.
    async fn run_limited(&self, git: &Git, call: GitCall<'_>) -> Result<(), SourceFailure> {
        let limit = bytes_of(&self.folder).saturating_add(self.max_growth);
        let is_larger = || bytes_of(&self.folder) > limit;
        let grows = async {
            while !is_larger() {
                sleep(MEASURE_INTERVAL).await;
            }
        };
        let done = tokio::select! {
            done = git.run(Some(&self.folder), call) => Some(done),
            () = grows => None,
        };
        match done {
            Some(done) if !is_larger() => done.map(drop),
            _ => {
                fs::remove_dir_all(&self.folder).map_err(cache_failed)?;
                let limit = self.max_growth >> 20;
                let cause = format!("the commit has more than {limit} MiB in git's packed form");
                Err(SourceFailure::git(cause))
            }
        }
    }

    /// Creates the repository, or makes it anew when it has too many packs.
    async fn prepare(&self, git: &Git) -> Result<(), SourceFailure> {
        if packs(&self.folder) > MAX_PACKS {
            fs::remove_dir_all(&self.folder).map_err(cache_failed)?;
        }
        if self.folder.join("HEAD").exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(cache_failed)?;
        let call = GitCall::new(["init", "--quiet", "--bare", "--template="]);
        git.run(Some(&self.folder), call).await?;
        Ok(())
    }

    /// Checks that an allowed signer has signed the commit.
    ///
    /// # Errors
    /// `FL-6605`
    pub(super) async fn verify(
        &self,
        git: &Git,
        access: &GitAccess,
        (commit, signers): (&str, &str),
    ) -> Result<(), SourceFailure> {
        let file = access.file("allowed_signers", signers)?;
        let setting = format!("gpg.ssh.allowedSignersFile={}", file.display());
        let call = GitCall::new([
            "-c",
            "gpg.format=ssh",
            "-c",
            &setting,
            "-c",
            "gpg.minTrustLevel=fully",
            "verify-commit",
            "--end-of-options",
            commit,
        ]);
        let verified = git.run(Some(&self.folder), call).await;
        verified.map(drop).map_err(|failure| {
            let short: String = commit.chars().take(12).collect();
            let cause = format!(
                "commit {short} is unsigned, or signed by somebody else ({})",
                failure.cause
            );
            SourceFailure::new(Code::CommitNotSigned, cause)
        })
    }
}

fn cache_failed(error: io::Error) -> SourceFailure {
    SourceFailure::git(format!("cache of repositories: {error}"))
}

/// Size of the packs and loose objects of a repository, in bytes. Files may vanish meanwhile.
fn bytes_of(repository: &Path) -> u64 {
    let mut folders = vec![repository.join("objects")];
    let mut bytes = 0_u64;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            match entry.metadata() {
                Ok(it) if it.is_dir() => folders.push(entry.path()),
                Ok(it) => bytes = bytes.saturating_add(it.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

fn packs(repository: &Path) -> usize {
    let Ok(files) = fs::read_dir(repository.join("objects/pack")) else {
        return 0;
    };
    let names = files.filter_map(Result::ok).map(|it| it.file_name());
    names
        .filter(|it| it.to_str().is_some_and(|it| it.ends_with(".pack")))
        .count()
}
