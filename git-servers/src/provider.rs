//! Operations of a Git server that all providers have, each in the words of its own API. No
//! decisions: [`crate::reconcile`] makes them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fairlead_api::resources::{AccessTokenSettings, DeployKey};
use secrecy::SecretString;
use time::{Date, OffsetDateTime};

use crate::{address::RepoPath, api_calls::CallError, merge_requests::MergeRequestCalls};

/// Entries of a page of a list, the most that all providers allow but Gitea, which has its own limit.
pub(crate) const PAGE_SIZE: &str = "100";
/// Branch of the first commit if the server names none.
pub(crate) const FIRST_BRANCH: &str = "main";
/// Limit of a list's pages. A server that never ends its list is stopped there.
pub(crate) const MAX_PAGES: u32 = 200;

/// A repository as its server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundRepo {
    /// Id for further requests, in the form of the provider.
    pub(crate) id: String,
    pub(crate) path: RepoPath,
    pub(crate) description: String,
    pub(crate) archived: bool,
    /// Default branch; of an empty repository, that of its first commit.
    pub(crate) branch: String,
    /// True if it has no commits. Not every provider tells.
    pub(crate) is_empty: bool,
}

/// A deploy key as its server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundKey {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) key: String,
    pub(crate) write_access: bool,
}

/// A CI variable as its server has it.
#[derive(Debug, Clone)]
pub(crate) struct FoundVariable {
    pub(crate) name: String,
    /// `None` if the server does not return it.
    pub(crate) value: Option<SecretString>,
    pub(crate) protected: bool,
    pub(crate) masked: bool,
    pub(crate) raw: bool,
}

/// A CI variable to set.
#[derive(Debug)]
pub(crate) struct SetVariable {
    /// Name in the form of the provider.
    pub(crate) name: String,
    pub(crate) value: SecretString,
    pub(crate) protected: bool,
    pub(crate) masked: bool,
    pub(crate) raw: bool,
}

/// An access token of a repository as its server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundToken {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) scopes: BTreeSet<String>,
    pub(crate) expires: Date,
    pub(crate) created: OffsetDateTime,
}

/// Ids of all files on the default branch, by path. An empty repository has none.
pub(crate) type Tree = BTreeMap<String, String>;

/// Change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileChange {
    Create(String),
    /// New content, and the id of the replaced one.
    Update(String, String),
    /// Id of the deleted content.
    Delete(String),
}

/// One kind of Git servers.
#[async_trait]
pub(crate) trait Provider: MergeRequestCalls + Send + Sync {
    /// True if groups may have subgroups.
    fn has_subgroups(&self) -> bool;

    /// `None` if there is no such repository, or the token may not see it. A renamed one is found
    /// with its new path.
    async fn read(&self, path: &RepoPath) -> Result<Option<FoundRepo>, CallError>;

    /// Creates a private, empty repository.
    async fn create(&self, path: &RepoPath, description: &str) -> Result<FoundRepo, CallError>;

    async fn has_group(&self, group: &str) -> Result<bool, CallError>;

    /// Creates a private group without its parents.
    async fn create_group(&self, group: &str) -> Result<(), CallError>;

    async fn describe(&self, repo: &FoundRepo, description: &str) -> Result<(), CallError>;

    async fn set_archived(&self, repo: &FoundRepo, archived: bool) -> Result<(), CallError>;

    async fn delete(&self, repo: &FoundRepo) -> Result<(), CallError>;

    /// All deploy keys, of all pages.
    async fn deploy_keys(&self, repo: &FoundRepo) -> Result<Vec<FoundKey>, CallError>;

    async fn add_deploy_key(
        &self,
        repo: &FoundRepo,
        title: &str,
        key: &DeployKey,
    ) -> Result<(), CallError>;

    async fn remove_deploy_key(&self, repo: &FoundRepo, id: &str) -> Result<(), CallError>;

    /// Name of a CI variable as the server keeps it.
    fn variable_name(&self, name: &str) -> String {
        name.to_owned()
    }

    /// The variable in the form of the server; refused with a property that it does not have.
    fn checked_variable(&self, variable: SetVariable) -> Result<SetVariable, &'static str> {
        Ok(variable)
    }

    /// True if setting a variable changes this one, instead of adding another beside it.
    fn has_form(&self, _: &FoundVariable, _: &SetVariable) -> bool {
        true
    }

    /// All CI variables of the repository.
    async fn variables(&self, repo: &FoundRepo) -> Result<Vec<FoundVariable>, CallError>;

    async fn set_variable(
        &self,
        repo: &FoundRepo,
        variable: &SetVariable,
        exists: bool,
    ) -> Result<(), CallError>;

    /// Removes a variable; a missing one is a success.
    async fn remove_variable(
        &self,
        repo: &FoundRepo,
        variable: &FoundVariable,
    ) -> Result<(), CallError>;

    /// True if repositories have access tokens of their own.
    fn has_access_tokens(&self) -> bool {
        false
    }

    /// Valid access tokens of the repository.
    async fn access_tokens(&self, _: &FoundRepo) -> Result<Vec<FoundToken>, CallError> {
        Ok(Vec::new())
    }

    /// Makes an access token, and returns it with its text.
    async fn create_access_token(
        &self,
        _repo: &FoundRepo,
        _name: &str,
        _settings: &AccessTokenSettings,
        _expires: Date,
    ) -> Result<(FoundToken, SecretString), CallError> {
        let cause = "access tokens of repositories are unsupported".to_owned();
        Err(CallError::Refused(cause))
    }

    /// Revokes a token; a missing one is a success.
    async fn revoke_access_token(&self, _repo: &FoundRepo, _id: &str) -> Result<(), CallError> {
        Ok(())
    }

    /// All files of the default branch.
    async fn tree(&self, repo: &FoundRepo) -> Result<Tree, CallError>;

    /// Changes files in one commit on the default branch. A repository without commits gets its
    /// first one.
    async fn commit(
        &self,
        repo: &FoundRepo,
        changes: &BTreeMap<String, FileChange>,
        message: &str,
    ) -> Result<(), CallError>;
}
