//! `fairlead runner`, `fairlead guard` and `fairlead post-render`: run the programs of deliveries.

use std::{
    io::{Read, Write},
    path::PathBuf,
};

use clap::ArgMatches;
use fairlead_api::{Code, Failure};
use fairlead_client::Environment;
use fairlead_runner::{Config, Guarded, Limits, serve};

use crate::{
    args::{GuardArgs, PostRenderArgs},
    build_info::VERSION,
    settings,
    settings::ProcessSettings,
};

pub(crate) fn run(matches: &ArgMatches, environment: &Environment) -> Result<(), Failure> {
    let mut reader = settings::reader("runner", matches, environment);
    let process = ProcessSettings::read(&mut reader, environment);
    let socket = reader.required::<PathBuf>("socket", "the Unix socket for the agent");
    let work = reader.required::<PathBuf>("work", "the folder for the files of runs");
    let helm = reader.required::<PathBuf>("helm", "the whole path of the program Helm");
    let end_without_agent = reader.or("end-without-agent", false);
    if let Some(relative) = helm.as_ref().filter(|path| !path.is_absolute()) {
        reader.mistake(format!("helm: {} is no whole path", relative.display()));
    }
    reader.finish()?;
    let (Some(socket), Some(work), Some(helm)) = (socket, work, helm) else {
        return Err(Code::Internal.into());
    };
    let program =
        std::env::current_exe().map_err(|error| Failure::because(Code::Internal, error))?;
    let config = Config {
        socket,
        work,
        helm,
        guard: vec![program.clone().into(), "guard".into()],
        program,
        version: VERSION.to_owned(),
        end_without_agent,
        limits: Limits::default(),
    };
    // The kernel ends programs with the thread that started them, so all of them start on this one.
    process.run(1, async move |process| {
        process.started();
        let served = serve(config, process.draining()).await;
        served.map_err(|error| Failure::because(Code::BadConfig, error))
    })
}

pub(crate) fn guard(args: GuardArgs) -> Result<(), Failure> {
    let mut command = args.command.into_iter();
    let guarded = Guarded {
        parent: args.parent,
        program: command.next().unwrap_or_default(),
        args: command.collect(),
    };
    match fairlead_runner::guard(&guarded) {
        Ok(never) => match never {},
        Err(error) => Err(Failure::because(Code::Internal, error)),
    }
}

/// Reads manifests on stdin, and writes them with the kept fields to stdout, as Helm expects it of a post-renderer.
pub(crate) fn post_render(args: &PostRenderArgs) -> Result<(), Failure> {
    let internal = |error: String| Failure::because(Code::Internal, error);
    let kept = std::fs::read(&args.kept).map_err(|error| internal(error.to_string()))?;
    let mut manifests = String::new();
    let read = std::io::stdin().read_to_string(&mut manifests);
    read.map_err(|error| internal(error.to_string()))?;
    let rendered = fairlead_agent::post_render(&manifests, &kept).map_err(internal)?;
    let written = std::io::stdout().write_all(rendered.as_bytes());
    written.map_err(|error| internal(error.to_string()))
}
