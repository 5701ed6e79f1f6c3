//! Reconciliation of one repository, the same for all providers: read, create or adopt by policy,
//! description, deploy keys, files. Each step changes only differences, so that a repeated call
//! continues an interrupted one.

mod access_token;
mod files;
mod keys;
mod owner_mark;
mod variables;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fairlead_api::resources::{CreationPolicy, GeneratedKey};
use fairlead_repositories::{
    DesiredRepo, GitServerError, KnownRepo, RepoOwner, ReportedAccessToken, RetiredRepo,
    Retirement, access_token_name,
};

use crate::{
    address::RepoPath,
    api_calls::CallError,
    credential_place::CredentialPlace,
    provider::{FoundRepo, Provider},
    variable_values::VariableValues,
};

/// A provider with the settings of its server.
pub(crate) struct Reconciler<'a> {
    pub(crate) provider: &'a dyn Provider,
    /// Name of the server, for reasons.
    pub(crate) server: &'a str,
    pub(crate) creates_groups: bool,
}

/// A desired repository with the knowledge of the hub about it.
pub(crate) struct RepoWish<'a> {
    pub(crate) path: &'a RepoPath,
    pub(crate) desired: &'a DesiredRepo,
    pub(crate) known: &'a KnownRepo,
    /// True if this repository was provided before.
    pub(crate) is_known: bool,
    pub(crate) values: VariableValues<'a>,
}

/// Result of a reconciliation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reconciled {
    pub(crate) deploy_keys: BTreeSet<String>,
    /// Public halves of the generated keys.
    pub(crate) generated_keys: BTreeMap<String, GeneratedKey>,
    /// Ids of the blobs of declared files.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) ci_variables: BTreeSet<String>,
    pub(crate) access_token: Option<ReportedAccessToken>,
    /// Differences that were removed.
    pub(crate) corrected: Vec<String>,
    /// Reasons for parts that are not as desired.
    pub(crate) unmet: Vec<String>,
}

