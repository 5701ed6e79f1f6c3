//! `fairlead` on a terminal and in scripts: exit codes, errors of several flags at once, the ready file, the
//! end of its processes.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Launch, Output, Site, eventually, fleet::fairlead};
use fairlead_testkit::proxy::FakeProxy;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, timeout};

const STEP_DEADLINE: Duration = Duration::from_secs(20);

async fn run(home: &Path, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Output> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    fairlead(home, &args, env).await
}

#[tokio::test]
async fn each_exit_code_belongs_to_a_failure_of_one_shape() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let nowhere = tempfile::tempdir()?;
    let other = run(hub.dir(), &["cluster", "create", "twice"], &[]).await?;
    other.success()?;
    let url = hub.ready().url.as_str();
    for (home, args, env, exit, code) in [
        (
            nowhere.path(),
            &["cluster", "list"][..],
            &[][..],
            3,
            "FL-4106",
        ),
        (
            hub.dir(),
            &["cluster", "get", "c-no-such-0000"],
            &[],
            4,
            "FL-1301",
        ),
        (
            hub.dir(),
            &["cluster", "create", "twice"],
            &[],
            6,
            "FL-4108",
        ),
        (
            nowhere.path(),
            &["login", url, "--token"],
            &[],
            2,
            "FL-4117",
        ),
        (
            nowhere.path(),
            &["cluster", "list"],
            &[
                ("FAIRLEAD_URL", "https://127.0.0.1:1"),
                ("FAIRLEAD_TOKEN", "x"),
            ],
            5,
            "FL-4105",
        ),
        // A front with an unknown CA gets no request.
        (
            nowhere.path(),
            &["cluster", "list"],
            &[("FAIRLEAD_URL", url), ("FAIRLEAD_TOKEN", "x")],
            5,
            "FL-3105",
        ),
        (
            nowhere.path(),
            &["agent", "--join", "fl1.damaged", "--kubeconfig", "/none"],
            &[],
            2,
            "FL-4101",
        ),
    ] {
        let output = run(home, args, env).await?;
        let said = &output.stderr;
        ensure!(output.status.code() == Some(exit), "{args:?}: {output:?}");
        ensure!(said.starts_with("error: "), "{args:?}: {said}");
        ensure!(said.contains("\nnext:  "), "{args:?}: {said}");
        ensure!(
            said.ends_with(&format!("\ncode:  {code}\n")),
            "{args:?}: {said}"
        );
        ensure!(output.stdout.is_empty(), "{args:?}: {output:?}");
    }
    let usage = run(nowhere.path(), &["cluster", "creat"], &[]).await?;
    ensure!(usage.status.code() == Some(2), "{usage:?}");
    let help = run(nowhere.path(), &["--help"], &[]).await?.success()?;
    ensure!(help.contains("Exit codes:"), "{help}");
    Ok(())
}

#[tokio::test]
async fn all_errors_of_flags_environment_and_file_are_reported_at_once() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let file = home.path().join("fairlead.toml");
    fs::write(
        &file,
        "[server]\nlisten = \"everywhere\"\ncolour = \"red\"\n[servant]\nx = 1\n",
    )?;
    let config = file.display().to_string();
    let args = [
        "server",
        "--config",
        &config,
        "--drain-timeout",
        "soon",
        "--tls-cert",
        "c",
        "--tls-key",
        "k",
    ];
    let env = [("FAIRLEAD_ADMIN", "9090"), ("FAIRLEAD_LOG", "=!")];
    let output = run(home.path(), &args, &env).await?;
    ensure!(output.status.code() == Some(2), "{output:?}");
    let said = &output.stderr;
    for mistake in [
        "listen: an address to listen on is HOST:PORT",
        "[server] has no key \"colour\"",
        "unknown table or key \"servant\"",
        "--drain-timeout",
        "FAIRLEAD_ADMIN",
        "log: ",
        "public-url is missing",
    ] {
        ensure!(said.contains(mistake), "nothing of {mistake:?}: {said}");
    }
    ensure!(said.ends_with("code:  FL-4101\n"), "{said}");
    Ok(())
}

