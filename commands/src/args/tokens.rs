//! Arguments of the commands for tokens.

use clap::Subcommand;
use clap_complete::ArgValueCompleter;

use super::{common::OutputArgs, lists::TokenList};
use crate::complete::{clusters, tenants, tokens};

#[derive(Subcommand)]
pub enum ClusterToken {
    /// Create a new bootstrap token, to install an agent again; it replaces the previous token
    Renew {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the valid bootstrap token
    Show {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Revoke the bootstrap token; an enrolled agent stays connected
    Revoke {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
    /// List the bootstrap tokens of all visible clusters, with state and author
    #[command(visible_alias = "ls")]
    List(TokenList),
}

#[derive(Subcommand)]
pub enum ClusterIdentity {
    /// Revoke the identity: the sessions of the agent end, and it has to enrol again
    Revoke {
        /// Cluster, by name or id
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

const STEWARD_EXAMPLES: &str = "\
The new token goes into the Secret syn/steward of the cluster, through the hub and with your own rights there, and
Steward restarts. Earlier tokens end 10 minutes after the first use of the new one, so Steward is never refused.

Examples:
  fairlead cluster steward rotate demo --yes
  fairlead cluster steward rotate --older-than 90d --yes        # all visible clusters, for a job that runs every day
  fairlead cluster steward rotate --print demo | kubectl apply -f -";

#[derive(Subcommand)]
pub enum ClusterSteward {
    /// Give Steward a new token, with overlap
    #[command(after_help = STEWARD_EXAMPLES)]
    Rotate {
        /// Clusters, by name or id [default: all visible ones with Steward]
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        names: Vec<String>,
        /// Only if the newest token is at least this old
        #[arg(long, value_name = "DURATION")]
        older_than: Option<fairlead_api::TimeSpan>,
        /// Print the Secret of one cluster instead of writing it there
        #[arg(long, value_name = "NAME|ID", conflicts_with = "names", add = ArgValueCompleter::new(clusters))]
        print: Option<String>,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

const TOKEN_EXAMPLES: &str = "\
Roles, for all tenants, or for one tenant and its descendants with --tenant:
  admin     everything: tenants, clusters, catalogs, tokens, audit; cluster-admin in clusters by default
  operator  reads all but tokens and audit; in clusters the RBAC permissions of group fairlead:operator
  viewer    reads tenants and clusters, no catalogs; in clusters the RBAC permissions of group fairlead:viewer
  tenant    changes its tenant and clusters, invites agents; in clusters the permissions of an operator
  cluster   for Project Syn's Steward: reports facts of its own cluster (--cluster); no access to clusters
  tcp       reads tenants and clusters, no catalogs; TCP connections into clusters (fairlead forward), no kubectl
  compile   for Commodore: reads everything, writes compilation results; no access to clusters

Examples:
  fairlead token create ci --role operator --tenant t-acme --ttl 6h
  fairlead token create steward --role cluster --cluster c-demo
  fairlead token create ann --role admin --data /var/lib/fairlead    # on the hub's machine, without a login";

const EXCHANGE_EXAMPLES: &str = "\
All commands, and kubectl with a kubeconfig of `fairlead kubeconfig`, exchange the token of these variables by
themselves, and keep the result until it ends.

Examples:
  fairlead token exchange --issuer-token-file ci.jwt
  FAIRLEAD_URL=https://hub.example.com FAIRLEAD_ISSUER_TOKEN_FILE=ci.jwt fairlead kubeconfig --merge";

const HAND_OVER_EXAMPLES: &str = "\
The owner of a token is the caller that created it. If the owner is deleted, expires, is locked or loses the role
admin, its tokens are void. A token that fell is valid again with its new owner, until its own expiry.

Examples:
  fairlead token hand-over ci --to me
  fairlead token hand-over k-0123456789abcdef --to corp.ann@example.com";

/// Data of a hub on this machine, for an operator without a valid token.
#[derive(clap::Args)]
pub struct LocalHub {
    /// Data folder of the hub, to create the token on the hub's machine without a login
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<std::path::PathBuf>,
    /// Database of the store, as for `fairlead server` [default: a file in the data folder, or FAIRLEAD_STORE]
    #[arg(long, value_name = "URL", requires = "data")]
    pub(crate) store: Option<String>,
    /// File with the password of the store; alternatively FAIRLEAD_STORE_PASSWORD
    #[arg(long, value_name = "FILE", requires = "data")]
    pub(crate) store_password_file: Option<std::path::PathBuf>,
}

#[derive(Subcommand)]
pub enum TokenArgs {
    /// Create a token; it is shown only once
    #[command(after_help = TOKEN_EXAMPLES)]
    Create {
        /// Name of the holder; the user in clusters is fairlead:NAME
        name: String,
        /// Role of the holder, see below
        #[arg(long, value_name = "admin|operator|viewer|tenant|cluster|compile|tcp")]
        role: fairlead_api::resources::Role,
        /// Tenant of the token [default: all tenants]
        #[arg(long, value_name = "TENANT", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
        tenant: Option<fairlead_api::TenantId>,
        /// Cluster of the token; only for the roles cluster and tcp
        #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        cluster: Option<String>,
        /// Lifetime of the token, no longer than that of its owner [default: 8h, or less with its owner]
        #[arg(long, value_name = "DURATION")]
        ttl: Option<fairlead_api::TimeSpan>,
        #[command(flatten)]
        local: LocalHub,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the visible tokens, without their secrets
    #[command(visible_alias = "ls")]
    List(TokenList),
    /// Exchange a token of a CI's own issuer for a short-lived token of the hub (RFC 8693)
    #[command(after_help = EXCHANGE_EXAMPLES)]
    Exchange {
        /// File with the token of the issuer, or - for standard input [default: FAIRLEAD_ISSUER_TOKEN_FILE, FAIRLEAD_ISSUER_TOKEN]
        #[arg(long, value_name = "FILE")]
        issuer_token_file: Option<std::path::PathBuf>,
        /// URL of the hub [default: FAIRLEAD_URL, or the current hub]
        #[arg(long, value_name = "URL")]
        hub: Option<fairlead_api::HubUrl>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Hand a token over to another owner, with whom it falls from then on
    #[command(after_help = HAND_OVER_EXAMPLES)]
    HandOver {
        /// Token, by id or by unique name
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(tokens))]
        name: String,
        /// New owner: `me`, a token by id or unique name, or a person who owns a token
        #[arg(long, value_name = "OWNER")]
        to: String,
    },
    /// Revoke tokens, by id or by unique name
    Delete {
        #[arg(value_name = "NAME|ID", required = true, add = ArgValueCompleter::new(tokens))]
        names: Vec<String>,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}
