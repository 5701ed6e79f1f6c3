use std::{fs, os::unix::process::CommandExt, path::PathBuf, process::Command, time::Duration};

use fairlead_runner::{Cause, Exit, Launch, Runner, RunnerError};
use rustix::process::{Pid, Signal, kill_process};

use super::fixture::{self, PROGRAM, Rig, eventually, is_alive, key, upgrade};

const KILL: Exit = Exit::Signal(9);
const TERM: Exit = Exit::Signal(15);

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn killed_runner_takes_its_programs_along() {
    let mut rig = Rig::start().await;
    rig.run(1, "pid\nchild\nsleep 60000").await;
    let pids = rig.pids(1, 2).await;
    signal(rig.child.id(), Signal::KILL);
    rig.child.wait().unwrap();
    eventually(async || !is_alive(pids[0])).await;
    // The kernel's signal reaches the program alone. Outside of a container its own child ends with the next runner.
    assert!(is_alive(pids[1]));
    let dir = std::mem::replace(&mut rig.dir, tempfile::tempdir().unwrap());
    let next = Rig::start_in(dir, &[]).await;
    eventually(async || !is_alive(pids[1])).await;
    assert!(next.client.runs().await.unwrap().is_empty());
    assert_eq!(fs::read_dir(next.work().join("runs")).unwrap().count(), 0);
}

#[tokio::test]
async fn instance_tells_that_the_runner_is_another_one() {
    let rig = Rig::start().await;
    let other = Rig::start().await;
    let (first, second) = (
        rig.client.info().await.unwrap(),
        other.client.info().await.unwrap(),
    );
    assert_eq!(first, rig.client.info().await.unwrap());
    assert_ne!(first.instance, second.instance);
}

