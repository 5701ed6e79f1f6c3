//! Pages and pictures of the book that come from running programs.
//!
//! `book api < openapi.json` prints the API reference as Markdown, `book values < values.yaml` that of a chart's values. `COMMAND | book terminal` prints an SVG that replays the
//! lines of the command at their times.

mod api;
mod terminal;
mod values;

use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    process::ExitCode,
};

use anyhow::bail;

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(page: Option<&str>) -> anyhow::Result<()> {
    let text = match page {
        Some("api") => {
            let mut json = String::new();
            io::stdin().lock().read_to_string(&mut json)?;
            api::page(&serde_json::from_str(&json)?)
        }
        Some("terminal") => {
            let mut recording = terminal::Recording::start();
            for line in io::stdin().lock().lines() {
                recording.push(line?);
            }
            recording.svg()
        }
        Some("values") => {
            let mut yaml = String::new();
            io::stdin().lock().read_to_string(&mut yaml)?;
            values::table(&yaml)?
        }
        _ => bail!("usage: book api|terminal|values < INPUT"),
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}