impl Reconciler<'_> {
    /// Makes the repository as desired.
    ///
    /// # Errors
    /// [`GitServerError`]
    pub(crate) async fn ensure(&self, wish: &RepoWish<'_>) -> Result<Reconciled, GitServerError> {
        let RepoWish {
            path,
            desired,
            known,
            is_known,
            ref values,
        } = *wish;
        self.check_path(path)?;
        let (mut corrected, mut unmet) = (Vec::new(), Vec::new());
        let description = owner_mark::description(&desired.title, &desired.owner);
        let found = self.provider.read(path).await;
        let repo = match found.map_err(|error| self.error("reading the repository", error))? {
            Some(repo) => {
                self.check_owner(path, &repo, desired, is_known)?;
                self.adopt(&repo, desired, &description, &mut corrected)
                    .await?;
                repo
            }
            None => {
                corrected.push("repository".to_owned());
                self.create(path, &description).await?
            }
        };
        let keys = keys::reconcile(self, &repo, wish, &mut corrected).await?;
        // Files of an earlier repository with another URL are not those of this one.
        let none = BTreeMap::new();
        let written = if is_known { &known.files } else { &none };
        // Variables are first: a commit starts a pipeline, which needs them.
        let variables = variables::reconcile(self, &repo, desired, known, values).await?;
        corrected.extend(variables.corrected);
        unmet.extend(variables.unmet);
        let files = files::reconcile(self, &repo, desired, written, &mut corrected).await?;
        let place = CredentialPlace {
            server: values.server,
            tenant: &desired.tenant,
            name: access_token_name(&desired.owner),
            kind: "access token",
        };
        let token =
            access_token::reconcile(self, &repo, desired, known, &place, &mut corrected).await;
        let access_token = match token {
            // The rest is as desired, and the hub has to know that.
            Err(GitServerError::Rejected(reason)) => {
                unmet.push(reason);
                Some(ReportedAccessToken::Failed)
            }
            token => token?,
        };
        Ok(Reconciled {
            deploy_keys: keys.names,
            generated_keys: keys.generated,
            files,
            ci_variables: variables.names,
            access_token,
            corrected,
            unmet,
        })
    }

    /// Checks that the repository is that of its owner. Whoever may change a record chooses its URL, and the hub's token
    /// reaches the repositories of all tenants.
    ///
    /// # Errors
    /// [`GitServerError`]
    pub(crate) async fn check_own(
        &self,
        path: &RepoPath,
        owner: &RepoOwner,
    ) -> Result<(), GitServerError> {
        let found = self.provider.read(path).await;
        let found = found.map_err(|error| self.error("reading the repository", error))?;
        let missing = || format!("{path} does not exist on {}", self.server);
        let repo = found.ok_or_else(|| GitServerError::Rejected(missing()))?;
        self.check_marked(path, &repo, owner.as_str())
    }

    /// Archives or deletes a repository; a missing one is a success. A repository that names
    /// another owner stays.
    ///
    /// # Errors
    /// [`GitServerError`]
    pub(crate) async fn retire(
        &self,
        path: &RepoPath,
        retired: &RetiredRepo,
    ) -> Result<(), GitServerError> {
        let found = self.provider.read(path).await;
        let found = found.map_err(|error| self.error("reading the repository", error))?;
        let Some(repo) = found else {
            return Ok(());
        };
        self.check_marked(path, &repo, retired.owner.as_str())?;
        // Before the end of the repository: an archived one can still be read with its tokens.
        if retired.has_access_token {
            access_token::revoke_all(self, &repo, &retired.owner).await?;
        }
        let (action, done) = match retired.retirement {
            Retirement::Archive if repo.archived => return Ok(()),
            Retirement::Archive => (
                "archiving the repository",
                self.provider.set_archived(&repo, true).await,
            ),
            Retirement::Delete => ("deleting the repository", self.provider.delete(&repo).await),
        };
        match done {
            Err(CallError::Missing) => Ok(()),
            done => done.map_err(|error| self.error(action, error)),
        }
    }

    fn check_marked(
        &self,
        path: &RepoPath,
        repo: &FoundRepo,
        owner: &str,
    ) -> Result<(), GitServerError> {
        self.check_renamed(path, repo)?;
        if owner_mark::owner_of(&repo.description) == Some(owner) {
            return Ok(());
        }
        Err(GitServerError::Rejected(format!(
            "the description of {path} on {} does not name {owner}; it may belong to somebody else",
            self.server
        )))
    }

    fn check_path(&self, path: &RepoPath) -> Result<(), GitServerError> {
        if path.group.contains('/') && !self.provider.has_subgroups() {
            let cause = format!("{} has no groups within groups: {path}", self.server);
            return Err(GitServerError::Rejected(cause));
        }
        Ok(())
    }

    /// Rejects a repository of somebody else. One that names another owner is never adopted: the hub's token reaches the
    /// repositories of all tenants, and both owners would change it in turns.
    fn check_owner(
        &self,
        path: &RepoPath,
        repo: &FoundRepo,
        desired: &DesiredRepo,
        is_known: bool,
    ) -> Result<(), GitServerError> {
        self.check_renamed(path, repo)?;
        let marked = owner_mark::owner_of(&repo.description);
        let own = desired.owner.as_str();
        if let Some(other) = marked.filter(|it| *it != own) {
            return Err(GitServerError::Rejected(format!(
                "{path} on {} belongs to {other}; give one of them another URL, or clear the description on the server",
                self.server
            )));
        }
        let is_ours = is_known || marked == Some(own);
        if is_ours || desired.creation_policy == Some(CreationPolicy::Adopt) {
            return Ok(());
        }
        Err(GitServerError::Rejected(format!(
            "{path} exists on {} already; set creationPolicy to Adopt to take it over, or choose another name",
            self.server
        )))
    }

    fn check_renamed(&self, path: &RepoPath, repo: &FoundRepo) -> Result<(), GitServerError> {
        if path.is(&repo.path) {
            return Ok(());
        }
        let (server, new) = (self.server, &repo.path);
        Err(GitServerError::Rejected(format!(
            "{path} was renamed to {new} on {server}; set the new URL, or rename it back"
        )))
    }

    async fn adopt(
        &self,
        repo: &FoundRepo,
        desired: &DesiredRepo,
        description: &str,
        corrected: &mut Vec<String>,
    ) -> Result<(), GitServerError> {
        if repo.archived {
            if desired.creation_policy != Some(CreationPolicy::Adopt) {
                return Err(GitServerError::Rejected(format!(
                    "{} is archived on {}; unarchive it there, or set creationPolicy to Adopt",
                    repo.path, self.server
                )));
            }
            let done = self.provider.set_archived(repo, false).await;
            done.map_err(|error| self.error("unarchiving the repository", error))?;
            corrected.push("archived".to_owned());
        }
        if repo.description != description {
            let done = self.provider.describe(repo, description).await;
            done.map_err(|error| self.error("changing the description", error))?;
            corrected.push("description".to_owned());
        }
        Ok(())
    }

    async fn create(
        &self,
        path: &RepoPath,
        description: &str,
    ) -> Result<FoundRepo, GitServerError> {
        self.ensure_group(&path.group).await?;
        match self.provider.create(path, description).await {
            Ok(repo) => Ok(repo),
            // Another call may have created it meanwhile, or the token may not see it.
            Err(error @ (CallError::Conflict(_) | CallError::Refused(_))) => {
                match self.provider.read(path).await {
                    Ok(Some(repo)) if repo.description == description => Ok(repo),
                    _ => Err(self.error("creating the repository", error)),
                }
            }
            Err(error) => Err(self.error("creating the repository", error)),
        }
    }

    /// Checks that the group exists, and creates it with its parents if the settings allow that.
    async fn ensure_group(&self, group: &str) -> Result<(), GitServerError> {
        let checked = self.provider.has_group(group).await;
        if checked.map_err(|error| self.error("reading the group", error))? {
            return Ok(());
        }
        if !self.creates_groups {
            return Err(GitServerError::Rejected(format!(
                "{} has no group {group}, or hides it from the hub's token; create it, or set create_groups for this server",
                self.server
            )));
        }
        let ends = group.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([group.len()]) {
            let part = group.get(..end).unwrap_or(group);
            let exists = self.provider.has_group(part).await;
            if exists.map_err(|error| self.error("reading the group", error))? {
                continue;
            }
            let made = self.provider.create_group(part).await;
            made.map_err(|error| self.error("creating the group", error))?;
        }
        Ok(())
    }

    fn error(&self, action: &str, error: CallError) -> GitServerError {
        server_error(self.server, action, error)
    }
}

/// Error of an action for people, like `git.example: creating the group: status 500`.
pub(crate) fn server_error(server: &str, action: &str, error: CallError) -> GitServerError {
    let reason = format!("{server}: {action}: {error}");
    match error {
        CallError::Throttled { wait } => GitServerError::Throttled {
            reason: throttled(server, wait),
            wait,
        },
        CallError::Unavailable(_) => GitServerError::Unavailable(reason),
        CallError::Unauthorized(_) => GitServerError::Rejected(format!(
            "{reason}; replace the token of this server, which may have expired"
        )),
        _ => GitServerError::Rejected(reason),
    }
}

fn throttled(server: &str, wait: Duration) -> String {
    let seconds = wait.as_secs();
    format!("{server} limits the rate of requests; the next one follows in {seconds} s")
}
