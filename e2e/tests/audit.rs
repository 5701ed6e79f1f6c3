//! Audit log of the hub, joined with the audit log of a real API server.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    BACKUP_IDENTITY, BACKUP_RECIPIENT, Cluster, Hub, RawClient, RawExchange, Site, UpgradeProtocol,
    eventually,
};
use serde_json::Value;
use tokio::task::JoinSet;

const STEP_DEADLINE: Duration = Duration::from_secs(60);
const REQUESTS_PER_PERSON: usize = 2000;
const PEOPLE: [(&str, &str); 5] = [
    ("ann", "admin"),
    ("bob", "operator"),
    ("cy", "operator"),
    ("dee", "viewer"),
    ("eve", "viewer"),
];

/// Method, path and body of a person's request with this number.
fn request(person: &str, number: usize) -> (&'static str, String, String) {
    let of = "/api/v1/namespaces/default/configmaps";
    let name = format!("{person}-{}", number / 8);
    match number % 8 {
        0 => ("GET", "/api/v1/pods?limit=1".to_owned(), String::new()),
        1 => {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#
            );
            ("POST", of.to_owned(), body)
        }
        2 => ("GET", format!("{of}/{name}"), String::new()),
        3 => ("GET", "/version".to_owned(), String::new()),
        4 => ("DELETE", format!("{of}/{name}"), String::new()),
        5 => (
            "GET",
            "/api/v1/namespaces/none/secrets/none".to_owned(),
            String::new(),
        ),
        6 => ("GET", "/apis/apps/v1/deployments".to_owned(), String::new()),
        _ => {
            let watch = format!("{of}?watch=1&timeoutSeconds=1");
            let path = if number % 400 == 7 {
                watch
            } else {
                "/livez".to_owned()
            };
            ("GET", path, String::new())
        }
    }
}

async fn send_all(
    front: Arc<RawClient>,
    cluster: String,
    person: &'static str,
    token: String,
) -> anyhow::Result<()> {
    let mut connection: Option<RawExchange> = None;
    for number in 0..REQUESTS_PER_PERSON {
        let (method, path, body) = request(person, number);
        let head = format!(
            "{method} /k8s/clusters/{cluster}{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nAudit-ID: forged-{number}\r\n\r\n{body}",
            front.address(),
            body.len(),
        );
        let exchange = match &mut connection {
            Some(exchange) => {
                exchange.again(head.as_bytes()).await?;
                exchange
            }
            None => {
                let mut opened = front.open(head.as_bytes()).await?;
                opened.body().await?;
                connection.insert(opened)
            }
        };
        ensure!(exchange.status < 500, "{method} {path}: {}", exchange.head);
    }
    Ok(())
}

/// Events of people's requests to the cluster, by id: stages with caller.
fn hub_events(hub: &Hub, cluster: &str) -> anyhow::Result<BTreeMap<String, Vec<(String, String)>>> {
    let mut found = BTreeMap::<String, Vec<(String, String)>>::new();
    for file in fs::read_dir(hub.dir().join("data/audit"))? {
        let path = file?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        for line in fs::read_to_string(path)?.lines() {
            let event: Value = serde_json::from_str(line)?;
            let name = event["caller"]["name"].as_str().unwrap_or_default();
            if event["cluster"] == cluster && PEOPLE.iter().any(|(person, _)| *person == name) {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                let stages = found.entry(text("id")).or_default();
                stages.push((text("stage"), name.to_owned()));
            }
        }
    }
    Ok(found)
}

/// People's completed requests in the API server's log: ids with users.
fn api_events(cluster: &Cluster) -> anyhow::Result<Vec<(String, String)>> {
    let events = cluster.audit()?;
    let completed = events.iter().filter(|it| it["stage"] == "ResponseComplete");
    let of_people = completed.filter_map(|event| {
        let user = event["impersonatedUser"]["username"].as_str()?;
        let name = user.strip_prefix("fairlead:")?;
        PEOPLE.iter().find(|(person, _)| *person == name)?;
        Some((event["auditID"].as_str()?.to_owned(), name.to_owned()))
    });
    Ok(of_people.collect())
}

