//! Arguments of `fairlead cluster agent`.

use clap::{Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use fairlead_runtime::config::Span;

use super::Output;
use crate::complete::clusters;

#[derive(Subcommand)]
pub(crate) enum ClusterAgent {
    /// Show what is wanted of a cluster's agent
    #[command(after_help = "Example:\n  fairlead cluster agent get demo -o yaml")]
    Get {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Want something else of it; what is not named stays
    #[command(
        after_help = "Examples:\n  fairlead cluster agent set demo --allow-connect db.shop:5432 --facts-off helm,hosts\n  fairlead cluster agent set demo --facts-every 10m --inherit allow-connect"
    )]
    Set {
        #[arg(value_name = "NAME|ID", add = ArgValueCompleter::new(clusters))]
        name: String,
        #[command(flatten)]
        fields: Box<AgentFields>,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(clap::Args)]
pub(crate) struct AgentFields {
    /// Which version of it should run
    #[arg(long = "agent-version", value_name = "VERSION")]
    pub(crate) agent_version: Option<String>,
    /// Where plain TCP may be opened to, of what the site operator allows; "" for nowhere
    #[arg(long, value_name = "HOST:PORT,...")]
    pub(crate) allow_connect: Option<String>,
    /// How often it looks for facts
    #[arg(long, value_name = "DURATION")]
    pub(crate) facts_every: Option<Span>,
    /// Collectors of facts that do not run; "" for none
    #[arg(long, value_name = "NAME,...")]
    pub(crate) facts_off: Option<String>,
    /// Annotations of namespaces that are facts
    #[arg(long, value_name = "PREFIX,...")]
    pub(crate) annotation_prefixes: Option<String>,
    /// Annotations of namespaces that say whom to ask
    #[arg(long, value_name = "PREFIX,...")]
    pub(crate) contact_prefixes: Option<String>,
    /// Use the value of the tenant's cluster template for this field again
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

    /// As the API has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            AgentField::Version => "version",
            AgentField::Facts => "facts",
            AgentField::AllowConnect => "allowConnect",
        }
    }
}
