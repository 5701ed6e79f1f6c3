//! Rejected callers, agents, requests and idle connections, each with its own code and sentence, through the
//! real binaries. The gateway's own tests have the full table of malformed requests.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Joining, RawAnswer, Site, eventually};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::Instant;

const STEP_DEADLINE: Duration = Duration::from_secs(20);

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Creates a token with `fairlead token create` and returns its id too.
async fn token(hub: &Hub, args: &[&str]) -> anyhow::Result<(String, String)> {
    let create = [&["token", "create"], args, &["-o", "json"]].concat();
    let created: Value = serde_json::from_str(&hub.cli(create).await?.success()?)?;
    Ok((text(&created, "/id")?, text(&created, "/token")?))
}

fn text(value: &Value, at: &str) -> anyhow::Result<String> {
    let text = value.pointer(at).and_then(Value::as_str);
    Ok(text
        .with_context(|| format!("no {at} in {value}"))?
        .to_owned())
}

/// Checks that a rejection has the same code in header, body and status, and a sentence.
fn is_rejection(answer: &RawAnswer, status: u16, code: &str) -> anyhow::Result<()> {
    ensure!(
        answer.status == status && answer.code() == code,
        "{answer:?}"
    );
    let body: Value = serde_json::from_slice(&answer.body)?;
    if let Some(reason) = body
        .pointer("/reason")
        .filter(|_| body.get("kind").is_none())
    {
        // The hub itself answers, not the route to a cluster.
        ensure!(
            text(&body, "/code")? == code && text(&body, "/next")?.len() > 8,
            "{reason}"
        );
        return Ok(());
    }
    let told = body.pointer("/code").and_then(Value::as_u64);
    ensure!(
        text(&body, "/kind")? == "Status" && told == Some(u64::from(status)),
        "{body}"
    );
    let message = text(&body, "/message")?;
    ensure!(message.contains(code) && message.len() > 30, "{message}");
    Ok(())
}

#[tokio::test]
async fn callers_without_a_valid_token_get_the_reason() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let front = hub.front()?;
    let id = hub.create_cluster("demo").await?.id;
    let (deleted_id, deleted) = token(&hub, &["gone", "--role", "viewer"]).await?;
    hub.cli(["token", "delete", &deleted_id, "--yes"])
        .await?
        .success()?;
    let good = hub.token()?;
    let path = format!("/k8s/clusters/{id}/api/v1/nodes");
    for (headers, status, code) in [
        (String::new(), 401, "FL-1101"),
        ("Authorization: Basic YTpi\r\n".to_owned(), 401, "FL-1101"),
        ("Authorization: Bearer\r\n".to_owned(), 401, "FL-1101"),
        (bearer("garbage"), 401, "FL-1102"),
        (
            bearer("flt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            401,
            "FL-1102",
        ),
        (bearer(&deleted), 401, "FL-1102"),
        (bearer(&good.repeat(200)), 401, "FL-1102"),
        (bearer(&good).repeat(2), 401, "FL-1102"),
        (bearer(&good), 503, "FL-1401"),
    ] {
        let answer = front.send(get(&path, &headers)).await?;
        is_rejection(&answer, status, code).with_context(|| headers.clone())?;
        ensure!(!answer.text().contains(&good), "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn cluster_of_another_tenant_looks_like_a_missing_one() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let front = hub.front()?;
    hub.cli(["tenant", "create", "other"]).await?.success()?;
    let theirs = hub.create_cluster("theirs").await?.id;
    let (_, token) = token(&hub, &["eve", "--role", "admin", "--tenant", "t-other"]).await?;
    // As long as the real one, so that only the answer can differ.
    let missing = format!("c-{}", "x".repeat(theirs.len() - 2));
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..20 {
        for (kind, form) in [
            ("path", "/k8s/clusters/{}/api/v1/nodes"),
            ("module", "/clusters/{}"),
            ("name", "/api/v1/nodes"),
        ] {
            let mut told = Vec::new();
            for (id, times) in [&theirs, &missing].into_iter().zip(&mut times) {
                let mut request = get(&form.replace("{}", id), &bearer(&token));
                if kind == "name" {
                    let name = format!("Host: {id}.clusters.fairlead.internal");
                    request = request.replace("Host: 127.0.0.1", &name);
                }
                let since = Instant::now();
                let answer = front.send(request).await?;
                times.push(since.elapsed());
                is_rejection(&answer, 404, "FL-1301").context(kind)?;
                let changing = ["fairlead-request-id", "date"];
                let same = answer.head.lines().filter(|line| {
                    let name = line.split(':').next().unwrap_or_default();
                    !changing
                        .iter()
                        .any(|other| name.eq_ignore_ascii_case(other))
                });
                let head = same.collect::<Vec<_>>().join("\n");
                told.push((head, answer.text().replace(id.as_str(), "ID")));
            }
            ensure!(
                told.first() == told.get(1),
                "round {round}, {kind}: {told:?}"
            );
        }
    }
    let medians = times.map(|mut times| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    });
    eprintln!("median times, theirs and missing: {medians:?}");
    Ok(())
}

#[tokio::test]
async fn spent_bootstrap_token_is_rejected_and_the_first_agent_works() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let _first = Site::start(&hub, &cluster, &joining).await?;
    let mut second = Site::begin(&hub, &cluster, &joining.join, "second")?;
    second
        .process
        .wait_for_log("FL-2103", STEP_DEADLINE)
        .await?;
    let unknown = hub.create_cluster("gone").await?;
    hub.cli(["cluster", "delete", "gone", "--yes"])
        .await?
        .success()?;
    let mut third = Site::begin(&hub, &cluster, &unknown.join, "third")?;
    third.process.wait_for_log("FL-2101", STEP_DEADLINE).await?;
    let get = hub
        .kubectl(&cluster, "demo")
        .await?
        .args(["get", "namespaces"]);
    get.run().await?.success()?;
    ensure!(hub.metrics().await?.sum("fairlead_sessions", &[]) == 1.0);

    // A new bootstrap token replaces the old one and works like the first.
    let renew = hub
        .cli(["cluster", "token", "renew", "demo", "--yes", "-o", "json"])
        .await?;
    let renewed: Joining = serde_json::from_str(&renew.success()?)?;
    let mut fourth = Site::begin(&hub, &cluster, &renewed.join, "fourth")?;
    fourth
        .process
        .wait_for_log("enrolled", STEP_DEADLINE)
        .await?;
    Ok(())
}

