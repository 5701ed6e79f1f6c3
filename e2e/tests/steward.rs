//! Project Syn's Steward, whose calls are replayed exactly, because no package registry has its program. Its
//! manifests are applied to a real cluster, and it reports as often as in a day.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, RawExchange, Site, eventually};
use serde_json::{Value, json};
use tokio::time::Instant;

const STEP_DEADLINE: Duration = Duration::from_secs(20);
/// One report per minute for a day.
const REPORTS_PER_DAY: usize = 24 * 60;
const MANIFESTS: [&str; 6] = [
    "namespace/syn",
    "clusterrole.rbac.authorization.k8s.io/syn-admin",
    "clusterrolebinding.rbac.authorization.k8s.io/syn-steward",
    "serviceaccount/steward",
    "deployment.apps/steward",
    "secret/steward",
];

/// An HTTP/1.1 request as Go's client writes it.
fn request(method: &str, path: &str, token: Option<&str>, body: &str) -> String {
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nHost: hub\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {}\r\n",
        body.len()
    );
    if let Some(token) = token {
        text += &format!("Authorization: Bearer {token}\r\n");
    }
    if method == "PATCH" {
        text += "Content-Type: application/merge-patch+json\r\n";
    }
    text + "Accept-Encoding: gzip\r\n\r\n" + body
}

