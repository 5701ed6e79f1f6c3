//! `fairlead support-bundle`: checks, version, settings, metrics and log lines in one archive, without secrets.
//!
//! Values of secret settings are never read into the archive. All texts also pass a masker of the known secrets, because a
//! log or an answer of a box on the path may quote one.

mod metrics;
mod secrets;

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use clap::ArgMatches;
use fairlead_api::{Code, Failure, checkup::Checkup};
use fairlead_client::Environment;
use fairlead_commands::{block_on, output};
use fairlead_masking::Masker;
use fairlead_runtime::config::{EffectiveSetting, ListenAddress, Reader};
use flate2::{Compression, write::GzEncoder};
use time::OffsetDateTime;

use crate::{
    agent,
    args::SupportBundle,
    build_info::VERSION,
    doctor,
    hub::settings as hub_settings,
    settings::{ProcessSettings, reader},
};

/// Limit of the quoted end of a log, in bytes.
const MAX_LOG_BYTES: usize = 1 << 20;
const NEW_FILE: &str = "Name a new file in a folder that this user may write to.";

/// Files of the archive with their texts.
type Texts = Vec<(&'static str, String)>;

pub(crate) fn run(
    args: &SupportBundle,
    matches: &ArgMatches,
    environment: &Environment,
) -> Result<(), Failure> {
    let is_hub = args.settings.of_hub;
    let reader = match is_hub {
        true => hub_reader(matches, environment),
        false => agent::read_all(matches, environment).0,
    };
    let settings = reader.effective();
    let checked = match is_hub {
        true => doctor::hub::check(matches, environment),
        false => doctor::check_agent(matches, environment, None),
    };
    let admin = settings.iter().find(|it| it.key == "admin");
    let masker = secrets::masker(&settings, environment)?;
    let mut texts = vec![
        ("version.txt", version()),
        (
            "settings.txt",
            secrets::settings_text(&settings, environment),
        ),
        ("metrics.txt", metrics_text(admin)),
    ];
    texts.extend(checkup_texts(checked));
    if let Some(log) = &args.log_file {
        texts.push(("log.txt", log_text(log)?));
    }
    write(&args.file, &texts, &masker)?;
    let names: Vec<&str> = texts.iter().map(|(name, _)| *name).collect();
    let line = format!("Wrote {}: {}.\n", args.file.display(), names.join(", "));
    Ok(output::print(&line)?)
}

fn hub_reader(matches: &ArgMatches, environment: &Environment) -> Reader {
    let mut reader = reader("server", matches, environment);
    let _ = ProcessSettings::read(&mut reader, environment);
    let _ = hub_settings::read_server(&mut reader, environment);
    reader
}

fn version() -> String {
    // Other systems have no such file.
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (target, os) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("fairlead {VERSION}\n{os} {target} {kernel}")
}

/// Result of the doctor. A mistake in the settings is a finding, too.
fn checkup_texts(checked: Result<Checkup, Failure>) -> Texts {
    match checked {
        Ok(checkup) => {
            let json = serde_json::to_string_pretty(&checkup).unwrap_or_default();
            vec![("doctor.txt", checkup.text()), ("doctor.json", json)]
        }
        Err(failure) => vec![("doctor.txt", crate::outcome::failure_text(&failure))],
    }
}

fn metrics_text(admin: Option<&EffectiveSetting>) -> String {
    let Some(text) = admin.and_then(|it| it.values.first()) else {
        return "no admin address: name it with --admin\n".to_owned();
    };
    let fetched = match text.parse::<ListenAddress>() {
        Ok(address) => block_on(metrics::fetch(address.0)),
        Err(mistake) => return format!("admin: {mistake}\n"),
    };
    match fetched {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => format!("{text}: {error}\n"),
        Err(failure) => format!("{failure}\n"),
    }
}

/// Last lines of a log.
fn log_text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().read_to_end(&mut bytes),
        false => File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|error| {
        let detail = format_args!("{}: {error}", path.display());
        Failure::because(Code::CannotRead, detail)
    })?;
    Ok(last_lines(&String::from_utf8_lossy(&bytes)))
}

fn last_lines(text: &str) -> String {
    let mut size = 0;
    let lines: Vec<&str> = text
        .lines()
        .rev()
        .take_while(|line| {
            size += line.len() + 1;
            size <= MAX_LOG_BYTES
        })
        .collect();
    let mut kept = String::new();
    for line in lines.into_iter().rev() {
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// Writes the archive; an existing file is never replaced.
fn write(path: &Path, texts: &Texts, masker: &Masker) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let detail = format_args!("{}: {error}", path.display());
        Failure::because(Code::CannotWrite, detail).next(NEW_FILE)
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(failed)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for (name, text) in texts {
        let bytes = masker.mask_bytes(secrets::without_tokens(text).as_bytes());
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(bytes.len()).unwrap_or_default());
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(now).unwrap_or_default());
        let place = format!("fairlead-support/{name}");
        let added = archive.append_data(&mut header, place, bytes.as_slice());
        added.map_err(failed)?;
    }
    let encoder = archive.into_inner().map_err(failed)?;
    encoder
        .finish()
        .and_then(|mut file| file.flush())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_log_has_whole_lines() {
        let line = "x".repeat(1023);
        let log = format!("{line}\n").repeat(1030) + "last\n";
        let kept = last_lines(&log);
        assert!(kept.len() <= MAX_LOG_BYTES && kept.len() > MAX_LOG_BYTES - 2048);
        assert!(kept.ends_with("x\nlast\n"));
        assert_eq!(last_lines("one\ntwo"), "one\ntwo\n");
    }
}
