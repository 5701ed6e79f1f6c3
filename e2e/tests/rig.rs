//! Tests of the rig itself, directly with the API server, so that other tests need not rely on the tunnel.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Launch, Pod, UpgradeProtocol, eventually, kube};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

const BOTH: [UpgradeProtocol; 2] = [UpgradeProtocol::WebSocket, UpgradeProtocol::Spdy];
const STEP_DEADLINE: Duration = Duration::from_secs(20);

/// The pods of the Deployment in every full cluster.
async fn pods(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let get = cluster
        .kubectl()
        .args(["get", "pods", "-l", "app=demo", "-o", "name"]);
    let text = get.run().await?.success()?;
    Ok(text
        .lines()
        .map(|line| line.trim_start_matches("pod/").to_owned())
        .collect())
}

async fn pod(cluster: &Cluster, number: usize) -> anyhow::Result<String> {
    pods(cluster)
        .await?
        .into_iter()
        .nth(number)
        .context("there are fewer pods")
}

/// Processes that belong to the cluster in `dir`, by an environment variable.
fn processes(dir: &Path) -> Vec<String> {
    let mark = format!("FAIRLEAD_KUBE_DIR={}", dir.display());
    let marked = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    };
    let all = fs::read_dir("/proc").expect("/proc is readable").flatten();
    all.map(|entry| entry.path())
        .filter(|path| marked(path))
        .filter_map(|path| fs::read_to_string(path.join("comm")).ok())
        .collect()
}

#[tokio::test]
async fn full_cluster_has_three_ready_nodes_of_its_version() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let get = cluster.kubectl().args(["get", "nodes", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&get.run().await?.success()?)?;
    let nodes = nodes["items"].as_array().context("no items")?;
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        let conditions = node["status"]["conditions"]
            .as_array()
            .context("conditions")?;
        let ready = conditions
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True");
        assert!(ready, "{node}");
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.37.1");
    }
    let version = cluster.kubectl().args(["version", "-o", "json"]);
    let version: Value = serde_json::from_str(&version.run().await?.success()?)?;
    assert_eq!(version["serverVersion"]["gitVersion"], "v1.37.1");
    assert_eq!(version["clientVersion"]["gitVersion"], "v1.37.1");
    Ok(())
}

#[tokio::test]
async fn logs_are_followed_line_by_line_until_the_container_ends() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let pod = pod(cluster, 0).await?;
    cluster.print_in_container("default", &pod, "demo", "first")?;
    let once = cluster.kubectl().args(["logs", &pod]);
    assert_eq!(once.run().await?.success()?, "first\n");

    let mut follow = cluster.kubectl().args(["logs", "-f", &pod]).spawn()?;
    assert_eq!(follow.next_line().await?.as_deref(), Some("first"));
    cluster.print_in_container("default", &pod, "demo", "second")?;
    assert_eq!(follow.next_line().await?.as_deref(), Some("second"));
    fs::remove_file(cluster.container_log("default", &pod, "demo"))?;
    assert_eq!(follow.next_line().await?, None);
    assert!(follow.wait().await?.success());
    Ok(())
}

#[tokio::test]
async fn exec_gives_input_both_outputs_and_the_exit_code() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let pod = pod(cluster, 0).await?;
    for transport in BOTH {
        let script = "cat; echo to-stderr >&2; exit 7";
        let exec = cluster
            .kubectl()
            .transport(transport)
            .args(["exec", "-i", &pod, "--", "sh", "-c", script])
            .stdin("to-stdout\n");
        let output = exec.run().await?;
        assert_eq!(output.status.code(), Some(7), "{transport:?}");
        assert_eq!(output.text(), "to-stdout\n", "{transport:?}");
        assert!(output.stderr.starts_with("to-stderr\n"), "{output:?}");
    }
    Ok(())
}

