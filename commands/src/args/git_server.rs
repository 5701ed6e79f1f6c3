//! Arguments of `fairlead git-server`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use fairlead_api::TenantId;

use super::common::OutputArgs;

#[derive(Subcommand)]
pub enum GitServerArgs {
    /// List the Git servers of the hub's settings, with their host keys
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  fairlead git-server list"
    )]
    List(OutputArgs),
    /// Read the host keys that a Git server shows now, unconfirmed
    #[command(after_help = "Example:\n  fairlead git-server scan git.example")]
    Scan {
        /// Name in the hub's settings
        server: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Confirm host keys for repositories without own ones
    #[command(
        after_help = "Example:\n  fairlead git-server confirm git.example --fingerprint SHA256:cJ6AyISHokEeHuTfufIqhhSS0gxHZRUMDHlKvXD4FHw"
    )]
    Confirm(ConfirmKeysArgs),
    /// Set, list and delete tokens for Git servers in the hub's store, encrypted
    #[command(subcommand)]
    Credential(GitCredentialArgs),
    /// List repositories of deleted tenants and clusters that wait for their Git server
    #[command(after_help = "Example:\n  fairlead git-server retired")]
    Retired(OutputArgs),
    /// Keep a repository of a deleted tenant or cluster unchanged
    #[command(after_help = "Example:\n  fairlead git-server keep c-edge.4711")]
    Keep {
        /// Id in the list of retired repositories
        id: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Parser)]
pub struct ConfirmKeysArgs {
    /// Name in the hub's settings
    pub(crate) server: String,
    /// Fingerprint that the operator of the Git server has published; repeatable
    #[arg(long = "fingerprint", value_name = "SHA256:...", required = true)]
    pub(crate) fingerprints: Vec<String>,
    /// Skip the confirmation prompt
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Subcommand)]
pub enum GitCredentialArgs {
    /// Set or replace a token; nobody can read it afterwards
    #[command(
        after_help = "Examples:\n  fairlead git-server credential set gitlab --token-file gitlab.token\n  pass show gitlab | fairlead git-server credential set gitlab --tenant t-acme --token-file -"
    )]
    Set {
        /// Name, as in gitRepo.apiSecretRef
        name: String,
        /// Tenant that may use it [default: all tenants]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<TenantId>,
        /// File with the token, or - for standard input
        #[arg(long, value_name = "FILE")]
        token_file: PathBuf,
    },
    /// List the credentials without their tokens
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  fairlead git-server credential list --tenant t-acme"
    )]
    List {
        /// Tenant that may use them [default: those for all tenants]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<TenantId>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete a credential
    #[command(after_help = "Example:\n  fairlead git-server credential delete gitlab")]
    Delete {
        /// Name in the list
        name: String,
        /// Tenant that may use it [default: all tenants]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<TenantId>,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}
