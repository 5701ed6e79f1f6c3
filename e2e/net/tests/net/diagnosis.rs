//! Faults of a real network and of real boxes have their stage and code: in `fairlead doctor`, in the agent's log, in an Event,
//! and in the hub's status.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Launch, Site, eventually};
use fairlead_e2e_net::{Fault, HUB, Nginx, Squid, SquidPlan, Stage};
use fairlead_testkit::tls::TestCa;
use serde_json::Value;
use tokio::process::Command;

/// Deadline of a diagnosis: three dials, each with a deadline of its own.
const DIAGNOSIS_DEADLINE: Duration = Duration::from_secs(180);
const LOST_DEADLINE: Duration = Duration::from_secs(30);
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// Stage, code, and words of cause or evidence.
struct Expected<'a> {
    stage: &'a str,
    code: &'a str,
    words: &'a [&'a str],
}

/// Creates the namespace of the agent's Events, and removes those of earlier tests.
async fn clear_events(stage: &Stage) -> anyhow::Result<()> {
    // It exists after the first test.
    let create = ["create", "namespace", "fairlead"];
    drop(stage.cluster.kubectl().args(create).run().await?);
    let delete = ["delete", "events", "--all", "-n", "fairlead"];
    stage
        .cluster
        .kubectl()
        .args(delete)
        .run()
        .await?
        .success()?;
    Ok(())
}

/// Result of the doctor at the site, with the folder of the agent's identity.
async fn doctor(
    stage: &Stage,
    state: &Path,
    more: &impl Fn(Launch) -> Launch,
) -> anyhow::Result<(Option<i32>, Value)> {
    let kubeconfig = stage.cluster.kubeconfig();
    let launch = Launch::agent()?
        .args(["doctor", "-o", "json", "--kubeconfig"])
        .args([
            kubeconfig.as_os_str(),
            "--state".as_ref(),
            state.as_os_str(),
        ])
        .env("HOME", stage.hub.dir())
        .env("FAIRLEAD_JOIN", &stage.joining.join)
        .inside(&stage.net.site);
    let output = Command::from(more(launch).command()).output().await?;
    let json = serde_json::from_slice(&output.stdout);
    let json = json.with_context(|| format!("{output:?}"))?;
    Ok((output.status.code(), json))
}

async fn check_doctor(
    stage: &Stage,
    state: &Path,
    expected: &Expected<'_>,
    more: &impl Fn(Launch) -> Launch,
) -> anyhow::Result<()> {
    let (status, checkup) = doctor(stage, state, more).await?;
    ensure!(status == Some(1), "exit code {status:?}: {checkup}");
    let sections = checkup["sections"].as_array().context("no sections")?;
    let mut stages = sections
        .iter()
        .filter_map(|it| it["stages"].as_array())
        .flatten();
    let failed = stages.find(|it| it["result"] == "failed");
    let failed = failed.with_context(|| format!("nothing failed: {checkup}"))?;
    let Expected { stage, code, words } = expected;
    ensure!(
        failed["stage"] == *stage && failed["code"] == *code,
        "{failed}"
    );
    let text = failed.to_string();
    for word in *words {
        ensure!(text.contains(word), "no {word:?} in {text}");
    }
    let next = failed["next"].as_str().unwrap_or_default();
    ensure!(next.ends_with('.'), "{failed}");
    Ok(())
}

/// Checks the agent's log.
async fn check_log(site: &mut Site, expected: &Expected<'_>) -> anyhow::Result<()> {
    let Expected {
        stage: name,
        code,
        words,
    } = expected;
    // Fields are quoted only if they need it.
    let line = "diagnosis of the path to the hub";
    site.process.wait_for_log(line, DIAGNOSIS_DEADLINE).await?;
    let log = site.process.log()?;
    let found = log.lines().find(|it| it.contains(line)).unwrap_or_default();
    for word in [&format!("stage=\"{name}\""), *code].iter().chain(*words) {
        ensure!(found.contains(word), "no {word:?} in {found}");
    }
    Ok(())
}

/// Checks the agent's log and its Event.
async fn check_agent(
    stage: &Stage,
    site: &mut Site,
    expected: &Expected<'_>,
) -> anyhow::Result<()> {
    check_log(site, expected).await?;
    let Expected {
        stage: name, code, ..
    } = expected;
    let prefix = format!("{code} at stage {name} of https://{HUB}");
    let get = ["get", "events", "-n", "fairlead", "-o", "json"];
    let message = eventually(DIAGNOSIS_DEADLINE, &prefix, async || {
        let events = stage.cluster.kubectl().args(get).run().await.ok()?;
        let events: Value = serde_json::from_str(&events.success().ok()?).ok()?;
        let mut found = events["items"].as_array()?.iter();
        let found = found.find(|it| it["reason"] == "HubUnreachable")?;
        Some(found["message"].as_str()?.to_owned())
    })
    .await?;
    ensure!(message.starts_with(&prefix), "{message}");
    ensure!(message.contains(" Next: "), "{message}");
    Ok(())
}

