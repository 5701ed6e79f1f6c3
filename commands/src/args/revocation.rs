//! Arguments of the commands that show and end running requests, and of locks.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use fairlead_api::{
    TenantId,
    resources::{LockKind, RequestKind},
};

use super::common::OutputArgs;
use crate::complete::{clusters, tenants, tokens};

/// Selects running requests.
#[derive(Args)]
pub struct RequestFilters {
    /// Filter: requests of this caller
    #[arg(long, value_name = "NAME")]
    pub(crate) caller: Option<String>,
    /// Filter: requests with this API token
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(tokens))]
    pub(crate) token: Option<String>,
    /// Filter: requests of this tenant and its descendants
    #[arg(long, value_name = "TENANT", value_parser = TenantId::from_name, add = ArgValueCompleter::new(tenants))]
    pub(crate) tenant: Option<TenantId>,
    /// Filter: requests to this cluster
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: Option<String>,
    /// Filter: requests of this kind
    #[arg(long, value_name = "exec|attach|port-forward|log|watch|tcp|other", value_parser = kind)]
    pub(crate) kind: Option<RequestKind>,
}

fn kind(text: &str) -> Result<RequestKind, String> {
    let kind = RequestKind::ALL.into_iter().find(|it| it.as_str() == text);
    kind.ok_or_else(|| "not a kind of requests".to_owned())
}

const SESSIONS_EXAMPLES: &str = "\
Examples:
  fairlead sessions list --cluster c-demo
  fairlead sessions list --kind exec -o json";

const KILL_EXAMPLES: &str = "\
Examples:
  fairlead sessions kill 0123456789abcdef --reason maintenance --yes
  fairlead sessions kill --caller ann --kind exec --yes";

#[derive(Subcommand)]
pub enum SessionsArgs {
    /// List the running requests at all hubs that you may see
    #[command(visible_alias = "ls", after_help = SESSIONS_EXAMPLES)]
    List {
        #[command(flatten)]
        filters: RequestFilters,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// End running requests at all hubs, by id or by filters
    #[command(after_help = KILL_EXAMPLES)]
    Kill {
        /// Id of a request, from `fairlead sessions list`
        #[arg(value_name = "ID")]
        id: Option<String>,
        #[command(flatten)]
        filters: RequestFilters,
        /// Reason, shown to the clients
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Skip the confirmation prompt
        #[arg(long)]
        yes: bool,
    },
}

/// Kind of a locked thing on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum LockedThing {
    /// Caller by name, as `fairlead whoami` shows it
    User,
    /// API token by id
    Token,
    /// Cluster by name or id
    Cluster,
    /// Tenant by id, with all below it
    Tenant,
}

impl From<LockedThing> for LockKind {
    fn from(thing: LockedThing) -> Self {
        match thing {
            LockedThing::User => LockKind::User,
            LockedThing::Token => LockKind::Token,
            LockedThing::Cluster => LockKind::Cluster,
            LockedThing::Tenant => LockKind::Tenant,
        }
    }
}

pub(super) const LOCK_EXAMPLES: &str = "\
Running requests end within seconds, at all hubs. The agent of a locked cluster stays connected.

Examples:
  fairlead lock user corp.jane --reason 'laptop stolen'
  fairlead lock cluster c-demo --reason forensics --for 2h";

pub(super) const UNLOCK_EXAMPLES: &str = "\
Examples:
  fairlead unlock user corp.jane";

/// Arguments of `fairlead lock`.
#[derive(Args)]
pub struct LockArgs {
    /// Kind of the thing
    #[arg(value_enum)]
    pub(crate) kind: LockedThing,
    /// Name or id of the thing
    pub(crate) name: String,
    /// Reason, shown to everybody whom the lock refuses
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Lifetime of the lock [default: until `fairlead unlock`]
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lifetime: Option<fairlead_api::TimeSpan>,
}

/// Arguments of `fairlead unlock`.
#[derive(Args)]
pub struct UnlockArgs {
    /// Kind of the thing
    #[arg(value_enum)]
    pub(crate) kind: LockedThing,
    /// Name or id of the thing
    pub(crate) name: String,
}

#[derive(Subcommand)]
pub enum LocksArgs {
    /// List active locks, with reason and author
    #[command(visible_alias = "ls")]
    List(OutputArgs),
}
