//! Arguments shared by several commands.

use clap_complete::ArgValueCompleter;

use crate::{complete, output::OutputFormat};

/// Settings of every long-running command.
#[derive(clap::Args)]
pub(crate) struct ProcessArgs {
    /// TOML file with a table named like the command; flags and FAIRLEAD_* variables take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Log filter, like info or fairlead_dialer=debug,info [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Time for open requests to finish after SIGTERM [default: 30s]
    #[arg(long, value_name = "DURATION")]
    drain_timeout: Option<String>,
}

/// Output format of an answer.
#[derive(clap::Args)]
pub(crate) struct OutputArgs {
    /// Output format: table, wide, json, yaml, name (ids), jsonpath='{.items[*].id}' or custom-columns=ID:.id
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        add = ArgValueCompleter::new(complete::formats)
    )]
    pub(crate) output: OutputFormat,
}

/// Data of a hub on this machine.
#[derive(clap::Args)]
pub(crate) struct HubPlace {
    /// Folder of the hub's store and keys
    #[arg(long, value_name = "DIR", default_value = "/var/lib/fairlead")]
    pub(crate) data: std::path::PathBuf,
    /// Database of the store, as for `fairlead server` [default: a file in the data folder]
    #[arg(long, value_name = "URL", env = "FAIRLEAD_STORE")]
    pub(crate) store: Option<String>,
    /// File with the password of the store; alternatively FAIRLEAD_STORE_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) store_password_file: Option<std::path::PathBuf>,
}