#[tokio::test]
async fn of_two_agents_with_one_token_exactly_one_wins() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    for round in 0..5 {
        let joining = hub.create_cluster(&format!("race-{round}")).await?;
        let racers = [format!("one-{round}"), format!("two-{round}")];
        let racers = racers.map(|name| Site::begin(&hub, &cluster, &joining.join, &name));
        let mut logs = [String::new(), String::new()];
        let mut sites = Vec::new();
        for racer in racers {
            sites.push(racer?);
        }
        eventually(STEP_DEADLINE, "one winner and one loser", async || {
            for (log, site) in logs.iter_mut().zip(&sites) {
                *log = site.process.log().ok()?;
            }
            let count = |text: &str| logs.iter().filter(|log| log.contains(text)).count();
            (count(" enrolled ") == 1 && count("FL-2103") == 1).then_some(())
        })
        .await
        .with_context(|| format!("round {round}: {logs:?}"))?;
        hub.wait_state(&joining.id, "Connected").await?;
    }
    // Log lines appear a little later than their events.
    let issued = || Some(hub.process.log().ok()?.matches("agent enrolled").count());
    eventually(STEP_DEADLINE, "every round's line", async || {
        issued().filter(|it| *it >= 5)
    })
    .await?;
    ensure!(issued() == Some(5), "{:?} certificates", issued());
    Ok(())
}

#[tokio::test]
async fn certificate_of_another_ca_is_rejected() -> anyhow::Result<()> {
    let (cluster, hub, other) =
        tokio::try_join!(Cluster::start_lite(), Hub::start(), Hub::start())?;
    let document = async |hub: &Hub| {
        let joining = hub.create_cluster("demo").await?;
        let site = Site::start(hub, &cluster, &joining).await?;
        let path = hub
            .dir()
            .join(format!("{}.state/identity.json", joining.id));
        let document: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        anyhow::Ok((site, path, document))
    };
    let (_site, _, ours) = document(&hub).await?;
    let (mut foreign, path, mut theirs) = document(&other).await?;
    foreign.process.kill_9()?;
    // It trusts our hub, has key and certificate of another one, and claims to be our cluster.
    for key in ["hubs", "pin", "ca", "cluster", "tenant"] {
        theirs[key] = ours[key].clone();
    }
    fs::write(&path, theirs.to_string())?;
    foreign.restart()?;
    foreign
        .process
        .wait_for_log("FL-3109", STEP_DEADLINE)
        .await?;
    ensure!(hub.metrics().await?.sum("fairlead_sessions", &[]) == 1.0);
    hub.wait_state("demo", "Connected").await?;
    Ok(())
}