#[tokio::test]
async fn each_of_10000_requests_has_one_event_at_the_hub_and_one_at_the_api_server()
-> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let front = Arc::new(hub.front()?);
    let mut people = JoinSet::new();
    for (person, role) in PEOPLE {
        let create = [
            "token",
            "create",
            person,
            "--role",
            role,
            "-o",
            "jsonpath={.token}",
        ];
        let token = hub.cli(create).await?.success()?.trim().to_owned();
        people.spawn(send_all(front.clone(), joining.id.clone(), person, token));
    }
    while let Some(sent) = people.join_next().await {
        sent??;
    }
    let total = PEOPLE.len() * REQUESTS_PER_PERSON;
    let (at_hub, at_api) = eventually(STEP_DEADLINE, "all events", async || {
        let at_hub = hub_events(&hub, &joining.id).ok()?;
        let at_api = api_events(&cluster).ok()?;
        let ended = at_hub.values().filter(|stages| stages.len() >= 2).count();
        (ended >= total && at_api.len() >= total).then_some((at_hub, at_api))
    })
    .await?;
    ensure!(at_hub.len() == total, "{} ids at the hub", at_hub.len());
    ensure!(
        at_api.len() == total,
        "{} events at the API server",
        at_api.len()
    );
    let unique: BTreeSet<_> = at_api.iter().map(|(id, _)| id).collect();
    ensure!(
        unique.len() == total,
        "{} ids at the API server",
        unique.len()
    );
    for (id, user) in &at_api {
        let stages = at_hub
            .get(id)
            .with_context(|| format!("{id} is not at the hub"))?;
        let expected = ["start", "end"].map(|stage| (stage.to_owned(), user.clone()));
        ensure!(stages[..] == expected, "{id}: {stages:?}");
    }

    // The hub's own commands read the same log.
    let one = at_api.first().context("no event")?;
    let args = ["audit", "requests", "--id", &one.0, "-o", "json"];
    let listed: Value = serde_json::from_str(&hub.cli(args).await?.success()?)?;
    ensure!(listed["items"][0]["caller"]["name"] == one.1, "{listed}");

    ensure!(
        listed["items"][0]["hub"] == hub.ready().url,
        "an event names its hub: {listed}"
    );
    tenants_see_their_own(&hub, &joining.id, &front).await?;
    tampering_shows(&hub).await
}

/// Events as an admin of one tenant sees them.
async fn tenants_see_their_own(hub: &Hub, cluster: &str, front: &RawClient) -> anyhow::Result<()> {
    hub.cli(["tenant", "create", "other"]).await?.success()?;
    for (tenant, role, sees_cluster) in [
        ("t-default", "admin", Some(true)),
        ("t-other", "admin", Some(false)),
        ("t-default", "viewer", None),
        ("t-other", "operator", None),
    ] {
        let name = format!("{tenant}-{role}");
        let create = [
            "token",
            "create",
            &name,
            "--role",
            role,
            "--tenant",
            tenant,
            "-o",
            "jsonpath={.token}",
        ];
        let token = hub.cli(create).await?.success()?.trim().to_owned();
        let head = format!(
            "GET /v1/audit/requests?limit=1000&cluster={cluster} HTTP/1.1\r\nHost: {}\r\n\
             Authorization: Bearer {token}\r\n\r\n",
            front.address(),
        );
        let mut answer = front.open(head.as_bytes()).await?;
        let body = answer.body().await?;
        let Some(sees_cluster) = sees_cluster else {
            ensure!(answer.status == 403, "{name}: {}", answer.head);
            continue;
        };
        let list: Value = serde_json::from_slice(&body)?;
        let items = list["items"].as_array().context("no list")?;
        ensure!(items.is_empty() != sees_cluster, "{name}: {list}");
        let is_own = items.iter().all(|it| it["tenant"] == tenant);
        ensure!(is_own, "{name} sees events of others: {list}");
    }
    Ok(())
}

/// Changes a copy of the log, and verifies it.
async fn tampering_shows(hub: &Hub) -> anyhow::Result<()> {
    let copy = hub.dir().join("copy");
    fs::create_dir(&copy)?;
    // Before the copy: the hub notes a hash now and then, and a later one is not in the copy.
    let heads = hub.dir().join("heads.log");
    fs::write(&heads, hub.process.log()?)?;
    for file in fs::read_dir(hub.dir().join("data/audit"))? {
        let path = file?.path();
        if path.extension().is_some_and(|it| it == "jsonl") {
            // The hub may be writing the last line.
            let text = fs::read_to_string(&path)?;
            let (whole, _) = text.rsplit_once('\n').context("no whole line")?;
            let name = path.file_name().context("name")?;
            fs::write(copy.join(name), format!("{whole}\n"))?;
        }
    }
    let path = copy.to_str().context("path")?;
    let whole = hub.cli(["audit", "verify", path]).await?;
    ensure!(
        whole.text().contains("none removed or changed"),
        "{whole:?}"
    );
    hashes_of_another_place_show_more(hub, &heads, &copy).await?;
    let log = copy.join("00000001.jsonl");
    let text = fs::read_to_string(&log)?;
    let mut lines: Vec<&str> = text.lines().collect();
    let removed = lines.remove(100);
    let changed = lines[200].replace("\"stage\":\"end\"", "\"stage\":\"start\"");
    let changed = changed.replace("\"decision\":\"allowed\"", "\"decision\":\"denied\"");
    lines[200] = &changed;
    fs::write(&log, lines.join("\n") + "\n")?;
    let broken = hub.cli(["audit", "verify", path]).await?;
    ensure!(broken.status.code() == Some(1), "{broken:?}");
    let told = format!("{}{}", broken.text(), broken.stderr);
    for expected in [":101: event 101 is missing", ":201: event 202", "FL-5108"] {
        ensure!(
            told.contains(expected),
            "{expected} after {removed}: {told}"
        );
    }
    Ok(())
}

