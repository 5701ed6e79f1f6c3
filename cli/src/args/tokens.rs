//! Arguments of the commands that work on tokens.

use clap::Subcommand;
use clap_complete::ArgValueCompleter;

use super::{Output, lists::TokenList};
use crate::complete::{clusters, tenants, tokens};

#[derive(Subcommand)]
pub(crate) enum ClusterToken {
    /// Make a new one, to install an agent anew; the older one dies, the cluster stays what it is
    Renew {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Show the one that is valid now
    Show {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Take it back; an agent that has enrolled stays
    Revoke {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Those of all clusters you may see, with their state and who made them
    #[command(visible_alias = "ls")]
    List(TokenList),
}

const TOKEN_EXAMPLES: &str = "\
Roles, each on all tenants or on the one of --tenant with all below it:
  admin     everything: tenants, clusters, catalogs, tokens, audit; cluster-admin in clusters by default
  operator  reads all but tokens and audit; works in clusters, as the RBAC rules of the group fairlead:operator allow
  viewer    reads tenants and clusters, no catalogs; in clusters as the RBAC rules of fairlead:viewer allow
  tenant    a team for its own tenant: changes it and its clusters, invites agents; in clusters as an operator
  cluster   Project Syn's Steward: reports facts of its own cluster (--cluster); never in clusters
  compile   Commodore: reads all, and writes down compiled components; never in clusters

Examples:
  fairlead token create ci --role operator --tenant t-acme --ttl 7d
  fairlead token create steward --role cluster --cluster c-demo
  fairlead token create ann --role admin --data /var/lib/fairlead    # on the hub's machine, without a login";

/// A hub's data on this machine, for whoever has no token that is valid.
#[derive(clap::Args)]
pub(crate) struct LocalHub {
    /// Make it without a login, on the hub's machine: its data folder, whether the hub runs or not
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<std::path::PathBuf>,
    /// Where the store is, if not in that folder, as for `fairlead server` (FAIRLEAD_STORE)
    #[arg(long, value_name = "URL", requires = "data")]
    pub(crate) store: Option<String>,
    /// File with the password of the store; FAIRLEAD_STORE_PASSWORD may hold it, too
    #[arg(long, value_name = "F", requires = "data")]
    pub(crate) store_password_file: Option<std::path::PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Token {
    /// Make a token; it is shown this once
    #[command(after_help = TOKEN_EXAMPLES)]
    Create {
        /// Whom it stands for; becomes the user fairlead:NAME
        name: String,
        /// The permissions, as listed below
        #[arg(long, value_name = "admin|operator|viewer|tenant|cluster|compile")]
        role: fairlead_api::resources::Role,
        /// The tenant it is good for [default: all]
        #[arg(long, value_name = "T", value_parser = fairlead_api::TenantId::from_name, add = ArgValueCompleter::new(tenants))]
        tenant: Option<fairlead_api::TenantId>,
        /// The one cluster it is good for, with the role cluster
        #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        cluster: Option<String>,
        /// How long it is valid
        #[arg(long, value_name = "TIME", default_value = "8h")]
        ttl: fairlead_runtime::config::Span,
        #[command(flatten)]
        local: LocalHub,
        #[command(flatten)]
        output: Output,
    },
    /// All tokens you may see, without their secrets
    #[command(visible_alias = "ls")]
    List(TokenList),
    /// Revoke tokens, by id or by a name that only one has
    Delete {
        #[arg(value_name = "NAME|ID", required = true, add = ArgValueCompleter::new(tokens))]
        names: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}
