//! Arguments of every long-running command.

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
