//! Disks that are full, too small or broken, and a PostgreSQL whose processes are killed in the middle of writing. What writes
//! is no whole hub but a process around a `Store`, this very program started again; hubs that are killed are in
//! `e2e/tests/killed`, and one whose disk is full in `e2e/tests/full.rs`. What was answered is there afterwards, and nothing is there in halves.
//!
//! `--postgres N` is what is PostgreSQL's, and kills its processes N times; else it is what is SQLite's.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it does"
)]

mod disk;
mod full;
mod load;
mod look;
#[path = "../../../runtime/testkit/mounts.rs"]
mod mounts;
mod postgres;
mod room;
#[path = "../../../control/tests/postgres/server.rs"]
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["load", place] => load::run(place),
        ["fill", place] => full::fill(place),
        ["disk", folder] => disk::within(folder.as_ref()),
        ["postgres-disk", folder] => postgres::disk::within(folder.as_ref()),
        // Somebody looks for tests of other names.
        ["--list", ..] => {}
        ["--postgres", kills] => postgres::all(kills.parse().unwrap()),
        _ => {
            full::a_full_disk_is_told_and_overcome();
            disk::a_small_and_a_broken_disk_are_told();
        }
    }
    ExitCode::SUCCESS
}
