//! Stores whose process is killed in the middle of writing, databases that are, disks that are full or read-only, backups under
//! load. What writes is no whole hub but a process around a `Store`, this very program started again. What was answered is
//! there afterwards, and nothing is there in halves.
//!
//! `--kills N` says how often each store's process is killed (5, and SQLite's only); `--postgres N` kills PostgreSQL's only.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it does"
)]

mod backup;
mod disk;
mod full;
mod kill;
mod load;
mod place;
mod postgres;
mod room;
#[path = "../postgres/server.rs"]
mod server;

use std::process::ExitCode;

use kill::nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves;
use place::Sqlite;

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
        ["disk", folder] => disk::within(folder.as_ref()),
        ["postgres-disk", folder] => postgres::disk::within(folder.as_ref()),
        // Somebody looks for tests of other names.
        ["--list", ..] => {}
        ["--kills", kills] => {
            let kills = kills.parse().unwrap();
            nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves::<Sqlite>(kills);
            backup::a_backup_under_load_restores_to_a_state_that_was::<Sqlite>(kills.div_ceil(10));
            full::a_full_disk_is_told_and_overcome();
            disk::a_small_and_a_broken_disk_are_told();
            postgres::all(kills);
        }
        ["--postgres", kills] => postgres::all(kills.parse().unwrap()),
        _ => {
            nothing_that_was_answered_is_lost_and_nothing_is_there_in_halves::<Sqlite>(5);
            backup::a_backup_under_load_restores_to_a_state_that_was::<Sqlite>(1);
            full::a_full_disk_is_told_and_overcome();
            disk::a_small_and_a_broken_disk_are_told();
        }
    }
    ExitCode::SUCCESS
}
