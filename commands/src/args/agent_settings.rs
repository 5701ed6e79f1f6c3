//! Arguments of `fairlead cluster agent`.

use clap::{Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use fairlead_api::TimeSpan;

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
}

#[derive(clap::Args)]
pub struct AgentFields {
    /// Desired version of the agent
    #[arg(long = "agent-version", value_name = "VERSION")]
    pub(crate) agent_version: Option<String>,
    /// Addresses for plain TCP connections, limited to those that the site operator allows; "" for none
    #[arg(long, value_name = "HOST:PORT,...")]
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
    /// Fields that use the value of the tenant's cluster template again
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    pub(crate) inherit: Vec<AgentField>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentField {
    Version,
    Facts,
    AllowConnect,
}

impl AgentField {
    pub(crate) const ALL: [AgentField; 3] = [
        AgentField::Version,
        AgentField::Facts,
        AgentField::AllowConnect,
    ];

    /// Field name in the API.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            AgentField::Version => "version",
            AgentField::Facts => "facts",
            AgentField::AllowConnect => "allowConnect",
        }
    }
}
