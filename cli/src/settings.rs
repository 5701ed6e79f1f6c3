//! Settings of the long-running commands from flags, `FAIRLEAD_*` variables and the TOML file.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgMatches, parser::ValueSource};
use fairlead_api::{Code, Failure, TimeSpan};
use fairlead_client::{Environment, files};
use fairlead_runtime::{Process, ServiceManager, Workers, config::Reader, log, service, workers};
use secrecy::SecretString;
use tracing::info;

/// Valid tables of a configuration file.
const TABLES: [&str; 4] = ["dev", "server", "agent", "runner"];

/// Reader of the settings of `command`, from all layers.
pub(crate) fn reader(
    command: &'static str,
    matches: &ArgMatches,
    environment: &Environment,
) -> Reader {
    let mut flags = Vec::new();
    if let Some((_, given)) = matches.subcommand() {
        for id in given.ids().map(clap::Id::as_str) {
            // clap names the argument group of a struct like the struct, with a capital letter.
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
            Err(error) => reader.mistake(Failure::from(error).cause),
        }
    }
    reader
}

/// Reads a secret from a file or the environment. There is no flag for it, because command lines are public.
pub(crate) fn read_secret(
    reader: &mut Reader,
    name: &'static str,
    file: &'static str,
) -> Option<SecretString> {
    let secret: Option<String> = reader.optional(name);
    let path: Option<PathBuf> = reader.optional(file);
    let secret = match path {
        None => secret,
        Some(path) => match files::read_secret(&path) {
            Ok(text) => return Some(text),
            Err(cause) => {
                reader.mistake(format!("{file}: {cause}"));
                None
            }
        },
    };
    secret.map(SecretString::from)
}

/// Settings of every long-running command.
pub(crate) struct ProcessSettings {
    log: String,
    log_format: log::Format,
    drain_timeout: Duration,
    service_manager: ServiceManager,
}

impl ProcessSettings {
    pub(crate) fn read(reader: &mut Reader, environment: &Environment) -> Self {
        let _: Option<String> = reader.optional("config");
        let settings = ProcessSettings {
            log: reader.or("log", "info".to_owned()),
            log_format: reader.or("log-format", log::Format::Text),
            drain_timeout: reader
                .or("drain-timeout", TimeSpan(Duration::from_secs(30)))
                .0,
            service_manager: ServiceManager::at(environment.get(service::SOCKET_VARIABLE)),
        };
        if let Err(error) = log::filter(&settings.log) {
            reader.mistake(format!("log: {error}"));
        }
        settings
    }

    /// Starts logging and a runtime on `cores` threads, runs `main` until it ends or the process is told to stop, and drains.
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
        let (workers, threads) = Workers::start(runtime.handle(), cores).map_err(internal)?;
        let process = Process::on(workers).with_service_manager(self.service_manager);
        let run = fairlead_runtime::run(process, self.drain_timeout, async |process| {
            main(process).await.map_err(EndedProcess::Failed)
        });
        // The task ends with the runtime; remaining log lines are flushed after that.
        drop(runtime.spawn(log::write_buffered()));
        let ended = runtime.block_on(run);
        drop(threads);
        log::flush();
        match ended {
            Ok(()) | Err(EndedProcess::Interrupted) => Ok(()),
            Err(EndedProcess::Failed(failure)) => Err(failure),
        }
    }
}

/// Cause of the end of a long-running command.
enum EndedProcess {
    Failed(Failure),
    Interrupted,
}

impl From<std::io::Error> for EndedProcess {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::Interrupted => EndedProcess::Interrupted,
            _ => EndedProcess::Failed(Failure::because(Code::Internal, error)),
        }
    }
}
