//! Fetches one commit into a bare repository of the cache, and verifies its signature.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_api::Code;

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
/// Number of packs above which the cache is made anew: packs of old commits are never read again.
const MAX_PACKS: usize = 20;

/// A bare repository in the cache.
#[derive(Debug, Clone)]
pub(super) struct CachedRepository(PathBuf);

impl CachedRepository {
    pub(super) fn at(folder: PathBuf) -> Self {
        CachedRepository(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
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
        git.run(Some(&self.0), call).await?;
        let commit = format!("{FETCHED}^{{commit}}");
        let call = GitCall::new(["rev-parse", "--verify", "--end-of-options", &commit]);
        let output = git.run(Some(&self.0), call).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    /// Creates the repository, or makes it anew when it has too many packs.
    async fn prepare(&self, git: &Git) -> Result<(), SourceFailure> {
        let failed =
            |error: io::Error| SourceFailure::git(format!("cache of repositories: {error}"));
        if packs(&self.0) > MAX_PACKS {
            fs::remove_dir_all(&self.0).map_err(failed)?;
        }
        if self.0.join("HEAD").exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.0).map_err(failed)?;
        let call = GitCall::new(["init", "--quiet", "--bare", "--template="]);
        git.run(Some(&self.0), call).await?;
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
        let verified = git.run(Some(&self.0), call).await;
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

fn packs(repository: &Path) -> usize {
    let Ok(files) = fs::read_dir(repository.join("objects/pack")) else {
        return 0;
    };
    let names = files.filter_map(Result::ok).map(|it| it.file_name());
    names
        .filter(|it| it.to_str().is_some_and(|it| it.ends_with(".pack")))
        .count()
}
