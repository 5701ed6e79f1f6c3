//! `fairlead tenant|cluster edit`: edits the writable fields of a resource. A failure never loses the edited text: it stays in
//! its file, and the failure names the file.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure};
use fairlead_client::{
    Environment, HubClient,
    documents::{
        self, Document, DocumentKind,
        plan::{self, ApplyMode, PlannedRequest},
    },
    files,
};
use tokio::process::Command;

use crate::{apply, confirm::confirm, output};

/// Limit of attempts to find an unused file name.
const MAX_FILE_ATTEMPTS: u32 = 100;

/// Exit codes of a POSIX shell for a command that it cannot run.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
const OTHER_EDITOR: &str = "Set VISUAL or EDITOR to the command of an editor.";

pub(crate) async fn run(
    hub: &HubClient,
    kind: DocumentKind,
    path: &str,
    yes: bool,
    environment: &Environment,
) -> Result<(), Failure> {
    let now = hub.get_tagged(path).await?.ok_or(match kind {
        DocumentKind::Cluster => Code::NoSuchCluster,
        _ => Code::NotFound,
    })?;
    let base = Document::of(kind, &now.value)?;
    let text = text_of(&base)?;
    let file = new_file(&base, &text, environment)?;
    let edited = edit(&file, environment).await;
    if edited.is_err() && files::read(&file).is_ok_and(|left| is_same(&left, &text)) {
        let _ = fs::remove_file(&file);
        return edited.map(drop);
    }
    let result = match edited {
        Ok(edited) if is_same(&edited, &text) => {
            output::print(&format!("{base} is unchanged.\n")).map_err(Failure::from)
        }
        Ok(edited) => take(hub, &base, &edited, yes).await,
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => {
            // The file is no longer needed; an error here does not matter.
            let _ = fs::remove_file(&file);
            Ok(())
        }
        Err(failure) => Err(Failure {
            cause: format!(
                "{}; the edited text is kept in {}",
                failure.cause,
                file.display()
            ),
            ..failure
        }),
    }
}

fn text_of(base: &Document) -> Result<String, Failure> {
    let yaml = output::yaml(&base.whole())?;
    Ok(format!(
        "# Fields of {base}. Save and close to change them; leave the file unchanged to cancel.\n{yaml}"
    ))
}

/// True if two texts differ at most in comments and empty lines.
fn is_same(edited: &str, text: &str) -> bool {
    fn lines(text: &str) -> impl Iterator<Item = &str> {
        text.lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
    }
    lines(edited).eq(lines(text)) || lines(edited).next().is_none()
}

async fn take(hub: &HubClient, base: &Document, edited: &str, yes: bool) -> Result<(), Failure> {
    let texts = [("the edited text".to_owned(), edited.to_owned())];
    let mut read = documents::read(&texts, base.kind)?;
    let document = match (read.pop(), read.pop()) {
        (Some(one), None) if one.id == base.id && one.kind == base.kind => one,
        _ => {
            let detail = format_args!("the edited text is not of {base} alone");
            return Err(Failure::because(Code::Invalid, detail));
        }
    };
    let mode = ApplyMode::EditOf(base);
    let planned = plan::plan(hub, &document, mode, false).await?;
    if planned.request == PlannedRequest::Unchanged {
        let told = "is unchanged: the removed values come from its tenant, or did not exist";
        return Ok(output::print(&format!("{base} {told}.\n"))?);
    }
    output::print(&apply::shown(&document, &planned))?;
    if !planned.dangers.is_empty() {
        let dangers = planned.dangers.join(", ");
        confirm(yes, &format!("{base}: this {dangers}. Continue?"))?;
    }
    plan::send(hub, &document, mode, planned).await?;
    Ok(output::print(&format!("Changed {base}.\n"))?)
}

/// Creates a new file that only this user can read.
fn new_file(base: &Document, text: &str, environment: &Environment) -> Result<PathBuf, Failure> {
    let folder = environment.get("TMPDIR").unwrap_or("/tmp");
    let mut told = None;
    for number in 0..MAX_FILE_ATTEMPTS {
        let name = format!("fairlead-{base}-{}-{number}.yaml", std::process::id());
        let path = Path::new(folder).join(name);
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match made.and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => return Ok(path),
            Err(error) => told = Some(format!("{}: {error}", path.display())),
        }
    }
    Err(Failure::because(
        Code::CannotWrite,
        told.unwrap_or_default(),
    ))
}

/// Runs the editor and returns the edited text.
async fn edit(file: &Path, environment: &Environment) -> Result<String, Failure> {
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| environment.get(name))
        .unwrap_or("vi");
    let failed = |code: Code, why: &dyn std::fmt::Display| {
        let cause = format!("the editor {editor:?} failed: {why}");
        Failure::with_cause(code, cause)
    };
    // The variable may have a command with arguments, so a shell runs it.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]);
    let status = command.arg(file).status().await;
    let status = status.map_err(|error| failed(Code::BadConfig, &error).next(OTHER_EDITOR))?;
    match status.code() {
        Some(0) => Ok(files::read(file)?),
        Some(NOT_EXECUTABLE | NOT_FOUND) => {
            Err(failed(Code::BadConfig, &"it cannot be run").next(OTHER_EDITOR))
        }
        // Editors can exit with an error to cancel, like `:cq` in vi.
        _ => Err(failed(Code::NotConfirmed, &status)
            .next("Nothing was changed: run it again, and end the editor without an error.")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unedited_text_is_parsed_to_the_same_document() {
        let shown = json!({
            "id": "c-a", "tenant": "t-a", "displayName": "yes: it's \"A\" # 1",
            "facts": { "version": "1.10", "on": "true", "empty": "", "null": "null", "zero": "0x1f" },
            "gitRepo": { "hostKeys": "one two\nthree four\n", "url": "ssh://git@git.example/a/b.git" },
            "deleteProtection": true,
        });
        let base = Document::of(DocumentKind::Cluster, &shown).unwrap();
        let text = text_of(&base).unwrap();
        let read =
            documents::read(&[("f".to_owned(), text.clone())], DocumentKind::Cluster).unwrap();
        assert_eq!(read, [base]);
        assert!(is_same(&format!("{text}\n# done\n"), &text));
        assert!(!is_same(&text.replace("1.10", "1.11"), &text));
    }
}
