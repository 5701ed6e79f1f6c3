//! The `fairlead` binary: hub, agent and command line. Each subcommand is a module.

mod agent;
mod apply;
mod args;
mod audit;
mod build_info;
mod bulk;
mod changes;
mod cluster;
mod complete;
mod confirm;
mod describe;
mod edit;
mod explain;
mod facts;
mod fields;
mod find;
mod help;
mod hub;
mod import;
mod inventory;
mod kubeconfig;
mod login;
mod maintenance;
mod outcome;
mod output;
mod settings;
mod tenant;
mod tenant_filter;
#[cfg(test)]
mod tests;
mod token;
mod uninstall;
mod version;
mod watch;
mod whoami;

use std::process::ExitCode;

use args::{Args, Command};
use clap::FromArgMatches;
use fairlead_api::Failure;
use fairlead_client::Environment;

fn main() -> ExitCode {
    match args::complete() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return outcome::usage(&error),
    }
    let matches = match args::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return outcome::usage(&error),
    };
    let args = match Args::from_arg_matches(&matches) {
        Ok(args) => args,
        Err(error) => return outcome::usage(&error),
    };
    let environment = Environment::of_process();
    outcome::exit(dispatch(args.command, &matches, &environment))
}

fn dispatch(
    command: Command,
    matches: &clap::ArgMatches,
    environment: &Environment,
) -> Result<(), Failure> {
    match command {
        Command::Dev(_) => hub::dev(matches, environment),
        Command::Server(_) => hub::server(matches, environment),
        Command::Agent(args) => match args.command {
            Some(args::AgentCommand::Uninstall(args)) => uninstall::run(args, environment),
            None => agent::run(matches, environment),
        },
        Command::Tenant { command } => tenant::run(command, environment),
        Command::Cluster { command } => cluster::run(command, environment),
        Command::Facts(args) => facts::run(args, environment),
        Command::Find(args) => find::run(args, environment),
        Command::Inventory { command } => inventory::run(command, environment),
        Command::Audit(args) => audit::run(args, environment),
        Command::Changes(args) => changes::run(args, environment),
        Command::Token { command } => token::run(command, environment),
        Command::Import { command } => import::run(command, environment),
        Command::Backup(args) => maintenance::backup(args, environment),
        Command::Restore(args) => maintenance::restore(args, environment),
        Command::Store { command } => maintenance::store(command, environment),
        Command::Kubeconfig(args) => kubeconfig::run(&args, environment),
        Command::Login(args) => login::run(&args, environment),
        Command::Logout(args) => login::logout(&args, environment),
        Command::Hub { command } => login::hubs(&command, environment),
        Command::Whoami(args) => whoami::run(&args, environment),
        Command::Explain(args) => explain::run(&args),
        Command::Help(args) => help::run(&args),
        Command::Version(args) => version::run(&args),
        Command::Completion { shell } => complete::script(shell),
    }
}
