//! The `fairlead` binary: hub, agent and command line. Each subcommand is a module.

mod agent;
mod args;
mod build_info;
mod doctor;
mod explain;
mod help;
mod hub;
mod maintenance;
mod outcome;
mod runner;
mod settings;
mod support;
#[cfg(test)]
mod tests;
mod traces;
mod uninstall;
mod version;

use std::process::ExitCode;

use args::{Args, Command};
use clap::FromArgMatches;
use fairlead_api::{Code, Failure};
use fairlead_client::Environment;
use fairlead_commands::complete;

fn main() -> ExitCode {
    // Of this crate alone the release recipe sets the feature, so the condition cannot be in `glibc`.
    if cfg!(target_feature = "crt-static") && !fairlead_glibc::use_built_in_lookups() {
        let cause = "the C library refuses its own lookups of names";
        return outcome::exit(Err(Failure::because(Code::Internal, cause)));
    }
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
    match &args.command {
        Command::Doctor(args) => doctor::run(args, &matches, &environment),
        Command::Agent(args) if args.check => doctor::check(&matches, &environment),
        _ => outcome::exit(dispatch(args.command, &matches, &environment)),
    }
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
            Some(args::AgentCommand::Upgrade(args)) => {
                fairlead_commands::start_agent_upgrade(*args, environment)
            }
            None => agent::run(matches, environment),
        },
        // `main` runs it, for its exit code.
        Command::Doctor(_) => Ok(()),
        Command::SupportBundle(args) => support::run(&args, matches, environment),
        Command::Runner(_) => runner::run(matches, environment),
        Command::Guard(args) => runner::guard(args),
        Command::PostRender(args) => runner::post_render(&args),
        Command::Hub(command) => {
            fairlead_commands::run(*command, environment, maintenance::create_token)
        }
        Command::Backup(args) => maintenance::backup(args, environment),
        Command::Restore(args) => maintenance::restore(args, environment),
        Command::Store { command } => maintenance::store(command, environment),
        Command::Explain(args) => explain::run(&args),
        Command::Help(args) => help::run(&args, environment),
        Command::Version(args) => version::run(&args, environment),
        Command::Completion { shell } => complete::script(shell),
    }
}
