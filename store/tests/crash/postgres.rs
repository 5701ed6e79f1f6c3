//! A PostgreSQL whose processes are killed in the middle of what is written to it, and one whose disk is full.

pub(crate) mod disk;

use std::{fs, path::Path, process::Command, time::Duration};

use tokio::time::Instant;

use crate::{load::Writer, look::look, server::Server};

const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/postgres");
/// Answered between two kills of the server's processes.
const BETWEEN: usize = 40;
/// By its name the processes that serve it are known.
const DATABASE: &str = "postgres";
const GONE: Duration = Duration::from_secs(30);

pub(crate) fn all(kills: u32) {
    let built = Command::new(format!("{RIG}/build")).output().unwrap();
    if !built.status.success() {
        let why = String::from_utf8_lossy(&built.stderr);
        println!("SKIPPED: kills with PostgreSQL: {}", why.trim());
        return;
    }
    nothing_is_lost_when_the_servers_processes_are_killed(kills);
    disk::without_room_it_is_told_and_overcome();
}

/// One of its processes, after which it begins anew by itself, or all of them; the hub goes on.
fn nothing_is_lost_when_the_servers_processes_are_killed(kills: u32) {
    let mut server = Server::start();
    let folder = server.folder().display();
    let place = format!("postgres:///{DATABASE}?host={folder}&user=fairlead");
    let writer = Writer::start(&place);
    for round in 0..kills {
        writer.wait_for(BETWEEN + round as usize * 61 % 97);
        let postmaster = postmaster(server.folder());
        if round % 3 == 2 {
            kill_all(&postmaster);
            server.stop();
            server.resume();
        } else if let Some(backend) = children(&postmaster).into_iter().find(|it| serves(it)) {
            kill_hard(&backend);
        }
    }
    writer.wait_for(BETWEEN);
    let answered = writer.kill();
    look(&place, &answered);
    println!(
        "PostgreSQL: its processes killed {kills} times: {} answers kept, nothing in halves",
        answered.len()
    );
}

fn postmaster(folder: &Path) -> String {
    let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    file.lines().next().unwrap().trim().to_owned()
}

/// Those that were started by it, and live.
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

/// Whether it serves a hub, rather than the server itself.
fn serves(pid: &str) -> bool {
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&title).contains(&format!("fairlead {DATABASE}"))
}

/// By number, and none but those that this test has started.
fn kill_hard(pid: &str) {
    // It may have ended by itself meanwhile.
    let _ = Command::new("kill").args(["-9", pid]).status().unwrap();
}

/// The postmaster first, so that it begins nothing anew; then until none is there, because the next one would not begin.
fn kill_all(postmaster: &str) {
    let mut all = children(postmaster);
    all.insert(0, postmaster.to_owned());
    for pid in &all {
        kill_hard(pid);
    }
    let begun = Instant::now();
    while all.iter().any(|pid| lives(pid)) {
        assert!(begun.elapsed() < GONE, "the server does not die");
        std::thread::yield_now();
    }
}

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    // One that nobody has waited for yet is dead as well.
    !matches!(state, None | Some(Some('Z' | 'X')))
}
