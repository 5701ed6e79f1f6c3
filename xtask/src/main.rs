//! Checks of the repository that no compiler makes. `make lint` runs them.
//!
//! The rules are those of `CONTRIBUTING.md`: plain words, constants that name quantity and unit, short sentences, short
//! commit subjects. Missing doc comments are found by rustc (`missing_docs`).

mod codes;
mod commits;
mod constants;
mod report;
mod sentences;
mod sources;
mod standalone;
mod targets;
mod words;

use std::{env::args, io, path::Path, process::ExitCode};

fn main() -> ExitCode {
    // The package's folder lies in the root of the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let outcome = match args().nth(1).as_deref() {
        Some("lint") => lint(&root),
        Some("report") => report::print(&root, &mut io::stdout().lock()).map(|()| Vec::new()),
        _ => Err(io::Error::other("usage: xtask lint | report")),
    };
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            eprintln!("{} findings; CONTRIBUTING.md has the rules", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every check below `root` and returns one line per finding.
fn lint(root: &Path) -> io::Result<Vec<String>> {
    let files = sources::read(root)?;
    let mut findings = words::check(&files);
    findings.extend(files.iter().flat_map(constants::check));
    findings.extend(files.iter().flat_map(sentences::check));
    findings.extend(codes::check(&files));
    findings.extend(standalone::check(&files));
    findings.extend(targets::check(root)?);
    findings.extend(commits::check(root)?);
    Ok(findings)
}