#[tokio::test]
async fn exec_on_a_terminal_has_its_size_follows_it_and_ends_by_ctrl_c() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let pod = pod(cluster, 0).await?;
    for transport in BOTH {
        let script = "while stty size; do read -r line; done";
        let exec = cluster
            .kubectl()
            .transport(transport)
            .args(["exec", "-it", &pod, "--", "sh", "-c", script]);
        let mut terminal = exec.terminal(24, 80)?;
        terminal.type_until("\r", "24 80", STEP_DEADLINE).await?;
        terminal.resize(41, 132)?;
        terminal.type_until("\r", "41 132", STEP_DEADLINE).await?;
        terminal.write("\x03")?;
        assert_eq!(terminal.wait(STEP_DEADLINE).await?.code(), Some(130));
    }
    Ok(())
}

#[tokio::test]
async fn attach_reaches_the_main_process_until_its_input_ends() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let pod = pod(cluster, 1).await?;
    for transport in BOTH {
        let attach = cluster.kubectl().transport(transport);
        let mut attach = attach.args(["attach", "-i", &pod]).spawn()?;
        attach.write(b"hello\n").await?;
        assert_eq!(attach.next_line().await?.as_deref(), Some("hello"));
        attach.close_stdin();
        assert_eq!(attach.next_line().await?, None);
        assert!(attach.wait().await?.success());
    }
    Ok(())
}

#[tokio::test]
async fn files_are_copied_both_ways_unchanged() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let pod = pod(cluster, 2).await?;
    let here = tempfile::tempdir()?;
    // Larger than every window on the path, without repetitions.
    let bytes: Vec<u8> = (0_u32..750_000)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    fs::write(here.path().join("sent"), &bytes)?;
    for transport in BOTH {
        let cp = |from: String, to: String| {
            let cp = cluster.kubectl().transport(transport);
            cp.args(["cp", "--retries=0", &from, &to]).run()
        };
        let sent = here.path().join("sent").display().to_string();
        let received = here.path().join("received").display().to_string();
        cp(sent, format!("{pod}:copy")).await?.success()?;
        cp(format!("{pod}:copy"), received.clone())
            .await?
            .success()?;
        assert!(fs::read(&received)? == bytes, "{transport:?}");
        fs::remove_file(received)?;
    }
    Ok(())
}

#[tokio::test]
async fn forwarded_port_leads_to_the_pod() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let pod = pod(cluster, 0).await?;
    for transport in BOTH {
        let forward = cluster.kubectl().transport(transport);
        let (port, _web) = forward.port_forward(&format!("pod/{pod}"), 80).await?;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream
            .write_all(b"GET /x HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.ends_with(&format!("default/{pod} GET /x\n")),
            "{answer}"
        );

        let forward = cluster.kubectl().transport(transport);
        let (port, _echo) = forward.port_forward(&format!("pod/{pod}"), 7).await?;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"ping").await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"ping", "{transport:?}");
    }
    Ok(())
}

#[tokio::test]
async fn audit_log_records_the_caller_of_each_request() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let get = cluster.kubectl().kubeconfig(cluster.alice_kubeconfig());
    let refused = get
        .args(["get", "secrets", "-n", "kube-public"])
        .run()
        .await?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("Forbidden"), "{}", refused.stderr);
    let event = eventually(STEP_DEADLINE, "an event of alice", async || {
        let events = cluster.audit().ok()?;
        events.into_iter().find(|event| {
            event["user"]["username"] == "alice" && event["objectRef"]["resource"] == "secrets"
        })
    })
    .await?;
    assert_eq!(event["responseStatus"]["code"], 403);
    Ok(())
}