async fn admin(hub: &Hub, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
    let token = hub.token()?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = hub
        .front()?
        .send(request(method, path, Some(&token), &body))
        .await?;
    ensure!(
        (200..300).contains(&answer.status),
        "{method} {path}: {}",
        answer.text()
    );
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Creates a tenant, and a cluster with an external catalog repository.
async fn register(hub: &Hub) -> anyhow::Result<Value> {
    let repo = |name: &str| format!("ssh://git@git.example/acme/{name}.git");
    let tenant = json!({ "id": "t-acme", "gitRepo": { "url": repo("tenant") } });
    admin(hub, "POST", "/tenants", &tenant).await?;
    let cluster = json!({
        "id": "c-edge", "tenant": "t-acme",
        "gitRepo": { "url": repo("catalog"), "type": "unmanaged", "hostKeys": "git.example ssh-ed25519 AAAA" },
    });
    admin(hub, "POST", "/clusters", &cluster).await
}

/// One run of Steward: its kept connection, and its key from a Secret.
struct StewardReplay {
    token: String,
    key: String,
    fact: String,
    connection: Option<RawExchange>,
}

impl StewardReplay {
    fn new(token: &str, key: &str) -> Self {
        Self {
            token: token.to_owned(),
            key: key.to_owned(),
            fact: "first".to_owned(),
            connection: None,
        }
    }

    /// A report of about 1.1 kB.
    fn report(&self) -> String {
        let body = json!({
            "gitRepo": { "deployKey": self.key },
            "facts": { "cloud": "cloudscale", "region": "rma1", "distribution": "openshift4" },
            "dynamicFacts": {
                "kubernetesVersion": {
                    "major": "1", "minor": "31", "gitVersion": "v1.31.2", "gitCommit": "5864a4677267e6adeae276ad85882a8714d69d9d",
                    "gitTreeState": "clean", "buildDate": "2026-10-22T20:28:14Z", "goVersion": "go1.22.8",
                    "compiler": "gc", "platform": "linux/amd64",
                },
                "extra": self.fact,
            },
        });
        request(
            "PATCH",
            "/clusters/c-edge",
            Some(&self.token),
            &body.to_string(),
        )
    }

    /// Sends a report and returns the answer. Steward continues with its catalog only after 200.
    async fn tick(&mut self, hub: &Hub) -> anyhow::Result<Value> {
        let report = self.report();
        let (status, body) = match self.connection.take() {
            Some(mut open) => {
                let body = open.again(report.as_bytes()).await?;
                let status = open.status;
                self.connection = Some(open);
                (status, body)
            }
            None => {
                let mut open = hub.front()?.open(report.as_bytes()).await?;
                let body = open.body().await?;
                let status = open.status;
                self.connection = Some(open);
                (status, body)
            }
        };
        ensure!(
            status == 200,
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(serde_json::from_slice(&body)?)
    }
}

/// A public key that looks like RSA with 4096 bits, with a line feed.
fn key(fill: char) -> String {
    let body = String::from(fill).repeat(716);
    format!("ssh-rsa {body}\n")
}

/// Token in its manifests, which can be read once.
async fn install(hub: &Hub, invited: &Value) -> anyhow::Result<String> {
    let url = invited["installURL"].as_str().context("no installURL")?;
    let (_, bootstrap) = url.split_once("?token=").context("no token in it")?;
    let path = format!("/install/steward.json?token={bootstrap}");
    let manifests = hub.front()?.send(request("GET", &path, None, "")).await?;
    ensure!(manifests.status == 200, "{}", manifests.text());
    let manifests: Value = serde_json::from_slice(&manifests.body)?;
    let token = manifests["items"][5]["stringData"]["token"].as_str();
    let again = hub.front()?.send(request("GET", &path, None, "")).await?;
    ensure!(
        again.status == 401 && again.text().contains("already used"),
        "{}",
        again.text()
    );
    Ok(token.context("no token for Steward")?.to_owned())
}

async fn rejects_other_requests(hub: &Hub, token: &str) -> anyhow::Result<()> {
    for (path, body, status) in [
        ("/clusters/c-other", "{}", 404),
        (
            "/clusters/c-edge",
            r#"{"gitRepo":{"url":"ssh://g@e/a/b"}}"#,
            403,
        ),
        ("/clusters/c-edge", r#"{"displayName":"mine"}"#, 403),
    ] {
        let answer = hub
            .front()?
            .send(request("PATCH", path, Some(token), body))
            .await?;
        ensure!(answer.status == status, "{path} {body}: {}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn day_of_reports_writes_only_changes_and_survives_restarts_of_both() -> anyhow::Result<()> {
    let mut hub = Hub::start().await?;
    let made = register(&hub).await?;
    let token = install(&hub, &made).await?;

    let mut steward = StewardReplay::new(&token, &key('A'));
    let mut versions = Vec::new();
    let mut keys = Vec::new();
    for minute in 0..REPORTS_PER_DAY {
        match minute {
            // The hub is killed, and Steward continues with its state.
            300 | 900 => {
                hub.kill_and_restart().await?;
                steward.connection = None;
            }
            // Steward restarts with the key of its Secret.
            500 => steward = StewardReplay::new(&token, &key('A')),
            // Its Secret is lost, so it generates another key.
            600 => steward = StewardReplay::new(&token, &key('B')),
            700 => steward.fact = "second".to_owned(),
            800 => {
                let change = json!({ "gitRepo": { "hostKeys": "git.example ssh-ed25519 BBBB" } });
                admin(&hub, "PATCH", "/clusters/c-edge", &change).await?;
            }
            _ => {}
        }
        let shown = steward.tick(&hub).await?;
        ensure!(
            shown["gitRepo"]["url"] == "ssh://git@git.example/acme/catalog.git",
            "{shown}"
        );
        keys.push(shown["gitRepo"]["hostKeys"].clone());
        versions.push(shown["version"].as_u64().context("no version")?);
    }
    ensure!(keys[799] == "git.example ssh-ed25519 AAAA", "{}", keys[799]);
    ensure!(keys[800] == "git.example ssh-ed25519 BBBB", "{}", keys[800]);
    let changes = versions.windows(2).filter(|two| two[0] != two[1]).count();
    ensure!(changes == 3, "key, fact and host keys, not {changes}");

    let shown = admin(&hub, "GET", "/clusters/c-edge", &Value::Null).await?;
    ensure!(shown["gitRepo"]["deployKey"] == key('B'), "{shown}");
    ensure!(shown["facts"]["region"] == "rma1", "{shown}");
    ensure!(
        shown["dynamicFacts"]["kubernetesVersion"]["platform"] == "linux/amd64",
        "{shown}"
    );
    let history = "/v1/clusters/c-edge/facts/history?fact=extra";
    let history = admin(&hub, "GET", history, &Value::Null).await?;
    let values = history["items"].as_array().context("no items")?.iter();
    let values: Vec<_> = values.map(|it| &it["value"]).collect();
    ensure!(values == ["first", "second"], "{values:?}");

    rejects_other_requests(&hub, &token).await?;
    let last = steward.tick(&hub).await?;
    ensure!(last["version"] == versions[REPORTS_PER_DAY - 1], "{last}");

    // A new installation invalidates the token of the old one.
    let path = "/v1/clusters/c-edge/bootstrap-token";
    let renewed = admin(&hub, "POST", path, &json!({})).await?;
    install(&hub, &renewed).await?;
    // The hub caches a valid token for a second.
    let refused = eventually(STEP_DEADLINE, "the older token is void", async || {
        let refused = steward.tick(&hub).await.err()?;
        refused.to_string().starts_with("401").then_some(())
    });
    refused.await
}

#[tokio::test]
async fn steward_goes_on_beside_an_agent_that_comes_and_goes() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let made = register(&hub).await?;
    let token = install(&hub, &made).await?;
    let mut steward = StewardReplay::new(&token, &key('A'));
    let first = steward.tick(&hub).await?;

    let joining = hub.create_cluster("ours").await?;
    let site = Site::start(&hub, &cluster, &joining).await?;
    let beside = steward.tick(&hub).await?;
    ensure!(beside == first, "{beside}");
    hub.cli(["cluster", "delete", "ours", "--yes"])
        .await?
        .success()?;
    drop(site);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let uninstall = ["agent", "uninstall", "--kubeconfig", &kubeconfig, "--yes"];
    hub.cli(uninstall).await?.success()?;
    let after = steward.tick(&hub).await?;
    ensure!(after == first, "{after}");
    let shown = admin(&hub, "GET", "/clusters/c-edge", &Value::Null).await?;
    ensure!(shown["gitRepo"]["deployKey"] == key('A'), "{shown}");
    Ok(())
}

#[tokio::test]
async fn its_manifests_are_applied_to_a_real_cluster() -> anyhow::Result<()> {
    let (hub, cluster) = tokio::try_join!(Hub::start(), Cluster::start_lite())?;
    let made = register(&hub).await?;
    let url = made["installURL"].as_str().context("no installURL")?;
    let kubectl = cluster.kubectl();
    let applied = kubectl
        .clone()
        .args(["apply", "-f", url, "-o", "name"])
        .run()
        .await?
        .success()?;
    ensure!(applied.lines().eq(MANIFESTS), "{applied}");
    let get = |what: &'static str| {
        kubectl
            .clone()
            .args(["-n", "syn", "get", what, "-o", "json"])
    };
    let deployment: Value =
        serde_json::from_str(&get("deployment/steward").run().await?.success()?)?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let image = container["image"].as_str().context("no image")?;
    let (_, tag) = image.rsplit_once(':').context("no tag")?;
    ensure!(tag.starts_with('v') && tag != "latest", "{image}");
    ensure!(
        container["env"][0]["value"] == hub.ready().url.as_str(),
        "{container}"
    );
    for what in [
        "clusterrole/syn-admin",
        "clusterrolebinding/syn-steward",
        "sa/steward",
    ] {
        get(what).run().await?.success()?;
    }
    // The token in the cluster is the one that the hub knows.
    let secret = [
        "-n",
        "syn",
        "get",
        "secret/steward",
        "-o",
        "go-template={{.data.token | base64decode}}",
    ];
    let token = kubectl.clone().args(secret).run().await?.success()?;
    let mut steward = StewardReplay::new(&token, &key('A'));
    let shown = steward.tick(&hub).await?;
    ensure!(shown["id"] == "c-edge", "{shown}");
    // A second download finds nothing.
    let late = kubectl.clone().args(["apply", "-f", url]).run().await?;
    ensure!(
        !late.status.success() && late.stderr.contains("401"),
        "{}",
        late.stderr
    );
    Ok(())
}

#[tokio::test]
async fn ten_thousand_wrong_tokens_are_rate_limited_and_logged_once_a_minute() -> anyhow::Result<()>
{
    const GUESS_COUNT: usize = 10_000;
    let hub = Hub::start().await?;
    let since = Instant::now();
    let lines = |hub: &Hub, text: &str| -> anyhow::Result<usize> {
        Ok(hub
            .process
            .log()?
            .lines()
            .filter(|it| it.contains(text))
            .count())
    };
    let before = lines(&hub, "")?;
    let token = hub.token()?;
    let right = request("GET", "/clusters", Some(&token), "");
    let guess = |n: usize| match n % 2 {
        0 => request("GET", "/clusters", Some(&format!("flt_{n:043}")), ""),
        _ => request(
            "GET",
            &format!("/install/steward.json?token=c-a.1.{n}.x"),
            None,
            "",
        ),
    };
    let front = hub.front()?;
    let mut guessing = front.open(guess(0).as_bytes()).await?;
    guessing.body().await?;
    let mut answers = vec![guessing.status];
    for n in 1..GUESS_COUNT {
        guessing.again(guess(n).as_bytes()).await?;
        answers.push(guessing.status);
        if n % 1000 == 0 {
            let answer = front.send(&right).await?;
            ensure!(answer.status == 200, "a right token: {}", answer.text());
        }
    }
    // A window is one minute, and the first one started with the first guess.
    let windows = usize::try_from(since.elapsed().as_secs() / 60)? + 1;
    let refused = answers.iter().filter(|status| **status == 401).count();
    let limited = answers.iter().filter(|status| **status == 429).count();
    ensure!(
        refused + limited == GUESS_COUNT,
        "something else was answered"
    );
    ensure!(refused >= 30 && refused <= 30 * windows, "{refused}");
    let told = lines(&hub, "wrong token")?;
    ensure!(
        told >= 1 && told <= windows,
        "{told} lines in {windows} windows"
    );
    let all = lines(&hub, "")? - before;
    ensure!(all < 100 * windows, "{all} lines of {GUESS_COUNT} guesses");
    ensure!(lines(&hub, "flt_0000")? == 0, "a token is in the log");
    Ok(())
}
