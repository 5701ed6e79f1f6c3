//! Settings of the long-running commands, from flags, `FAIRLEAD_*` and the TOML file.

use std::{future::Future, path::Path, time::Duration};

use clap::{ArgMatches, parser::ValueSource};
use fairlead_api::{Code, Failure};
use fairlead_runtime::{
    Process, Workers,
    config::{Reader, Span},
    log, workers,
};
use tracing::info;

use crate::{environment::Environment, files};

/// Tables a configuration file may have.
const TABLES: [&str; 3] = ["dev", "server", "agent"];

/// The layers of `command`, ready to be asked.
pub(crate) fn reader(
    command: &'static str,
    matches: &ArgMatches,
    environment: &Environment,
) -> Reader {
    let mut flags = Vec::new();
    if let Some((_, given)) = matches.subcommand() {
        for id in given.ids().map(clap::Id::as_str) {
            // clap names the group of a struct's flags like the struct.
            let is_flag = id.starts_with(|c: char| c.is_ascii_lowercase());
            if is_flag && given.value_source(id) == Some(ValueSource::CommandLine) {
                let values = given
                    .get_raw(id)
                    .into_iter()
                    .flatten()
                    .map(|v| v.to_string_lossy().into_owned());
                flags.push((id.replace('_', "-"), values.collect()));
            }
        }
    }
    let mut reader = Reader::new(command, flags, environment.all());
    if let Some(file) = reader.config_file() {
        match files::read(Path::new(&file)) {
            Ok(text) => reader.add_file(&file, &text, &TABLES),
            Err(failure) => reader.mistake(failure.cause),
        }
    }
    reader
}

/// What every long-running command knows.
pub(crate) struct ProcessSettings {
    log: String,
    log_format: log::Format,
    drain_timeout: Duration,
}

impl ProcessSettings {
    pub(crate) fn read(reader: &mut Reader) -> Self {
        let _: Option<String> = reader.optional("config");
        let settings = ProcessSettings {
            log: reader.or("log", "info".to_owned()),
            log_format: reader.or("log-format", log::Format::Text),
            drain_timeout: reader.or("drain-timeout", Span(Duration::from_secs(30))).0,
        };
        if let Err(error) = log::filter(&settings.log) {
            reader.mistake(format!("log: {error}"));
        }
        settings
    }

    /// Starts logging and a runtime on each of the `cores`, runs `main` on the first, drains.
    pub(crate) fn run<F>(self, cores: usize, main: F) -> Result<(), Failure>
    where
        F: AsyncFnOnce(Process) -> Result<(), Failure>,
    {
        let filter =
            log::filter(&self.log).map_err(|error| Failure::because(Code::BadConfig, error))?;
        log::start(self.log_format, filter);
        let open_files = fairlead_runtime::files::open_as_many_as_allowed();
        info!(open_files, "limits");
        let internal = |error| Failure::because(Code::Internal, error);
        let runtime = workers::single().map_err(internal)?;
        let (workers, threads) = Workers::start(cores).map_err(internal)?;
        let process = Process::on(workers);
        let run = fairlead_runtime::run(process, self.drain_timeout, async |process| {
            main(process).await.map_err(Ended::Failed)
        });
        // Ends with the runtime; what it had not written is written behind that.
        drop(runtime.spawn(log::write_gathered()));
        let ended = runtime.block_on(run);
        drop(threads);
        log::flush();
        match ended {
            Ok(()) | Err(Ended::Interrupted) => Ok(()),
            Err(Ended::Failed(failure)) => Err(failure),
        }
    }
}

/// How a long-running command ended, if not by itself.
enum Ended {
    Failed(Failure),
    Interrupted,
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::Interrupted => Ended::Interrupted,
            _ => Ended::Failed(Failure::because(Code::Internal, error)),
        }
    }
}

/// Runs a short command.
pub(crate) fn block_on<F: Future>(command: F) -> Result<F::Output, Failure> {
    let runtime = workers::single().map_err(|error| Failure::because(Code::Internal, error))?;
    Ok(runtime.block_on(command))
}
