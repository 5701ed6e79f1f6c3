//! The figures behind the checks, by crate and by document.

use std::{io, path::Path};

use crate::{
    sentences::{self, LONG_WORDS},
    sources, words,
};

#[expect(clippy::print_stdout, reason = "the report is the output")]
pub(crate) fn print(root: &Path) -> io::Result<()> {
    let files = sources::read(root)?;
    println!(
        "{:<12} {:>7} {:>9} {:>9}",
        "crate", "words", "pronouns", "per 1000"
    );
    for (group, count) in words::count(&files) {
        let (words, pronouns, rate) = (count.words, count.pronouns, count.rate());
        println!("{group:<12} {words:>7} {pronouns:>9} {rate:>9.1}");
    }
    println!(
        "\n{:<40} {:>9} {:>14}",
        "document", "sentences", "over 30 words"
    );
    for file in &files {
        let sentences = sentences::sentences(file);
        if sentences.is_empty() {
            continue;
        }
        let long = sentences.iter().filter(|it| it.words > LONG_WORDS).count();
        let percent = 100 * long / sentences.len();
        println!("{:<40} {:>9} {percent:>12} %", file.path, sentences.len());
    }
    Ok(())
}
