//! A runner as a process of its own, its client, and real programs.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail like tests"
)]

#[path = "runner/fixture.rs"]
mod fixture;
#[path = "runner/hostile.rs"]
mod hostile;
#[path = "runner/lifetime.rs"]
mod lifetime;

use std::{fs, time::Duration};

use fairlead_runner::{Cause, Exit, Refusal, Runner, RunnerError, cut_mark};
use fixture::{Rig, key, refusal, upgrade};

const READ_WAIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn output_and_result_survive_a_restart_of_their_reader() {
    let rig = Rig::start().await;
    let go = rig.dir.path().join("go");
    let script = format!(
        "echo one\nerr two\nwait-for {}\necho three\nexit 3",
        go.display()
    );
    rig.run(1, &script).await;
    let first = rig.client.output(&key(1), 0, READ_WAIT).await.unwrap();
    assert!(!first.bytes.is_empty() && !first.is_last());
    fs::write(go, "").unwrap();
    // Another agent continues at the offset of the first one.
    let second = Runner::at(rig.client.socket());
    assert_eq!(second.runs().await.unwrap().len(), 1);
    let mut output = first.bytes.to_vec();
    loop {
        let piece = second
            .output(&key(1), output.len() as u64, READ_WAIT)
            .await
            .unwrap();
        assert_eq!(piece.offset, output.len() as u64);
        output.extend_from_slice(&piece.bytes);
        if piece.is_last() {
            break;
        }
    }
    let mut lines: Vec<_> = std::str::from_utf8(&output).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "three", "two"]);
    let status = second.status(&key(1)).await.unwrap();
    let ending = status.ending().unwrap();
    assert_eq!(
        (ending.exit, ending.cause),
        (Exit::Code(3), Cause::Finished)
    );
    assert!(!ending.is_success() && !ending.out_of_memory);
    assert_eq!(status.error_tail, "two\n");
    // The result stays until it is acknowledged, and that may be repeated.
    second.acknowledge(&key(1)).await.unwrap();
    second.acknowledge(&key(1)).await.unwrap();
    assert!(second.runs().await.unwrap().is_empty());
    let gone = second.output(&key(1), 0, READ_WAIT).await;
    assert_eq!(refusal(gone), Refusal::UnknownRun);
}

#[tokio::test]
async fn hundred_megabytes_of_output_keep_their_first_and_last_half_mebibyte() {
    let rig = Rig::start().await;
    rig.run(1, "echo first line\nprint 104857600").await;
    let status = rig.ended(1).await;
    assert_eq!(status.output_bytes, 11 + 104_857_600 + 10);
    let (mut log, mut next) = (Vec::new(), 0);
    loop {
        let piece = rig.client.output(&key(1), next, READ_WAIT).await.unwrap();
        if piece.offset > next {
            log.extend(cut_mark(piece.offset - next).into_bytes());
        }
        log.extend_from_slice(&piece.bytes);
        next = piece.next();
        if piece.is_last() {
            break;
        }
    }
    assert_eq!(next, status.output_bytes);
    let log = String::from_utf8(log).unwrap();
    assert!(log.starts_with("first line\n") && log.ends_with("last line\n"));
    assert_eq!(log.matches(" bytes cut ").count(), 1);
    assert!(log.len() <= (1 << 20) + 100, "{}", log.len());
    assert!(rig.resident_kib() < 40 << 10, "{} KiB", rig.resident_kib());
    let beyond = rig.client.output(&key(1), next + 1, READ_WAIT).await;
    assert_eq!(refusal(beyond), Refusal::BeyondEnd(next));
}

#[tokio::test]
async fn query_has_stdout_alone_as_its_output() {
    let rig = Rig::start().await;
    let request = fixture::version();
    rig.client
        .start(&key(1), request, Vec::new())
        .await
        .unwrap();
    let status = rig.ended(1).await;
    assert_eq!(rig.text(1).await, "version\n--short\n");
    assert_eq!(status.error_tail, "warning on stderr\n");
    assert_eq!(status.operation, "version");
}

#[tokio::test]
async fn environment_and_descriptors_of_a_program_are_its_own() {
    let rig = Rig::start().await;
    rig.run(1, "environment\ndescriptors").await;
    rig.ended(1).await;
    let output = rig.text(1).await;
    let names = |line: &str| line.split_once('=').map(|(name, _)| name.to_owned());
    let mut variables: Vec<_> = output.lines().filter_map(names).collect();
    variables.sort();
    assert_eq!(
        variables,
        [
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HELM_DRIVER",
            "HELM_NO_PLUGINS",
            "HELM_PLUGINS",
            "HOME",
            "KUBECONFIG",
            "NO_COLOR",
            "TMPDIR",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
        ]
    );
    assert!(!output.contains("canary"), "{output}");
    let targets = output.lines().filter_map(|line| line.split_once(" -> "));
    let targets: Vec<_> = targets.map(|(_, target)| target).collect();
    // The last one is the list itself.
    assert_eq!(targets.len(), 4, "{output}");
    assert_eq!(targets[0], "/dev/null");
    assert!(
        targets[1].starts_with("pipe:") && targets[2].starts_with("pipe:"),
        "{output}"
    );
}

