//! Disks that are full, too small or failing, and a PostgreSQL whose processes are killed during
//! writes.
//!
//! The writer is a process around a `Store`, not a whole hub; it is this program started again.
//! Tests that kill hubs are in `e2e/tests/killed`, the one with a full disk in `e2e/tests/full.rs`.
//! Afterwards all acknowledged writes are present, and each change is complete or absent.
//!
//! `--postgres N` runs the PostgreSQL part and kills its processes N times; otherwise the SQLite
//! part runs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its progress"
)]

mod disk;
mod full;
mod load;
mod postgres;
mod room;
mod verify;

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
        // A test runner lists or filters tests.
        ["--list", ..] => {}
        ["--postgres", kills] => postgres::all(kills.parse().unwrap()),
        _ => {
            full::a_full_disk_is_told_and_overcome();
            disk::a_small_and_a_broken_disk_are_told();
        }
    }
    ExitCode::SUCCESS
}
