//! `fairlead version`: prints version and architecture, or the versions of hub and agents.

use fairlead_api::Failure;
use fairlead_client::Environment;
use serde::Serialize;

use fairlead_commands::output;

use crate::{args, build_info::VERSION};

#[derive(Serialize)]
struct Version {
    version: &'static str,
    target: &'static str,
}

pub(crate) fn run(args: &args::VersionArgs, environment: &Environment) -> Result<(), Failure> {
    if args.fleet {
        return fairlead_commands::show_fleet_versions(&args.output, VERSION, environment);
    }
    let version = Version {
        version: VERSION,
        target: std::env::consts::ARCH,
    };
    Ok(output::show(&args.output.output, &version, |version| {
        format!("fairlead {} {}\n", version.version, version.target)
    })?)
}
