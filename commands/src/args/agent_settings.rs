//! Arguments of `fairlead cluster agent`.

use clap::{Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use fairlead_api::{
    TimeSpan,
    gitops::{GitOpsTool, SshKeyType},
};

use super::common::OutputArgs;
use crate::complete::clusters;

#[derive(Subcommand)]
pub enum ClusterAgent {
    /// Show the agent settings of a cluster
    #[command(after_help = "Example:\n  fairlead cluster agent get demo -o yaml")]
    Get {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change agent settings of a cluster; other settings stay as they are
    #[command(
        after_help = "Examples:\n  fairlead cluster agent set demo --allow-connect db.shop:5432 --facts-off helm,hosts\n  fairlead cluster agent set demo --facts-every 10m --inherit allow-connect"
    )]
    Set {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        fields: Box<AgentFields>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Request another SSH key for the GitOps tool of a cluster
    #[command(
        name = "rotate-key",
        after_help = "Example:\n  fairlead cluster agent rotate-key demo"
    )]
    RotateKey {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Confirm that an unmanaged repository has the next SSH key of a cluster's agent
    #[command(
        name = "confirm-key",
        after_help = "Example:\n  fairlead cluster agent confirm-key demo SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA"
    )]
    ConfirmKey {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Fingerprint of the key, as `ssh-keygen -l` and the fact `gitops` show it
        fingerprint: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(clap::Args)]
pub struct AgentFields {
    /// Desired version of the agent
    #[arg(long = "agent-version", value_name = "VERSION")]
    pub(crate) agent_version: Option<String>,
    /// Rules for TCP connections, limited to those of the site operator; "" for none
    #[arg(long, value_name = "HOST:PORTS,...")]
    pub(crate) allow_connect: Option<String>,
    /// Interval of fact collection
    #[arg(long, value_name = "DURATION")]
    pub(crate) facts_every: Option<TimeSpan>,
    /// Fact collectors to disable; "" for none
    #[arg(long, value_name = "NAME,...")]
    pub(crate) facts_off: Option<String>,
    /// Prefixes of namespace annotations to collect as facts
    #[arg(long, value_name = "PREFIX,...")]
    pub(crate) annotation_prefixes: Option<String>,
    /// Prefixes of namespace annotations to collect as contacts
    #[arg(long, value_name = "PREFIX,...")]
    pub(crate) contact_prefixes: Option<String>,
    /// GitOps tool for which the agent makes an SSH key
    #[arg(long, value_enum)]
    pub(crate) gitops: Option<ToolName>,
    /// Type of the SSH key; another type rotates the key
    #[arg(long, value_enum)]
    pub(crate) key_type: Option<KeyTypeName>,
    #[command(flatten)]
    pub(crate) tool: ToolFields,
    /// Fields that use the value of the tenant's cluster template again
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    pub(crate) inherit: Vec<AgentField>,
}

/// Installation of a GitOps tool by the hub.
#[derive(clap::Args)]
pub(crate) struct ToolFields {
    /// Install the GitOps tool from manifests of the hub
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) gitops_install: Option<bool>,
    /// Take over a GitOps tool that exists already
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) gitops_adopt: Option<bool>,
    /// Version of the GitOps tool, with the SHA-256 of its manifest if it is not embedded
    #[arg(long, value_name = "VERSION[@SHA256]")]
    pub(crate) gitops_version: Option<String>,
    /// Registry or mirror for the images of the GitOps tool
    #[arg(long, value_name = "HOST[/PATH]")]
    pub(crate) gitops_registry: Option<String>,
    /// Public keys of authors, OpenPGP or SSH: the GitOps tool applies commits signed by one of them only; "" for all commits
    #[arg(long, value_name = "NAME=@FILE,...")]
    pub(crate) gitops_verify: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentField {
    Version,
    Facts,
    AllowConnect,
    Gitops,
}

impl AgentField {
    pub(crate) const ALL: [AgentField; 4] = [
        AgentField::Version,
        AgentField::Facts,
        AgentField::AllowConnect,
        AgentField::Gitops,
    ];

    /// Field name in the API.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            AgentField::Version => "version",
            AgentField::Facts => "facts",
            AgentField::AllowConnect => "allowConnect",
            AgentField::Gitops => "gitops",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolName {
    None,
    Flux,
    Argocd,
}

impl From<ToolName> for GitOpsTool {
    fn from(name: ToolName) -> Self {
        match name {
            ToolName::None => GitOpsTool::None,
            ToolName::Flux => GitOpsTool::Flux,
            ToolName::Argocd => GitOpsTool::Argocd,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyTypeName {
    Ed25519,
    Rsa,
}

impl From<KeyTypeName> for SshKeyType {
    fn from(name: KeyTypeName) -> Self {
        match name {
            KeyTypeName::Ed25519 => SshKeyType::Ed25519,
            KeyTypeName::Rsa => SshKeyType::Rsa,
        }
    }
}