/// Checks a fault that is there before the agent's first dial.
async fn never_connects(
    stage: &Stage,
    expected: &Expected<'_>,
    more: impl Fn(Launch) -> Launch,
) -> anyhow::Result<()> {
    clear_events(stage).await?;
    let state = stage.net.folder().join("no-state");
    check_doctor(stage, &state, expected, &more).await?;
    let mut site = stage.begin(&more)?;
    check_agent(stage, &mut site, expected).await?;
    let shown = stage.hub.cluster("demo").await?;
    ensure!(shown["status"]["state"] == "Never", "{shown}");
    stage.leaves_no_secret(&site).await
}

#[tokio::test]
async fn dropped_packets_are_named_and_the_cluster_is_lost() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    clear_events(&stage).await?;
    let mut site = stage.agent(|agent| agent).await?;
    stage.net.cut(Fault::Drop)?;
    let expected = Expected {
        stage: "tcp",
        code: "FL-3110",
        words: &["203.0.113.2:443"],
    };
    let state = stage.hub.dir().join(format!("{}.state", stage.joining.id));
    check_doctor(&stage, &state, &expected, &|doctor| doctor).await?;
    stage.state_within("Lost", LOST_DEADLINE).await?;
    let shown = stage.hub.cluster("demo").await?;
    // First a probe has no answer, then the link is given up.
    let code = shown["status"]["lastError"]["code"].as_str();
    ensure!(matches!(code, Some("FL-1405" | "FL-3112")), "{shown}");
    check_agent(&stage, &mut site, &expected).await
}

#[tokio::test]
async fn nginx_without_websockets_is_named() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let ca = TestCa::new("edge")?;
    let _front = Nginx::start_with_defaults(&stage.net, &ca, true).await?;
    let trust = stage.trust(&ca)?;
    let expected = Expected {
        stage: "upgrade",
        code: "FL-3106",
        words: &["426", "nginx"],
    };
    never_connects(&stage, &expected, |launch| {
        launch.env("FAIRLEAD_CA_FILE", trust.as_os_str())
    })
    .await
}

#[tokio::test]
async fn refusals_of_squid_are_named() -> anyhow::Result<()> {
    for (plan, code, words) in [
        (
            SquidPlan::open().for_person("robot", "right-word"),
            "FL-3104",
            ["407", "squid"],
        ),
        (SquidPlan::open().refusing(), "FL-3103", ["403", "squid"]),
    ] {
        let stage = Stage::set().await?;
        stage.net.by_proxy_only()?;
        let squid = Squid::start(&stage.net, &plan).await?;
        let url = squid.url(Some("robot:wr0ng-word"));
        let expected = Expected {
            stage: "proxy",
            code,
            words: &words,
        };
        never_connects(&stage, &expected, |launch| launch.env("HTTPS_PROXY", &url))
            .await
            .context(code)?;
    }
    Ok(())
}

#[tokio::test]
async fn squid_that_opens_tls_is_named() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    let ca = TestCa::new("Corp Interceptor")?;
    let plan = SquidPlan::open().opening_tls(&ca, &stage.hub.ready().ca_file);
    let squid = Squid::start(&stage.net, &plan).await?;
    let url = squid.url(None);
    let expected = Expected {
        stage: "tls",
        code: "FL-3105",
        words: &["Corp Interceptor"],
    };
    never_connects(&stage, &expected, |launch| launch.env("HTTPS_PROXY", &url)).await
}

/// Path of libfaketime, which changes the time of programs that are linked with the C library.
fn faketime() -> anyhow::Result<PathBuf> {
    let folders = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    let paths = folders.map(|folder| Path::new("/usr/lib").join(folder).join(LIBRARY));
    let found = paths.into_iter().find(|path| path.exists());
    found.context("libfaketime is not installed: run e2e/net/setup")
}

/// The wall clock of a program is off by so many hours; its monotonic clock is right.
fn off_by(launch: Launch, library: &Path, hours: &str) -> Launch {
    launch
        .env("LD_PRELOAD", library.as_os_str())
        .env("FAKETIME", format!("{hours}h"))
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
}

#[tokio::test]
async fn clock_that_is_off_by_26_hours_is_named() -> anyhow::Result<()> {
    let library = faketime()?;
    for (hours, word) in [("+26", "ahead of the hub's"), ("-26", "behind the hub's")] {
        let stage = Stage::set().await?;
        clear_events(&stage).await?;
        // By that clock the hub's certificate has expired, or is not valid yet.
        let expected = Expected {
            stage: "tls",
            code: "FL-3113",
            words: &[word],
        };
        let state = stage.net.folder().join("no-state");
        let more = |launch| off_by(launch, &library, hours);
        check_doctor(&stage, &state, &expected, &more)
            .await
            .context(hours)?;
        let mut site = stage.begin(more)?;
        // A clock that is behind finds the certificate of the API server not valid yet, too: nobody stores an Event.
        match hours {
            "-26" => check_log(&mut site, &expected).await,
            _ => check_agent(&stage, &mut site, &expected).await,
        }
        .context(hours)?;
        // The agent ends TLS before it names its cluster, so the hub has nothing else to show.
        let shown = stage.hub.cluster("demo").await?;
        ensure!(shown["status"]["state"] == "Never", "{shown}");
    }
    Ok(())
}
