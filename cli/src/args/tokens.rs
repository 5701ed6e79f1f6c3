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
    List(TokenList),
}

#[derive(Subcommand)]
pub(crate) enum Token {
    /// Make a token; it is shown this once
    #[command(
        after_help = "Examples:\n  fairlead token create ci --role operator --tenant t-acme --ttl 7d"
    )]
    Create {
        /// Whom it stands for; becomes the user fairlead:NAME
        name: String,
        /// What it is good for
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
        output: Output,
    },
    /// All tokens you may see, without their secrets
    List(TokenList),
    /// Revoke a token
    Delete {
        #[arg(add = ArgValueCompleter::new(tokens))]
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Who you are with yours, here and in clusters
    Whoami(Output),
}