#[tokio::test]
async fn folder_is_private_and_gone_afterwards() {
    let rig = Rig::start().await;
    rig.run(1, "sleep 60000").await;
    let folder = rig.work().join("runs").join(key(1).to_string());
    assert!(folder.join("files/chart/Chart.yaml").exists());
    let (client, folder_mode) = (&rig.client, fixture::mode(&folder));
    assert_eq!(folder_mode, 0o700);
    assert_eq!(fixture::mode(&folder.join("token")), 0o600);
    client.cancel(&key(1), true).await.unwrap();
    let status = rig.ended(1).await;
    assert_eq!(status.ending().unwrap().cause, Cause::Cancelled);
    assert!(!folder.exists());
    assert_eq!(fs::read_dir(rig.work().join("runs")).unwrap().count(), 0);
}

#[tokio::test]
async fn token_is_replaced_while_the_program_runs() {
    let rig = Rig::start().await;
    let go = rig.dir.path().join("go");
    let script = format!("read ../token\nwait-for {}\nread ../token", go.display());
    rig.run(1, &script).await;
    fixture::eventually(async || rig.text_so_far(1).await.contains("token-one")).await;
    rig.client
        .replace_token(&key(1), "token-two")
        .await
        .unwrap();
    let bad = rig.client.replace_token(&key(1), "two\nlines").await;
    assert!(matches!(refusal(bad), Refusal::Invalid(_)));
    fs::write(go, "").unwrap();
    rig.ended(1).await;
    assert_eq!(rig.text(1).await, "token-one\ntoken-two\n");
    let late = rig.client.replace_token(&key(1), "token-three").await;
    assert_eq!(refusal(late), Refusal::Ended);
}

#[tokio::test]
async fn repeated_start_starts_nothing_and_other_work_is_refused() {
    let rig = Rig::start().await;
    let first = rig.run(1, "pid\nsleep 60000").await;
    let again = rig.run(1, "pid\nsleep 60000").await;
    assert_eq!(first.state, again.state);
    let (mut request, files) = upgrade("pid\nsleep 60000");
    request.program = "helm".into();
    if let fairlead_runner::Operation::UpgradeInstall(upgrade) = &mut request.operation {
        upgrade.release = "other".parse().unwrap();
    }
    let other = rig.client.start(&key(1), request, files).await;
    assert_eq!(refusal(other), Refusal::OtherRun);
    let early = rig.client.acknowledge(&key(1)).await;
    assert_eq!(refusal(early), Refusal::NotEnded);
}

#[tokio::test]
async fn third_program_waits_for_the_end_of_one_of_two() {
    let rig = Rig::start().await;
    rig.run(1, "sleep 60000").await;
    rig.run(2, "sleep 60000").await;
    let (request, files) = upgrade("exit 0");
    let third = rig
        .client
        .start(&key(3), request.clone(), files.clone())
        .await;
    assert_eq!(refusal(third), Refusal::Busy);
    assert!(Refusal::Busy.is_temporary());
    rig.client.cancel(&key(1), false).await.unwrap();
    rig.ended(1).await;
    rig.client.start(&key(3), request, files).await.unwrap();
    assert!(rig.ended(3).await.ending().unwrap().is_success());
}

#[tokio::test]
async fn results_that_nobody_acknowledges_stop_new_runs_instead_of_being_lost() {
    let rig = Rig::start().await;
    for attempt in 1..=16 {
        rig.run(attempt, "exit 0").await;
        rig.ended(attempt).await;
    }
    let (request, files) = upgrade("exit 0");
    let more = rig.client.start(&key(17), request, files).await;
    assert_eq!(refusal(more), Refusal::TableFull);
    assert_eq!(rig.client.runs().await.unwrap().len(), 16);
    rig.client.acknowledge(&key(5)).await.unwrap();
    rig.run(17, "exit 0").await;
}

#[tokio::test]
async fn missing_runner_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let gone = Runner::at(dir.path().join("socket")).info().await;
    assert!(
        matches!(gone, Err(RunnerError::Unreachable { .. })),
        "{gone:?}"
    );
}
