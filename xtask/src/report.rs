//! The figures behind the checks, by crate and by document.

use std::{
    io::{self, Write},
    path::Path,
};

use crate::{
    sentences::{self, LONG_WORDS},
    sources, words,
};

/// Writes the report to `out`. A reader that has closed its pipe, such as `head`, ends the report.
pub(crate) fn print(root: &Path, out: &mut impl Write) -> io::Result<()> {
    match write(root, out) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn write(root: &Path, out: &mut impl Write) -> io::Result<()> {
    let files = sources::read(root)?;
    writeln!(
        out,
        "{:<12} {:>7} {:>9} {:>9}",
        "crate", "words", "pronouns", "per 1000"
    )?;
    for (group, count) in words::count(&files) {
        let (words, pronouns, rate) = (count.words, count.pronouns, count.rate());
        writeln!(out, "{group:<12} {words:>7} {pronouns:>9} {rate:>9.1}")?;
    }
    writeln!(
        out,
        "\n{:<40} {:>9} {:>14}",
        "document", "sentences", "over 30 words"
    )?;
    for file in &files {
        let sentences = sentences::sentences(file);
        if sentences.is_empty() {
            continue;
        }
        let long = sentences.iter().filter(|it| it.words > LONG_WORDS).count();
        let percent = 100 * long / sentences.len();
        writeln!(
            out,
            "{:<40} {:>9} {percent:>12} %",
            file.path,
            sentences.len()
        )?;
    }
    Ok(())
}