#[tokio::test]
async fn program_in_a_pod_sees_its_service_account_and_a_rotated_token() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let manifest = "
        {apiVersion: v1, kind: List, items: [
          {apiVersion: v1, kind: Namespace, metadata: {name: pod-test}},
          {apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: pod-test}}]}";
    let pod = Pod::install(cluster, manifest, "pod-test", "robot").await?;
    let first = fs::read_to_string(pod.folder().join("token"))?;
    let script = "
        cd /var/run/secrets/kubernetes.io/serviceaccount
        echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT $(cat namespace) $(wc -c < ca.crt)
        old=$(cat token)
        while [ \"$(cat token)\" = \"$old\" ]; do sleep 0.02; done
        cat token";
    let launch = Launch::new("sh").args(["-c", script]).inside(&pod);
    let log = cluster.dir().join("log/pod-test.log");
    let mut program = launch.spawn(&log)?;
    let port = cluster.api_port();
    let length = cluster.ca_pem().len();
    let head = format!("127.0.0.1:{port} pod-test {length}\n");
    program.wait_for_log(&head, STEP_DEADLINE).await?;
    // Tokens have a resolution of one second.
    let second = eventually(STEP_DEADLINE, "another token", async || {
        let token = pod.new_token().await.ok()?;
        (token != first).then_some(token)
    })
    .await?;
    pod.write_token(&second)?;
    assert!(program.wait(STEP_DEADLINE).await?.success());
    assert_eq!(program.log()?, format!("{head}{second}"));
    ensure!(
        !Path::new("/run/secrets/kubernetes.io").exists(),
        "the machine itself was changed"
    );
    Ok(())
}

#[tokio::test]
async fn process_is_measured_and_killed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let launch = Launch::new("sh").args(["-c", "echo up; exec cat /dev/zero > /dev/null"]);
    let mut program = launch.spawn(folder.path().join("log"))?;
    program.wait_for_log("up", STEP_DEADLINE).await?;
    let busy = eventually(STEP_DEADLINE, "CPU time", async || {
        let usage = program.usage().ok()?;
        (!usage.cpu.is_zero()).then_some(usage)
    })
    .await?;
    assert!(busy.rss > 0);
    assert!(busy.fds >= 3);
    program.kill_9()?;
    assert!(program.usage().is_err());
    Ok(())
}

#[tokio::test]
async fn two_lite_clusters_run_at_once_and_leave_nothing_behind() -> anyhow::Result<()> {
    let (one, two) = tokio::try_join!(Cluster::start_lite(), Cluster::start_lite())?;
    assert_ne!(one.api_port(), two.api_port());
    for cluster in [&one, &two] {
        let name = format!("only-{}", cluster.api_port());
        let create = cluster.kubectl().args(["create", "configmap", &name]);
        create.run().await?.success()?;
        let get = cluster.kubectl().args(["get", "configmaps", "-o", "name"]);
        let text = get.run().await?.success()?;
        assert_eq!(text.matches("only-").count(), 1, "{text}");
        assert!(!processes(cluster.dir()).is_empty());
    }
    let nodes = one.kubectl().args(["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.run().await?.success()?, "");
    for cluster in [one, two] {
        let dir = cluster.dir().to_owned();
        drop(cluster);
        assert_eq!(processes(&dir), Vec::<String>::new());
        assert!(!dir.exists());
    }
    Ok(())
}

#[tokio::test]
async fn cluster_ends_with_its_owner() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().canonicalize()?;
    let owner = || Command::new("sleep").arg("600").kill_on_drop(true).spawn();
    let up = |pid: Option<u32>| {
        let mut up = Command::new(kube::script());
        up.arg("up").arg(&dir).arg("--lite").arg("--owner");
        up.arg(pid.unwrap_or_default().to_string());
        up.stdout(Stdio::null());
        up
    };
    let ended = || {
        eventually(STEP_DEADLINE, "the end of the cluster", async || {
            processes(&dir).is_empty().then_some(())
        })
    };

    let mut whole = owner()?;
    assert!(up(whole.id()).status().await?.success());
    assert!(processes(&dir).len() >= 4); // etcd, two of Kubernetes, the watcher
    whole.kill().await?;
    ended().await?;

    // In the middle of its start, when `up` itself must be ended first.
    let mut half = owner()?;
    let mut starting = up(half.id()).stderr(Stdio::null()).spawn()?;
    eventually(STEP_DEADLINE, "a first server", async || {
        dir.join("pids/apiserver").exists().then_some(())
    })
    .await?;
    half.kill().await?;
    assert!(!starting.wait().await?.success());
    ended().await
}
