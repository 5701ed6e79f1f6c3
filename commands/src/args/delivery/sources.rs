//! Arguments of `fairlead source`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::{SourceId, TenantId};

use crate::{
    args::{Apply, OutputArgs},
    complete::{sources, tenants},
};

const ADD_EXAMPLES: &str = "\
Examples:
  fairlead source add platform --git https://git.example.com/platform.git --ref main --path deploy/shop
  fairlead source add platform --git git@git.example.com:platform.git --ref 'semver:1.x' --path shop --path web \\
    --credentials platform-key --host-keys known_hosts --verify allowed_signers

Each folder becomes a bundle. Credentials are a reference to a key or token on the hub, never its value.";

#[derive(Subcommand)]
pub enum SourceArgs {
    /// Add a Git repository whose folders become bundles, or change one
    #[command(after_help = ADD_EXAMPLES)]
    Add(SourceAdd),
    /// List the visible sources
    #[command(visible_alias = "ls")]
    List {
        /// Filter: sources of this tenant and its descendants
        #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
        tenant: Option<TenantId>,
        /// Filter: text in id or tenant
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show one source with its last commit, and the reason of its last failure
    Get {
        /// Id of the source
        #[arg(value_name = "SOURCE", value_parser = SourceId::from_name, add = ArgValueCompleter::new(sources))]
        id: SourceId,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Poll the repository now
    Sync {
        /// Id of the source
        #[arg(value_name = "SOURCE", value_parser = SourceId::from_name, add = ArgValueCompleter::new(sources))]
        id: SourceId,
    },
    /// Create or change sources, bundles and groups from documents
    Apply(Apply),
    /// Delete a source; its bundles stay
    Delete {
        /// Id of the source
        #[arg(value_name = "SOURCE", value_parser = SourceId::from_name, add = ArgValueCompleter::new(sources))]
        id: SourceId,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub struct SourceAdd {
    /// Id of the source
    #[arg(value_name = "ID", value_parser = SourceId::from_name)]
    pub(crate) id: SourceId,
    /// Repository: https://..., ssh://... or user@host:path
    #[arg(long, value_name = "URL")]
    pub(crate) git: String,
    /// Branch, tag, range of versions (semver:1.x) or commit
    #[arg(long = "ref", value_name = "REF")]
    pub(crate) reference: String,
    /// Folder that becomes a bundle; repeatable
    #[arg(long = "path", value_name = "PATH", required = true)]
    pub(crate) paths: Vec<String>,
    /// Tenant of the source and its bundles [default: your tenant]
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Name of a key or token on the hub [default: none]
    #[arg(long, value_name = "NAME")]
    pub(crate) credentials: Option<String>,
    /// File with the host keys of an SSH server, in the format of known_hosts
    #[arg(long, value_name = "FILE")]
    pub(crate) host_keys: Option<PathBuf>,
    /// File with keys in the format of allowed_signers; commits without a signature of them are refused
    #[arg(long, value_name = "FILE")]
    pub(crate) verify: Option<PathBuf>,
    /// Delete the bundle of a folder that is deleted; its objects stay [default: the bundle becomes orphaned]
    #[arg(long)]
    pub(crate) prune: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
