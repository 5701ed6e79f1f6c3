//! A hub that is killed in the middle of writing, and one whose disk is full: each is a process of its own, this very
//! program started again. What was answered is there afterwards, and nothing is there in halves.
//!
//! `--kills N` says how often it is killed (5).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it does"
)]

mod full;
mod kill;
mod load;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["load", place, round] => load::run(place, round),
        ["fill", place] => full::fill(place),
        // Somebody looks for tests of other names.
        ["--list", ..] => {}
        ["--kills", kills] => {
            let kills = kills.parse().unwrap();
            kill::nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves(kills);
        }
        _ => {
            kill::nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves(5);
            full::a_full_disk_is_told_and_overcome();
        }
    }
    ExitCode::SUCCESS
}
