//! Arguments of `fairlead access`.

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use fairlead_api::TimeSpan;
use fairlead_api::{
    resources::{AccessState, Role},
    site::OperatorNamespace,
};

use super::common::OutputArgs;
use crate::complete::clusters;

const REQUEST_EXAMPLES: &str = "\
A second person approves it. The role ends by itself, and running requests with it.

Examples:
  fairlead access request --cluster c-demo --role operator --for 2h --reason 'ticket 17'
  fairlead access request --cluster c-demo --role operator --namespace shop --reason 'ticket 18'";

const BREAK_GLASS_EXAMPLES: &str = "\
For people whom the hub's issuers file permits it. The role counts at once, alerts, and needs a review.

Examples:
  fairlead access break-glass --cluster c-demo --reason 'all pods are down'";

/// A role in one cluster, for a time.
#[derive(Args)]
pub struct AccessWish {
    /// Cluster of the role
    #[arg(long, value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
    pub(crate) cluster: String,
    /// Namespace of the role; repeatable [default: the whole cluster]
    #[arg(long = "namespace", value_name = "NAMESPACE")]
    pub(crate) namespaces: Vec<OperatorNamespace>,
    /// Time from the approval to the end [default: the longest that the hub permits]
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lifetime: Option<TimeSpan>,
    /// Reason, for everybody who decides or reviews
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A request, and a comment on it.
#[derive(Args)]
pub struct AccessDecisionArgs {
    /// Id of the request, from `fairlead access list`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Comment, for the requester and the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

#[derive(Subcommand)]
pub enum AccessArgs {
    /// Request a role in a cluster for a time
    #[command(after_help = REQUEST_EXAMPLES)]
    Request {
        /// Role to request
        #[arg(long, value_name = "admin|operator|viewer|tcp", value_parser = role)]
        role: Role,
        #[command(flatten)]
        wish: AccessWish,
    },
    /// List requests: your own, and those that you may decide on
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  fairlead access list --state pending"
    )]
    List {
        /// Filter: requests in this state
        #[arg(long, value_name = "pending|active|denied|expired|revoked", value_parser = state)]
        state: Option<AccessState>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Approve a request of another person
    #[command(after_help = "Examples:\n  fairlead access approve ar-0123456789abcdef")]
    Approve(AccessDecisionArgs),
    /// Deny a request
    #[command(
        after_help = "Examples:\n  fairlead access deny ar-0123456789abcdef --comment 'not before tonight'"
    )]
    Deny(AccessDecisionArgs),
    /// End a role ahead of time, or withdraw your request
    #[command(after_help = "Examples:\n  fairlead access revoke ar-0123456789abcdef")]
    Revoke(AccessDecisionArgs),
    /// Take a role in an emergency, at once and without approval
    #[command(after_help = BREAK_GLASS_EXAMPLES)]
    BreakGlass {
        /// Role to take [default: the strongest one that you may take]
        #[arg(long, value_name = "admin|operator|viewer|tcp", value_parser = role)]
        role: Option<Role>,
        #[command(flatten)]
        wish: AccessWish,
    },
    /// Confirm that you have reviewed an emergency of another person
    #[command(
        after_help = "Examples:\n  fairlead access review ar-0123456789abcdef --comment 'restart of the ingress, as described'"
    )]
    Review(AccessDecisionArgs),
}

fn role(text: &str) -> Result<Role, String> {
    let role = text.parse::<Role>().map_err(|error| error.to_string())?;
    match role.is_temporary() {
        true => Ok(role),
        false => Err("expected admin, operator, viewer or tcp".to_owned()),
    }
}

fn state(text: &str) -> Result<AccessState, String> {
    text.parse().map_err(str::to_owned)
}
