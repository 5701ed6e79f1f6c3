//! `fairlead backup`, `fairlead restore` and `fairlead store`: operations on all data of a hub, on the hub's machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fairlead_api::{
    Code, Failure,
    resources::{CreateToken, CreatedToken},
};
use fairlead_client::{Environment, files};
use fairlead_commands::{
    HubPlace, block_on,
    confirm::confirm,
    output::{self, OutputFormat, TableColumn},
};
use fairlead_control::backup::{HubData, RestoredAccess, RestoredDeliveries, Sink, opened};
use fairlead_runtime::atomic_file;
use fairlead_store::{DumpError, Place, Tallies, dump::migrate};
use secrecy::SecretString;

use crate::args;

/// Next steps after a restore.
const CONFIRM_NOTE: &str = "Identities and API tokens of the backup are void. Start the hub and make a token with `fairlead token create --data DIR`. Revoke and delete again what was revoked and deleted since the backup, then run `fairlead confirm-restore`.";

pub(crate) fn backup(asked: args::Backup, environment: &Environment) -> Result<(), Failure> {
    if !asked.without_ca && asked.recipient.is_empty() {
        return Err(Code::NoRecipient.into());
    }
    let data = hub_data(asked.place, environment)?;
    if is_standard(&asked.file) {
        return to_standard_output(&data, &asked.recipient, !asked.without_ca);
    }
    if asked.file.symlink_metadata().is_ok() {
        return Err(exists(&asked.file));
    }
    let part = beside(&asked.file);
    let file = create(&part)?;
    let written = write(&data, file, &asked.recipient, !asked.without_ca);
    // The backup gets its final name only after it is synced to disk.
    let kept = written.and_then(|tallies| publish(&part, &asked.file).map(|()| tallies));
    // An incomplete file could be mistaken for a backup. A complete one has its final name by now.
    let _ = fs::remove_file(&part);
    Ok(output::print(&shown(&kept?))?)
}

/// Writes a backup to standard output, and its summary to stderr.
fn to_standard_output(
    data: &HubData,
    recipients: &[String],
    with_keys: bool,
) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        let detail = "standard output is a terminal: send the backup into a file or a program";
        return Err(Failure::because(Code::Usage, detail));
    }
    let sink = Sink::new(Box::new(BufWriter::new(io::stdout())), recipients)?;
    let tallies = block_on(data.back_up(sink, with_keys))??;
    // The backup is complete even if stderr is closed.
    let _ = io::stderr().write_all(shown(&tallies).as_bytes());
    Ok(())
}

fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Creates a file with mode 0600; an existing one is never opened.
fn create(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot_write(path, &error),
    })
}

/// Gives a file a second name that does not exist yet. A rename would replace a file of that name.
fn publish(part: &Path, file: &Path) -> Result<(), Failure> {
    atomic_file::link(part, file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => cannot_write(file, &error),
    })
}

fn exists(path: &Path) -> Failure {
    Failure::because(Code::FileExists, path.display())
}

fn write(
    data: &HubData,
    file: File,
    recipients: &[String],
    with_keys: bool,
) -> Result<Tallies, Failure> {
    let sink = Sink::new(Box::new(BufWriter::new(file)), recipients)?;
    Ok(block_on(data.back_up(sink, with_keys))??)
}

pub(crate) fn restore(asked: args::Restore, environment: &Environment) -> Result<(), Failure> {
    let data = hub_data(asked.place, environment)?;
    let identity = asked.identity.as_deref().map(files::read).transpose()?;
    let identity = identity.map(SecretString::from);
    let access = match asked.keep_access {
        true => RestoredAccess::Kept,
        false => RestoredAccess::AwaitsConfirmation,
    };
    let deliveries = match asked.deliver_again {
        true => RestoredDeliveries::Again,
        false => RestoredDeliveries::Kept,
    };
    let restored = confirm_overwrite(asked.yes, |overwrite| {
        let source = opened(source(&asked.file)?, identity.as_ref())?;
        block_on(data.restore(source, overwrite, access, deliveries))?
    });
    output::print(&shown(&restored?))?;
    if access == RestoredAccess::AwaitsConfirmation {
        output::note(CONFIRM_NOTE);
    }
    Ok(())
}