#[tokio::test]
async fn program_that_ends_takes_its_children_along() {
    let rig = Rig::start().await;
    rig.run(1, "child\nstray\nsleep 500\nexit 0").await;
    let pids = rig.pids(1, 2).await;
    assert!(rig.ended(1).await.ending().unwrap().is_success());
    for pid in pids {
        eventually(async || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn time_limit_terminates_and_then_kills() {
    // A program on a busy machine has time to end by itself, and to ignore the first signal.
    let rig = Rig::start_with(&["--kill-delay-ms", "3000"]).await;
    for (attempt, script, exit, seconds) in [
        (1, "sleep 60000", TERM, 1),
        (2, "ignore-term\nsleep 60000", KILL, 10),
    ] {
        let (mut request, files) = upgrade(script);
        request.timeout_seconds = seconds;
        rig.client
            .start(&key(attempt), request, files)
            .await
            .unwrap();
        let status = rig.ended(attempt).await;
        let ending = status.ending().unwrap();
        assert_eq!((ending.exit, ending.cause), (exit, Cause::TimedOut));
        let least = u64::from(seconds) * 1000;
        assert!(ending.duration_ms >= least, "{ending:?}");
    }
}

#[tokio::test]
async fn cancel_is_soft_first_and_hard_on_demand() {
    let rig = Rig::start_with(&["--kill-delay-ms", "600000"]).await;
    rig.run(1, "ignore-term\necho ready\nsleep 60000").await;
    eventually(async || rig.text_so_far(1).await.contains("ready")).await;
    rig.client.cancel(&key(1), false).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(rig.client.status(&key(1)).await.unwrap().ending().is_none());
    rig.client.cancel(&key(1), true).await.unwrap();
    let status = rig.ended(1).await;
    let ending = status.ending().unwrap();
    assert_eq!((ending.exit, ending.cause), (KILL, Cause::Cancelled));
    assert!(!ending.out_of_memory);
}

#[tokio::test]
async fn programs_end_once_no_agent_has_made_contact_for_a_while() {
    // Longer than pauses of this test on a busy machine.
    let rig = Rig::start_with(&["--absence-ms", "4000"]).await;
    rig.run(1, "pid\nsleep 60000").await;
    let pid = rig.pids(1, 1).await[0];
    // An open request is contact.
    let from = rig.text_so_far(1).await.len() as u64;
    let (first, wait) = (key(1), Duration::from_secs(6));
    let waiting = rig.client.output(&first, from, wait).await;
    assert!(waiting.unwrap().bytes.is_empty());
    assert!(is_alive(pid));
    eventually(async || !is_alive(pid)).await;
    // The end of the process is noted a moment later.
    let status = rig.ended(1).await;
    let ending = status.ending().unwrap();
    assert_eq!((ending.exit, ending.cause), (TERM, Cause::AgentGone));
    // The runner serves on, and the result waits for the next agent.
    rig.run(2, "exit 0").await;
    assert!(rig.ended(2).await.ending().unwrap().is_success());
}

#[tokio::test]
async fn sigterm_ends_programs_and_then_the_runner() {
    let mut rig = Rig::start().await;
    rig.run(1, "pid\nsleep 60000").await;
    rig.run(2, "pid\nsleep 60000").await;
    let pids = [rig.pids(1, 1).await, rig.pids(2, 1).await].concat();
    signal(rig.child.id(), Signal::TERM);
    assert!(rig.child.wait().unwrap().success());
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert_eq!(fs::read_dir(rig.work().join("runs")).unwrap().count(), 0);
    assert!(!rig.client.socket().exists());
}

#[tokio::test]
async fn guard_without_its_runner_starts_nothing() {
    let output = Command::new(PROGRAM)
        .args(["guard", "--parent=1", "--", "/bin/echo", "started"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the runner has ended"), "{text}");
}

#[tokio::test]
async fn second_runner_on_the_same_folders_is_refused() {
    let rig = Rig::start().await;
    let output = fixture::command(rig.dir.path(), &[]).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("another runner uses"), "{text}");
    rig.client.info().await.unwrap();
}

#[tokio::test]
async fn agent_launches_a_runner_and_the_next_agent_takes_it_over() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch {
        command: vec![PROGRAM.into(), "runner".into(), "--absence-ms=6000".into()],
        folder: dir.path().join("run"),
        work: dir.path().join("work"),
        helm: PROGRAM.into(),
    };
    let first = Runner::spawn(&launch).await.unwrap();
    let info = first.client().info().await.unwrap();
    let (request, files) = upgrade("environment\nsleep 300\nexit 4");
    first.client().start(&key(1), request, files).await.unwrap();
    drop(first);
    let second = Runner::spawn(&launch).await.unwrap();
    assert_eq!(
        second.client().info().await.unwrap().instance,
        info.instance
    );
    let environment = fs::read(format!("/proc/{}/environ", info.pid)).unwrap();
    assert!(environment.is_empty(), "a launched runner inherits nothing");
    let client = second.client();
    eventually(async || client.status(&key(1)).await.unwrap().ending().is_some()).await;
    assert_eq!(
        client.status(&key(1)).await.unwrap().ending().unwrap().exit,
        Exit::Code(4)
    );
    drop(second);
    eventually(async || !is_alive(info.pid)).await;
}

#[test]
fn folders_of_a_launched_runner_are_in_memory() {
    let launch = |state: &str| Launch::for_agent(Vec::new(), PathBuf::new(), state.as_ref());
    let (one, two) = (launch("/a"), launch("/b"));
    assert!(one.folder.starts_with("/dev/shm") && one.work.starts_with("/dev/shm"));
    assert_ne!(one.folder, one.work);
    assert_ne!(one.folder, two.folder);
}

#[tokio::test]
async fn peer_of_another_user_is_rejected() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can run a program as another user.
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    let program = dir.path().join("runner");
    // Copied by another process: a program that this one has open for writing cannot be started.
    let copied = Command::new("cp").arg(PROGRAM).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = fixture::command(dir.path(), &[]);
    let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    command = Command::new(program);
    let mut child = command.args(args).uid(65534).gid(65534).spawn().unwrap();
    let runner = Runner::at(dir.path().join("run/socket"));
    let is_unreachable =
        |it: &Result<_, RunnerError>| matches!(it, Err(RunnerError::Unreachable { .. }));
    // The socket has a name before it listens.
    eventually(async || !is_unreachable(&runner.info().await)).await;
    let rejected = runner.info().await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        matches!(rejected, Err(RunnerError::Broken(_))),
        "{rejected:?}"
    );
}
