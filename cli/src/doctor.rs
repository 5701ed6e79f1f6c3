//! `fairlead doctor` and `fairlead agent --check`: checks of an agent's path, or of a hub, with an exit code for the result.

pub(crate) mod hub;
mod services;

use std::{process::ExitCode, time::Duration};

use clap::ArgMatches;
use fairlead_api::{Code, Failure, checkup::Checkup};
use fairlead_client::Environment;
use fairlead_commands::{block_on, output};

use crate::{
    agent,
    args::{Doctor, DoctorFormat},
    outcome::failure_text,
};

/// Exit code of a failed check, and of a mistake in the command line.
const FAULT_EXIT_CODE: u8 = 1;
const USAGE_EXIT_CODE: u8 = 2;

/// Runs `fairlead doctor`.
pub(crate) fn run(args: &Doctor, matches: &ArgMatches, environment: &Environment) -> ExitCode {
    let hold = args.hold.map(Duration::from_secs);
    let checked = match args.settings.of_hub {
        true => hub::check(matches, environment),
        false => check_agent(matches, environment, hold),
    };
    finish(checked, args.output)
}

/// Runs `fairlead agent --check`.
pub(crate) fn check(matches: &ArgMatches, environment: &Environment) -> ExitCode {
    finish(check_agent(matches, environment, None), DoctorFormat::Text)
}

/// Checks the path of the agent with these settings.
pub(crate) fn check_agent(
    matches: &ArgMatches,
    environment: &Environment,
    hold: Option<Duration>,
) -> Result<Checkup, Failure> {
    let config = agent::config(matches, environment)?;
    block_on(Box::pin(fairlead_agent::doctor::check(config, hold)))?
}

fn finish(checked: Result<Checkup, Failure>, format: DoctorFormat) -> ExitCode {
    let printed = checked.and_then(|checkup| {
        let text = match format {
            DoctorFormat::Text => checkup.text(),
            DoctorFormat::Json => {
                let text = serde_json::to_string_pretty(&checkup);
                text.map_err(|error| Failure::because(Code::Internal, error))? + "\n"
            }
        };
        output::print(&text)?;
        Ok(checkup.first_failure().is_none())
    });
    match printed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAULT_EXIT_CODE),
        Err(failure) => {
            eprint!("{}", failure_text(&failure));
            ExitCode::from(USAGE_EXIT_CODE)
        }
    }
}
