//! `fairlead recording`: recordings of terminal sessions, from files on this machine.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    time::Duration,
};

use fairlead_api::{Code, Failure, resources::List};
use fairlead_audit::{OpenError, RecordingFile, open_recording, recordings};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    args::{OutputArgs, RecordingArgs},
    output::{self, Cell, TableColumn},
    runtime::block_on,
};

/// Longest pause of a playback.
const MAX_PAUSE: Duration = Duration::from_secs(2);

pub(crate) fn run(command: &RecordingArgs) -> Result<(), Failure> {
    match command {
        RecordingArgs::List { dir, output } => list(dir, output),
        RecordingArgs::Play {
            file,
            identity,
            cast,
        } => block_on(play(file, identity, *cast))?,
    }
}

fn list(dir: &Path, output: &OutputArgs) -> Result<(), Failure> {
    let items = recordings(dir).map_err(|error| unreadable(dir, &error))?;
    let items = List { items };
    output::show_list(&output.output, &items, "recordings", &columns(), cells)?;
    Ok(())
}

fn columns() -> [TableColumn; 4] {
    [
        TableColumn::id("FILE"),
        TableColumn::word("BYTES"),
        TableColumn::word("BEGAN"),
        TableColumn::word("REMOVED-AFTER"),
    ]
}

fn cells(file: &RecordingFile) -> [Cell; 4] {
    [
        file.name.clone().into(),
        file.bytes.to_string().into(),
        file.began.clone().into(),
        file.expires.clone().unwrap_or_default().into(),
    ]
}

async fn play(file: &Path, identity: &Path, cast: bool) -> Result<(), Failure> {
    let keys = fs::read_to_string(identity).map_err(|error| unreadable(identity, &error))?;
    let opened = open_recording(file, &keys).map_err(|error| match error {
        OpenError::Io(error) => unreadable(file, &error),
        error => Failure::because(Code::WrongKey, error),
    })?;
    let mut before = Duration::ZERO;
    for line in BufReader::new(opened).lines() {
        // A recording that a crash has cut plays to its last whole block.
        let Ok(line) = line else {
            output::note("the recording is incomplete");
            break;
        };
        if cast {
            output::print(&format!("{line}\n"))?;
            continue;
        }
        let Some((at, text)) = output_of(&line) else {
            continue;
        };
        sleep(at.saturating_sub(before).min(MAX_PAUSE)).await;
        before = at;
        output::print(&text)?;
    }
    Ok(())
}

/// Time and text of an output event.
fn output_of(line: &str) -> Option<(Duration, String)> {
    let event: Value = serde_json::from_str(line).ok()?;
    let seconds = event.get(0)?.as_f64()?;
    let is_output = event.get(1)?.as_str()? == "o";
    let text = event.get(2)?.as_str().filter(|_| is_output)?;
    Some((Duration::try_from_secs_f64(seconds).ok()?, text.to_owned()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(
        Code::CannotRead,
        format_args!("{}: {error}", path.display()),
    )
}