/// A truncated log whose chain is whole, against hashes from the hub's own log and from a receiver.
async fn hashes_of_another_place_show_more(
    hub: &Hub,
    heads: &Path,
    copy: &Path,
) -> anyhow::Result<()> {
    let text = |path: &Path| path.display().to_string();
    let compare =
        |heads: &Path| ["audit", "verify", &text(copy), "--heads", &text(heads)].map(str::to_owned);
    let whole = hub.cli(compare(heads)).await?;
    ensure!(
        whole.text().contains("earlier hashes were compared"),
        "{whole:?}"
    );
    let log = copy.join("00000001.jsonl");
    let lines = fs::read_to_string(&log)?;
    let cut = lines.lines().count() - 5;
    let short: Vec<&str> = lines.lines().take(cut).collect();
    fs::write(&log, short.join("\n") + "\n")?;
    let alone = hub.cli(["audit", "verify", &text(copy)]).await?;
    ensure!(
        alone.text().contains("none removed or changed"),
        "{alone:?}"
    );
    let received = hub.dir().join("received.jsonl");
    fs::write(&received, &lines)?;
    let shown = hub.cli(compare(&received)).await?;
    ensure!(
        shown.status.code() == Some(1) && shown.text().contains("are missing"),
        "{shown:?}"
    );
    Ok(fs::write(&log, lines)?)
}

#[tokio::test]
async fn exec_is_recorded_for_the_auditor_over_websocket_and_spdy() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("audit.toml");
    let policy = format!("[recording]\nrecipient = \"{BACKUP_RECIPIENT}\"\nroles = [\"admin\"]\n");
    fs::write(&config, policy)?;
    let hub = Hub::start_server(&["--audit-config", config.to_str().context("path")?]).await?;
    hub.log_in().await?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let kubectl = hub.kubectl(&cluster, "demo").await?;
    let pods = kubectl
        .clone()
        .args(["get", "pods", "-l", "app=demo", "-o", "name"]);
    let pods = pods.run().await?.success()?;
    let pod = pods.lines().next().context("no pod")?.to_owned();

    let script = [
        "exec",
        "-i",
        &pod,
        "--",
        "sh",
        "-c",
        "read -r word; echo seen-$word; exit 3",
    ];
    let exec = kubectl
        .clone()
        .args(script)
        .stdin("by-the-auditor\n")
        .run()
        .await?;
    ensure!(exec.status.code() == Some(3), "{exec:?}");
    ensure!(exec.text() == "seen-by-the-auditor\n", "{exec:?}");
    let spdy = kubectl
        .clone()
        .transport(UpgradeProtocol::Spdy)
        .args(script)
        .stdin("by-the-auditor\n")
        .run()
        .await?;
    ensure!(spdy.status.code() == Some(3), "{spdy:?}");
    ensure!(spdy.text() == "seen-by-the-auditor\n", "{spdy:?}");
    let run = "/api/v1/nodes/demo/proxy/run/default/demo/demo?cmd=id";
    let past = kubectl.clone().args(["get", "--raw", run]).run().await?;
    ensure!(
        !past.status.success() && past.stderr.contains("FL-5109"),
        "a shell by the kubelet's own server passes: {past:?}"
    );
    let forward = kubectl.clone().args(["logs", &pod]).run().await?;
    ensure!(
        forward.status.success(),
        "other requests are not concerned: {forward:?}"
    );

    let dir = hub.dir().join("data/audit/recordings");
    let listed = [
        "recording",
        "list",
        dir.to_str().context("path")?,
        "-o",
        "name",
    ];
    let names = hub.cli(listed).await?.success()?;
    let names: Vec<&str> = names.lines().collect();
    ensure!(names.len() == 2, "{names:?}");
    let key = folder.path().join("key.txt");
    fs::write(&key, BACKUP_IDENTITY)?;
    for name in names {
        plays_as_seen(&hub, &dir.join(name), &key).await?;
    }
    Ok(())
}

async fn plays_as_seen(hub: &Hub, file: &Path, key: &Path) -> anyhow::Result<()> {
    let words = [file, Path::new("--identity"), key];
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let play = ["recording", "play"]
        .map(str::to_owned)
        .into_iter()
        .chain(words);
    let play: Vec<String> = play.collect();
    let played = eventually(STEP_DEADLINE, "the end of the recording", async || {
        let played = hub.cli(play.clone()).await.ok()?;
        played.status.success().then_some(played)
    })
    .await?;
    ensure!(played.text() == "seen-by-the-auditor\n", "{played:?}");
    Ok(())
}
