//! Tests of the built `bench`: its roles as processes, and a stand-in for `fairlead` with the same interface.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// Answers as the hub. Its URL is the upstream's, which knows no cluster, so every request gets 404.
const STAND_IN: &str = r#"#!/bin/sh
set -e
case "$1 $2" in
  "dev --data")
    dir=$(dirname "$3")
    while [ "$1" != --ready-file ]; do shift; done
    ready=$2
    echo "a-token" > "$dir/hub.token"
    sed "s#}#,\"token_file\":\"$dir/hub.token\"}#" "$dir/../upstream.ready.json" > "$ready.draft"
    mv "$ready.draft" "$ready"
    exec sleep 600 ;;
  "cluster create")
    test "$FAIRLEAD_TOKEN" = a-token && test -n "$FAIRLEAD_URL" && test -f "$FAIRLEAD_CA_FILE"
    echo '{"id":"c-1","tenant":"t-1","join":"secret","installURL":"https://x"}' ;;
  "cluster get") echo '{"id":"c-1","status":{"state":"Connected","since":"2026-01-01T00:00:00Z","lastError":null}}' ;;
  "agent --join") test "$(cat "${3#@}")" = secret && test -f "$5" && exec sleep 600 ;;
esac
"#;

fn run(out: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlead-bench"));
    command.args(["run", "--quick", "--only", "get-1k-c1", "--out"]);
    let output = command.arg(out).args(args).output();
    output.expect("the binary is built")
}

fn program(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("fairlead");
    fs::write(&path, text).expect("a fresh folder can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("own file");
    path
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn requests_that_fail_through_fairlead_are_shown_and_fail_the_check() {
    let dir = TempDir::new().unwrap();
    let stand_in = program(dir.path(), STAND_IN);
    // Without TLS, because the stand-in has no certificate for a cluster's name.
    let args = ["--legs", "plain", "--peers", "proxy,fairlead", "--fairlead"];
    let args = [&args[..], &[stand_in.to_str().unwrap()]].concat();
    let measured = run(&dir.path().join("out"), &args);
    let (stdout, stderr) = (text(&measured.stdout), text(&measured.stderr));
    assert!(measured.status.success(), "{stdout}{stderr}");
    assert!(
        stdout.contains("at least 0.6 x proxy's: none, **missed**"),
        "{stdout}"
    );
    assert!(
        stdout.contains("- fairlead: ") && stdout.contains("the first: 404 Not Found"),
        "{stdout}"
    );

    let checked = run(
        &dir.path().join("checked"),
        &[&args[..], &["--check"]].concat(),
    );
    assert_eq!(checked.status.code(), Some(1));
}

#[test]
fn earlier_build_is_measured_in_the_same_rounds() {
    let dir = TempDir::new().unwrap();
    let stand_in = program(dir.path(), STAND_IN);
    let stand_in = stand_in.to_str().unwrap();
    let out = dir.path().join("out");
    let args = ["--fairlead", stand_in, "--before", stand_in];
    let output = run(&out, &[&args[..], &["--peers", "fairlead"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let run = fs::read_dir(out).unwrap().next().unwrap().unwrap().path();
    let results = fs::read(run.join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&results).unwrap();
    let rows = results["scenarios"][0]["rows"].as_array().unwrap().iter();
    let rounds = rows.map(|row| (row["peer"].as_str(), row["rounds"].as_array().map(Vec::len)));
    assert_eq!(
        rounds.collect::<Vec<_>>(),
        [
            (Some("fairlead"), Some(1)),
            (Some("fairlead-before"), Some(1))
        ]
    );
    for log in ["fairlead-hub.log", "fairlead-before-hub.log"] {
        assert!(run.join("logs").join(log).is_file(), "{log} is missing");
    }
}

#[test]
fn hub_that_cannot_start_is_named_with_the_end_of_its_log() {
    let dir = TempDir::new().unwrap();
    let broken = program(dir.path(), "#!/bin/sh\necho port taken >&2\nexit 7\n");
    let broken = broken.to_str().unwrap();
    let output = run(
        &dir.path().join("out"),
        &["--peers", "fairlead", "--fairlead", broken, "--check"],
    );
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("step: run fairlead-hub, which ended: exit status: 7"),
        "{stderr}"
    );
    assert!(
        stderr.contains("logs/fairlead-hub.log\nport taken"),
        "{stderr}"
    );
}

#[test]
fn run_writes_figures_table_and_plots_and_lists_missing_peers() {
    let dir = TempDir::new().unwrap();
    let build = program(dir.path(), "#!/bin/sh\necho frp - no luck\n");
    let out = dir.path().join("out");
    let build = build.to_str().unwrap();
    let output = run(
        &out,
        &["--peers", "direct,proxy,frp", "--build", build, "--check"],
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("| proxy | "), "{stdout}");
    assert!(stdout.contains("- frp: not here: no luck"), "{stdout}");

    let run = fs::read_dir(out).unwrap().next().unwrap().unwrap().path();
    for file in [
        "results.json",
        "table.md",
        "plots/get-1k-c1.svg",
        "plots/get-1k-c1.png",
    ] {
        assert!(run.join(file).is_file(), "{file} is missing");
    }
}
