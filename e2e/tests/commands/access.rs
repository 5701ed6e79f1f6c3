//! Access to hubs and clusters: kubeconfigs of several hubs, and logins.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, eventually};
use serde_json::Value;

use crate::{STEP_DEADLINE, file};

/// A hub where one display name is the id of another cluster, and two clusters have one name.
async fn confusing_hub() -> anyhow::Result<Hub> {
    let hub = Hub::start().await?;
    for (name, id) in [
        ("a", "c-one"),
        ("a", "c-two"),
        ("c-one", "c-three"),
        ("demo", "c-demo"),
    ] {
        let create = [
            "cluster",
            "create",
            name,
            "--id",
            id,
            "--allow-duplicate-name",
        ];
        hub.cli(create).await?.success()?;
    }
    Ok(hub)
}

fn texts<'a>(list: &'a Value, pointer: &'a str) -> impl Iterator<Item = &'a str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(move |it| it.pointer(pointer)?.as_str())
}

/// Checks that each context leads to the hub of its token.
fn leads_each_token_home(view: &Value, hubs: [&Hub; 2]) -> anyhow::Result<()> {
    let names: Vec<_> = texts(&view["contexts"], "/name").collect();
    let unique: BTreeSet<_> = names.iter().collect();
    ensure!(names.len() == 8 && unique.len() == 8, "{names:?}");
    let entry = |list: &str, name: &Value| -> anyhow::Result<Value> {
        let items = view[list].as_array().into_iter().flatten();
        let named: Vec<_> = items.filter(|it| it["name"] == *name).collect();
        ensure!(named.len() == 1, "{list} {name}: {named:?}");
        Ok(named[0].clone())
    };
    for context in view["contexts"].as_array().context("no contexts")? {
        let cluster = entry("clusters", &context["context"]["cluster"])?;
        let user = entry("users", &context["context"]["user"])?;
        let server = cluster["cluster"]["server"].as_str().context("no server")?;
        let hub = hubs.into_iter().find(|hub| hub.ready().url == server);
        let token = hub.context("another server")?.token()?;
        ensure!(
            user["user"]["token"] == token.as_str(),
            "{context} of {server}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn kubeconfigs_of_two_hubs_join_without_a_collision() -> anyhow::Result<()> {
    let (cluster, a, b) =
        tokio::try_join!(Cluster::start_lite(), confusing_hub(), confusing_hub())?;
    let files = [
        b.kubeconfig("b.yaml", &[]).await?,
        a.kubeconfig("a.yaml", &[]).await?,
    ];
    let view = async |kubectl: fairlead_e2e::Kubectl| -> anyhow::Result<Value> {
        let view = kubectl
            .args(["config", "view", "--raw", "-o", "json"])
            .run();
        Ok(serde_json::from_str(&view.await?.success()?)?)
    };
    let joined = view(cluster.kubectl().joined(&files)).await?;
    leads_each_token_home(&joined, [&a, &b])?;
    ensure!(joined["current-context"] == "", "{joined}");

    // The same in one file, added to its contents.
    let both = file(
        &a,
        "both",
        "kind: Config\nusers:\n- name: own\n  user: {token: own}\n",
    )?;
    for hub in [&a, &b] {
        hub.cli(["kubeconfig", "--merge", "--output", &both])
            .await?
            .success()?;
    }
    let merged = view(cluster.kubectl().kubeconfig(&both)).await?;
    leads_each_token_home(&merged, [&a, &b])?;
    ensure!(
        texts(&merged["users"], "/name").any(|name| name == "own"),
        "{merged}"
    );
    ensure!(fs::metadata(&both)?.mode() & 0o777 == 0o600);
    ensure!(fs::metadata(format!("{both}.fairlead-backup"))?.mode() & 0o777 == 0o600);

    // One cluster has the same name in every form of the command.
    let one = b.kubeconfig("one.yaml", &["--cluster", "c-two"]).await?;
    let one = view(cluster.kubectl().kubeconfig(one)).await?;
    let name = &one["contexts"][0]["name"];
    ensure!(
        *name == one["current-context"] && *name == b.context("c-two"),
        "{one}"
    );
    // The hub writes its own file a while after a change.
    let kept = b.ready().kubeconfig.clone().context("no kubeconfig")?;
    eventually(STEP_DEADLINE, "the cluster in the hub's file", async || {
        let kept = view(cluster.kubectl().kubeconfig(&kept)).await.ok()?;
        let mut names = texts(&kept["contexts"], "/name");
        names.any(|it| it == b.context("c-two")).then_some(())
    })
    .await?;
    ensure!(
        texts(&joined["contexts"], "/name").any(|it| it == b.context("demo")),
        "{joined}"
    );
    Ok(())
}

#[tokio::test]
async fn login_asks_on_the_terminal_and_shows_nothing_of_the_token() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let (url, token) = (hub.ready().url.clone(), hub.token()?);
    let mut terminal = hub.terminal(&["login", &url], 120)?;
    eventually(STEP_DEADLINE, "the question", async || {
        terminal.screen().contains("Token for ").then_some(())
    })
    .await?;
    terminal.write(&format!("{token}\r"))?;
    let ended = terminal.wait(STEP_DEADLINE).await?;
    let screen = terminal.screen();
    ensure!(ended.success() && screen.contains("as admin"), "{screen}");
    ensure!(!screen.contains(&token), "{screen}");

    let mut interrupted = hub.terminal(&["login", &url], 120)?;
    eventually(STEP_DEADLINE, "the question", async || {
        interrupted.screen().contains("Token for ").then_some(())
    })
    .await?;
    interrupted.write("\x03")?;
    ensure!(interrupted.wait(STEP_DEADLINE).await?.code() == Some(1));

    let list = hub.cli(["hub", "list"]).await?.success()?;
    ensure!(list.contains(&format!("*        {url}")), "{list}");
    hub.cli(["logout"]).await?.success()?;
    let out = hub.cli(["whoami"]).await?;
    ensure!(out.status.code() == Some(3), "{out:?}");
    Ok(())
}
