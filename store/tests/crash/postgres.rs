//! A PostgreSQL whose processes are killed during writes, and one with a full disk.

pub(crate) mod disk;

use std::{fs, path::Path, process::Command, time::Duration};

use fairlead_testkit::postgres::PostgresServer;
use tokio::time::Instant;

use crate::{load::CrashWriter, verify::verify};

/// Acknowledged writes between two kills.
const WRITES_BETWEEN_KILLS: usize = 40;
/// Database name, by which serving processes are recognised.
const DATABASE: &str = "postgres";
const DEATH_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn all(kills: u32) {
    if let Err(error) = PostgresServer::build() {
        println!("SKIPPED: kills with PostgreSQL: {error}");
        return;
    }
    nothing_is_lost_when_the_servers_processes_are_killed(kills);
    disk::without_room_it_is_told_and_overcome();
}

/// Kills one process, after which the server restarts by itself, or all of them. The hub keeps
/// running.
fn nothing_is_lost_when_the_servers_processes_are_killed(kills: u32) {
    let mut server = PostgresServer::start().unwrap();
    let folder = server.folder().display();
    let place = format!("postgres:///{DATABASE}?host={folder}&user=fairlead");
    let writer = CrashWriter::start(&place);
    for round in 0..kills {
        writer.wait_for(WRITES_BETWEEN_KILLS + round as usize * 61 % 97);
        let postmaster = postmaster(server.folder());
        if round % 3 == 2 {
            kill_all(&postmaster);
            server.stop();
            server.resume().unwrap();
        } else if let Some(backend) = children(&postmaster).into_iter().find(|it| serves(it)) {
            kill_hard(&backend);
        }
    }
    writer.wait_for(WRITES_BETWEEN_KILLS);
    let answered = writer.kill();
    verify(&place, &answered);
    println!(
        "PostgreSQL: its processes killed {kills} times: {} answers kept, nothing in halves",
        answered.len()
    );
}

fn postmaster(folder: &Path) -> String {
    let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    file.lines().next().unwrap().trim().to_owned()
}

/// Live child processes of `parent`.
fn children(parent: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|it| it.file_name().into_string().ok());
    let of_parent = |pid: &String| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| {
            line.strip_prefix("PPid:")
                .is_some_and(|it| it.trim() == parent)
        })
    };
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(of_parent)
        .collect()
}

/// True for a backend of the hub's connections, false for a server process.
fn serves(pid: &str) -> bool {
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&title).contains(&format!("fairlead {DATABASE}"))
}

/// Kills by process id, and only processes started by this test.
fn kill_hard(pid: &str) {
    // The process may have ended meanwhile.
    let _ = Command::new("kill").args(["-9", pid]).status().unwrap();
}

/// Kills the postmaster first, so that it restarts nothing. Then waits until all children are gone:
/// the next server could not start before.
fn kill_all(postmaster: &str) {
    let mut all = children(postmaster);
    all.insert(0, postmaster.to_owned());
    for pid in &all {
        kill_hard(pid);
    }
    let begun = Instant::now();
    while all.iter().any(|pid| lives(pid)) {
        assert!(begun.elapsed() < DEATH_DEADLINE, "the server does not die");
        std::thread::yield_now();
    }
}

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    // A zombie counts as dead.
    !matches!(state, None | Some(Some('Z' | 'X')))
}