#[tokio::test]
async fn ambiguous_requests_are_rejected() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let front = hub.front()?;
    let good = bearer(&hub.token()?);
    let root = format!("/k8s/clusters/{}", joining.id);
    let path = |path: &str| get(&format!("{root}{path}"), &good);
    let with = |headers: &str| {
        let head = format!("{good}{headers}\r\n");
        get(&format!("{root}/api"), &head).replace("GET", "POST") + "0\r\n\r\n"
    };
    let many = "X-Many: 1\r\n".repeat(93);
    let too_many = "X-Many: 1\r\n".repeat(120);
    for (request, status, code) in [
        (path("/api"), 200, "none"),
        (path("/%2e%2e/x/api"), 400, "FL-1303"),
        (path("//api"), 400, "FL-1303"),
        (path("/api%2f..%2fx"), 400, "FL-1303"),
        (
            path("/api").replace("GET /", "GET https://127.0.0.1/"),
            400,
            "FL-1303",
        ),
        (with("Impersonate-User: system:admin"), 403, "FL-1202"),
        (with("IMPERSONATE-GROUP: system:masters"), 403, "FL-1202"),
        (with("Impersonate_User: system:admin"), 403, "FL-1202"),
        (
            with("Connection: Impersonate-User\r\nImpersonate-User: a"),
            400,
            "FL-1304",
        ),
        (with("Connection: close, Authorization"), 400, "FL-1304"),
        (
            with("Connection: fairlead-user\r\nFairlead-User: a"),
            400,
            "FL-1304",
        ),
        // Two lengths (RFC 9112, section 6.3).
        (
            with("Content-Length: 5\r\nTransfer-Encoding: chunked"),
            400,
            "FL-1304",
        ),
        (with("Transfer-Encoding: gzip, chunked"), 400, "FL-1304"),
        (with("Host: other.test"), 400, "FL-1304"),
        (with("X-Folded: a\r\n b"), 400, "FL-1304"),
        (
            with(&format!("X-Long: {}", "x".repeat(70_000))),
            431,
            "FL-1306",
        ),
        (with(many.trim_end()), 431, "FL-1306"),
        (with(too_many.trim_end()), 431, "FL-1306"),
        (
            with(&format!("X-Endless: {}", "x".repeat(400_000))),
            431,
            "FL-1306",
        ),
    ] {
        let head: String = request.chars().take(300).collect();
        let answer = front.send(request).await.with_context(|| head.clone())?;
        let got = (answer.status, answer.code());
        ensure!(got == (status, code), "{head}: {answer:?}");
    }
    let get = hub.kubectl(&cluster, "demo").await?;
    let get = get
        .args(["get", "namespaces", "--as", "system:admin"])
        .run();
    let refused = get.await?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(
        refused.stderr.contains("impersonation headers"),
        "{refused:?}"
    );
    let arrived = cluster.audit()?.into_iter().any(|event| {
        let user = &event["impersonatedUser"]["username"];
        user.is_string() && user != "fairlead:admin"
    });
    ensure!(!arrived, "somebody else arrived at the API server");
    Ok(())
}

#[tokio::test]
async fn thousand_unfinished_tls_handshakes_keep_no_agent_out() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(TcpStream::connect(hub.front()?.address()).await?);
    }
    eventually(STEP_DEADLINE, "all of them at the hub", async || {
        let metrics = hub.metrics().await.ok()?;
        let handshakes = metrics.sum("fairlead_handshakes_total", &["front", "evicted"]);
        let open = metrics.sum("fairlead_front_connections", &[]);
        (open + handshakes >= 1000.0).then_some(())
    })
    .await?;
    let since = Instant::now();
    let _site = Site::begin(&hub, &cluster, &joining.join, "demo")?;
    eventually(STEP_DEADLINE, "a session", async || {
        let metrics = hub.metrics().await.ok()?;
        (metrics.sum("fairlead_sessions", &[]) == 1.0).then_some(())
    })
    .await?;
    let took = since.elapsed();
    eprintln!(
        "an agent enrolled and connected in {took:?} beside {} idle sockets",
        idle.len()
    );
    // Before the handshake deadline of any of them.
    ensure!(took < Duration::from_secs(10), "{took:?}");
    Ok(())
}

/// A kubectl without a discovery cache first requests the API's description. Of a rejection it shows only the
/// text, and nothing of a Status.
#[tokio::test]
async fn kubectl_that_knows_nothing_of_the_cluster_shows_the_sentence_all_the_same()
-> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let id = hub.create_cluster("demo").await?.id;
    let good = fs::read_to_string(hub.kubeconfig("good.yaml", &[]).await?)?;
    for (name, kubeconfig, sentence) in [
        ("never", good.clone(), "has never connected"),
        (
            "missing",
            good.replace(&format!(": {id}."), ": c-none."),
            "no cluster with this id",
        ),
    ] {
        let file = hub.dir().join(format!("{name}.yaml"));
        fs::write(&file, kubeconfig)?;
        let get = cluster
            .kubectl()
            .kubeconfig(file)
            .context(hub.context("demo"));
        let refused = get.args(["get", "nodes"]).run().await?;
        ensure!(refused.status.code() == Some(1), "{name}: {refused:?}");
        let last = refused.stderr.trim_end().lines().last().unwrap_or_default();
        ensure!(
            last.contains(sentence) && last.contains("FL-1"),
            "{name}: {last}"
        );
        eprintln!("{last}");
    }
    Ok(())
}