#[tokio::test]
async fn ready_file_and_kubeconfig_work() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let joining = hub.create_cluster("demo").await?;
    let ready: Value = serde_json::from_str(&fs::read_to_string(hub.dir().join("ready.json"))?)?;
    let keys: Vec<&String> = ready.as_object().context("no object")?.keys().collect();
    ensure!(
        keys == ["admin_url", "ca_file", "kubeconfig", "token_file", "url"],
        "{keys:?}"
    );
    for file in ["ca_file", "token_file", "kubeconfig"] {
        let path = Path::new(ready[file].as_str().context(file)?);
        ensure!(path.is_absolute(), "{path:?}");
        eventually(STEP_DEADLINE, file, async || path.exists().then_some(())).await?;
    }
    let token = hub.token()?;
    ensure!(token.starts_with("flt_"));
    ensure!(
        !hub.process.log()?.contains(&token),
        "the token is in the log"
    );

    let cluster = Cluster::start_lite().await?;
    for (flags, server) in [
        (&[][..], ready["url"].as_str().context("url")?.to_owned()),
        (
            &["--address", "path", "--cluster", "demo"],
            format!("{}/k8s/clusters/{}", hub.ready().url, joining.id),
        ),
    ] {
        let file = hub.kubeconfig("parsed.yaml", flags).await?;
        let view = cluster.kubectl().kubeconfig(file);
        let view = view.args(["config", "view", "--raw", "-o", "json"]).run();
        let view: Value = serde_json::from_str(&view.await?.success()?)?;
        let context = hub.context("demo");
        ensure!(view["current-context"] == context, "{view}");
        ensure!(view["contexts"][0]["name"] == context, "{view}");
        let entry = &view["clusters"][0]["cluster"];
        ensure!(entry["server"] == server.as_str(), "{view}");
        ensure!(entry["certificate-authority-data"].is_string(), "{view}");
        ensure!(
            entry["tls-server-name"].is_string() == flags.is_empty(),
            "{view}"
        );
        ensure!(view["users"][0]["user"]["token"] == token.as_str());
    }
    Ok(())
}

#[tokio::test]
async fn creating_a_cluster_shows_each_step_until_kubectl_works() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let mut create = tokio::process::Command::new(Launch::fairlead()?.program())
        .args([
            "cluster",
            "create",
            "demo",
            "--wait",
            "--timeout",
            "60s",
            "-o",
            "json",
        ])
        .env_clear()
        .env("HOME", hub.dir())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut steps = BufReader::new(create.stderr.take().context("stderr")?).lines();
    let first = timeout(STEP_DEADLINE, steps.next_line()).await??;
    ensure!(
        first.as_deref() == Some("waiting for the agent to enrol"),
        "{first:?}"
    );
    let show = hub.cli(["cluster", "token", "show", "demo", "-o", "json"]);
    let shown: Value = serde_json::from_str(&show.await?.success()?)?;
    let url = shown["agentInstallURL"].clone();
    ensure!(
        url.as_str()
            .is_some_and(|url| url.contains("/install/agent.yaml")),
        "{url}"
    );
    let id = hub.cluster("demo").await?["id"]
        .as_str()
        .context("id")?
        .to_owned();
    // The manifest returns the same token while it is valid.
    let url = url
        .as_str()
        .and_then(|url| url.strip_prefix("http://"))
        .context("URL")?
        .to_owned();
    let (address, path) = url.split_once('/').context("URL")?;
    let manifest = fairlead_e2e::admin::get_plain(address.parse()?, &format!("/{path}")).await?;
    let join = manifest
        .split('\'')
        .find(|text| text.starts_with("fl1."))
        .context("no join string")?;
    let _site = Site::begin(&hub, &cluster, join, &id)?;
    let mut last = String::new();
    while let Some(line) = timeout(STEP_DEADLINE, steps.next_line()).await?? {
        last = line;
    }
    ensure!(last.starts_with("connected: "), "{last}");
    ensure!(timeout(STEP_DEADLINE, create.wait()).await??.success());

    let impatient = hub
        .cli(["cluster", "create", "other", "--wait", "--timeout", "1s"])
        .await?;
    ensure!(impatient.status.code() == Some(5), "{impatient:?}");
    ensure!(impatient.stderr.contains("FL-4113"), "{impatient:?}");
    Ok(())
}

#[tokio::test]
async fn hub_drains_within_its_timeout_and_a_second_signal_ends_it_at_once() -> anyhow::Result<()> {
    let cluster = Cluster::start_lite().await?;
    // An object that appears after the list comes from the watch alone, so the watch runs by then.
    let watch_of = async |hub: &Hub, sign: &str| {
        let kubectl = hub.kubectl(&cluster, "demo").await?;
        let mut watch = kubectl
            .args(["get", "namespaces", "-w", "-o", "name"])
            .spawn()?;
        watch.next_line().await?.context("the list has ended")?;
        let create = cluster.kubectl().args(["create", "namespace", sign]);
        create.run().await?.success()?;
        let created = format!("namespace/{sign}");
        while watch.next_line().await?.context("the watch has ended")? != created {}
        anyhow::Ok(watch)
    };
    let world = async |drain: &str| {
        let hub = Hub::start_with(&["--drain-timeout", drain]).await?;
        let joining = hub.create_cluster("demo").await?;
        let site = Site::start(&hub, &cluster, &joining).await?;
        anyhow::Ok((hub, site))
    };

    // Nothing runs, so the hub ends at once and cleanly.
    let (mut hub, mut site) = world("60s").await?;
    let since = Instant::now();
    hub.process.term()?;
    ensure!(hub.process.wait(STEP_DEADLINE).await?.success());
    let idle = since.elapsed();
    // The agent is notified and ends at once as well.
    site.process
        .wait_for_log("session ended", STEP_DEADLINE)
        .await?;
    site.process.term()?;
    ensure!(site.process.wait(STEP_DEADLINE).await?.success());

    // A running watch is aborted at the end of the drain timeout.
    let (mut hub, _site) = world("2s").await?;
    let mut watch = watch_of(&hub, "first").await?;
    let since = Instant::now();
    hub.process.term()?;
    eventually(STEP_DEADLINE, "the end of accepting", async || {
        hub.metrics().await.is_err().then_some(())
    })
    .await?;
    ensure!(hub.process.wait(STEP_DEADLINE).await?.success());
    let busy = since.elapsed();
    watch.wait().await?;

    // A second signal aborts it earlier.
    let (mut hub, _site) = world("60s").await?;
    let mut watch = watch_of(&hub, "second").await?;
    hub.process.term()?;
    hub.process.wait_for_log("draining", STEP_DEADLINE).await?;
    let since = Instant::now();
    hub.process.term()?;
    hub.process.wait(STEP_DEADLINE).await?;
    let twice = since.elapsed();
    watch.wait().await?;

    eprintln!("drained in {idle:?}, with a watch and 2 s {busy:?}, by a second signal {twice:?}");
    // None took as long as a wait for a timeout, which is at least a minute.
    ensure!(busy >= Duration::from_secs(2), "{busy:?}");
    Ok(())
}

