//! Desired state of key and host keys, from the hub's configuration of this cluster.

use fairlead_api::{
    config::AgentConfig,
    gitops::{AgentKeys, GitOpsTool, SshKeyType},
};

use crate::{hosts, status::Problem};

/// Desired state that a decision is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Desired {
    pub(crate) tool: GitOpsTool,
    pub(crate) key_type: SshKeyType,
    /// Number of the rotation that the key belongs to.
    pub(crate) rotation: u32,
    /// URL of the catalog's repository.
    pub(crate) url: String,
    /// Lines of `known_hosts`.
    pub(crate) known_hosts: String,
    /// Keys in the hub's record.
    pub(crate) keys: AgentKeys,
    /// True if the Git server has these keys.
    pub(crate) registered: bool,
    /// Fingerprint of a key that an operator has registered.
    pub(crate) confirmed_key: Option<String>,
    /// True: the hub installs the tool.
    pub(crate) install: bool,
    /// True: a tool that exists already is taken over.
    pub(crate) adopt: bool,
}

impl Desired {
    /// Desired state of a configuration; `None` without a tool.
    ///
    /// # Errors
    /// The catalog cannot be read with an SSH key.
    pub(crate) fn of(config: &AgentConfig) -> Option<Result<Self, Problem>> {
        if config.gitops.is_off() {
            return None;
        }
        Some(Self::with_tool(config))
    }

    fn with_tool(config: &AgentConfig) -> Result<Self, Problem> {
        let gitops = config.gitops.clone();
        let repository = config.repository.as_ref().ok_or(Problem::NoRepository)?;
        if !repository.url.starts_with("ssh://") {
            return Err(Problem::NotSsh);
        }
        let known_hosts = hosts::lines(repository.host_keys.as_deref().unwrap_or_default());
        Ok(Desired {
            tool: gitops.tool,
            key_type: gitops.key_type,
            rotation: gitops.rotation,
            url: repository.url.clone(),
            known_hosts,
            keys: gitops.keys,
            registered: gitops.registered,
            confirmed_key: gitops.confirmed_key,
            install: gitops.install,
            adopt: gitops.adopt,
        })
    }
}