fn source(file: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if is_standard(file) {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).map_err(|error| {
        let cause = format!("the backup {} cannot be read: {error}", file.display());
        Failure::with_cause(Code::BadConfig, cause).next("Check the name of the file.")
    })?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Creates a token for `fairlead token create --data`, without a login.
pub(crate) fn create_token(
    place: HubPlace,
    asked: CreateToken,
    environment: &Environment,
) -> Result<CreatedToken, Failure> {
    block_on(hub_data(place, environment)?.create_token(asked))?
}

pub(crate) fn store(command: args::StoreArgs, environment: &Environment) -> Result<(), Failure> {
    match command {
        args::StoreArgs::Check(place) => {
            let wrong = block_on(hub_data(place, environment)?.check())??;
            if wrong.is_empty() {
                return Ok(output::print("The store is whole.\n")?);
            }
            output::print(&format!("{}\n", wrong.join("\n")))?;
            let detail = format_args!("the store has {} errors", wrong.len());
            Err(Failure::because(Code::DataDir, detail))
        }
        args::StoreArgs::Migrate {
            from,
            to,
            store_password_file,
            yes,
        } => {
            let password = password(store_password_file.as_deref(), environment)?;
            let place = |text: String| {
                let place: Result<Place, Failure> = text.parse();
                place.map(|place| place.with_password(password.as_ref()))
            };
            let (from, to) = (place(from)?, place(to)?);
            let moved =
                confirm_overwrite(yes, |overwrite| block_on(migrate(&from, &to, overwrite))?);
            Ok(output::print(&shown(&moved?))?)
        }
    }
}

fn hub_data(place: HubPlace, environment: &Environment) -> Result<HubData, Failure> {
    let password = password(place.store_password_file.as_deref(), environment)?;
    let store: Option<Place> = place.store.map(|text| text.parse()).transpose()?;
    Ok(HubData {
        data_dir: place.data,
        store: store.map(|store| store.with_password(password.as_ref())),
    })
}

fn password(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<SecretString>, Failure> {
    let Some(file) = file else {
        let variable = environment.get("FAIRLEAD_STORE_PASSWORD");
        return Ok(variable.map(SecretString::from));
    };
    let secret = files::read_secret(file);
    secret.map(Some).map_err(|cause| {
        let cause = format!("--store-password-file: {cause}");
        Failure::with_cause(Code::BadConfig, cause).next("Give a file with the password.")
    })
}

fn shown(tallies: &Tallies) -> String {
    let rows = tallies.iter();
    let rows = rows.map(|(name, tally)| {
        [
            name.clone().into(),
            tally.rows.to_string().into(),
            tally.sha256.clone().into(),
        ]
    });
    let columns = [
        TableColumn::key("TABLE"),
        TableColumn::word("ROWS"),
        TableColumn::id("SHA-256"),
    ];
    output::table(&OutputFormat::Table, &columns, rows)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::because(
        Code::CannotWrite,
        format_args!("{}: {error}", file.display()),
    )
}

/// Runs an action that may overwrite data, and repeats it after confirmation. The argument of `act` permits overwriting.
///
/// # Errors
/// Errors of `act`; `FL-4118` without confirmation.
fn confirm_overwrite<T>(
    yes: bool,
    mut act: impl FnMut(bool) -> Result<T, DumpError>,
) -> Result<T, Failure> {
    match act(yes) {
        Err(error @ DumpError::NotEmpty(_)) if !yes => {
            let cause = Failure::from(error).cause;
            let question = format!("{cause}; all of it would be deleted. Continue?");
            confirm(false, &question)?;
            Ok(act(true)?)
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_data_needs_no_confirmation() {
        let mut tries = Vec::new();
        let done = confirm_overwrite(false, |may| {
            tries.push(may);
            Ok(())
        });
        assert!(done.is_ok());
        let failed = confirm_overwrite(true, |may| {
            tries.push(may);
            Err::<(), _>(DumpError::NotEmpty("a file is there".to_owned()))
        });
        assert_eq!(failed.unwrap_err().code, Code::InUse);
        assert_eq!(tries, [false, true]);
    }
}
