//! `fairlead version`: prints version and architecture.

use fairlead_api::Failure;
use serde::Serialize;

use fairlead_commands::output;

use crate::{args, build_info::VERSION};

#[derive(Serialize)]
struct Version {
    version: &'static str,
    target: &'static str,
}

pub(crate) fn run(args: &args::VersionArgs) -> Result<(), Failure> {
    let version = Version {
        version: VERSION,
        target: std::env::consts::ARCH,
    };
    Ok(output::show(&args.output.output, &version, |version| {
        format!("fairlead {} {}\n", version.version, version.target)
    })?)
}