#[tokio::test]
async fn codes_are_explained_and_shells_complete() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let all = run(home.path(), &["explain"], &[]).await?.success()?;
    let codes: Vec<_> = all
        .split_whitespace()
        .filter(|word| word.starts_with("FL-"))
        .collect();
    ensure!(codes.len() > 50, "{all}");
    let one = run(home.path(), &["explain", codes[0]], &[])
        .await?
        .success()?;
    for part in [codes[0], "cause: ", "next:  "] {
        ensure!(one.contains(part), "{one}");
    }
    let script = run(home.path(), &["completion", "bash"], &[])
        .await?
        .success()?;
    fs::write(home.path().join("completion"), script)?;
    // As a user types `fairlead clus<Tab>`, with the program in their PATH.
    let program = Launch::fairlead()?.program().to_owned();
    let folder = Path::new(&program).parent().context("no folder")?;
    let typed = format!(
        "PATH={}:$PATH; cd {}; source ./completion; COMP_WORDS=(fairlead clus); COMP_CWORD=1; \
         _clap_complete_fairlead fairlead clus fairlead; echo ${{COMPREPLY[@]}}",
        folder.display(),
        home.path().display()
    );
    let mut bash = Launch::new("bash")
        .args(["-c", &typed])
        .spawn(home.path().join("log"))?;
    ensure!(bash.wait(STEP_DEADLINE).await?.success());
    ensure!(bash.log()? == "cluster\n", "{}", bash.log()?);
    let version = run(home.path(), &["version", "-o", "json"], &[])
        .await?
        .success()?;
    ensure!(serde_json::from_str::<Value>(&version)?["version"].is_string());
    Ok(())
}

#[tokio::test]
async fn commands_go_through_the_proxy_of_the_environment() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let to = hub.ready().url.strip_prefix("https://").context("URL")?;
    let proxy = FakeProxy::to(to.parse()?).await;
    let address = proxy.address().to_string();
    let env = [
        ("HTTPS_PROXY", address.as_str()),
        ("NO_PROXY", ""),
        ("FAIRLEAD_URL", "https://hub.example.test"),
        ("FAIRLEAD_TOKEN", "x"),
    ];
    let output = run(hub.dir(), &["tenant", "list"], &env).await?;
    // The hub's certificate does not contain the name that the client requests through the proxy.
    assert!(output.stderr.contains("code:  FL-3105"), "{output:?}");
    let asked = proxy.last_request().await;
    assert!(asked.starts_with("CONNECT hub.example.test:443 HTTP/1.1\r\n"));

    // Nothing listens at this proxy. A hub on loopback needs none, while an error for any other hub names the proxy.
    let address = "127.0.0.1:1";
    let url = format!("http://user:secret@{address}");
    let env = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", "")];
    run(hub.dir(), &["tenant", "list"], &env).await?.success()?;
    let env = [
        env[0],
        env[1],
        ("FAIRLEAD_URL", "https://hub.example.test"),
        ("FAIRLEAD_TOKEN", "x"),
    ];
    let output = run(hub.dir(), &["tenant", "list"], &env).await?;
    for words in [
        "code:  FL-3103",
        &format!("http://{address}"),
        "Check that HTTPS_PROXY",
    ] {
        assert!(output.stderr.contains(words), "{output:?}");
    }
    assert!(!output.stderr.contains("secret"), "{output:?}");

    let env = [("HTTPS_PROXY", "ftp://proxy:21")];
    let output = run(hub.dir(), &["tenant", "list"], &env).await?;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.contains("code:  FL-4101"), "{output:?}");
    Ok(())
}
