//! A Git repository whose pushes reach a cluster.

use std::{path::Path, process::Stdio};

use anyhow::ensure;
use fairlead_testkit::git_server::GitServer;
use tokio::process::Command;

use crate::{
    OPTIONS,
    world::{ROLLOUT_DEADLINE, World, write_files},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_reaches_a_cluster_and_a_lost_repository_removes_nothing() -> anyhow::Result<()> {
    let world = World::start(1).await?;
    let member = &world.members[0];
    let home = tempfile::tempdir()?;
    let server = GitServer::start(home.path().join("served")).await;
    let bare = server.repository();
    let clone = home.path().join("clone");
    git(
        home.path(),
        &[
            "init",
            "--bare",
            "--initial-branch=main",
            &bare.display().to_string(),
        ],
    )
    .await?;
    git(
        home.path(),
        &["clone", &bare.display().to_string(), "clone"],
    )
    .await?;
    let push = async |color: &str, message: &str| {
        let web = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{color: {color}}}\n"
        );
        write_files(
            &clone.join("shop"),
            &[("web.yaml", &web), ("fairlead.yaml", OPTIONS)],
        )?;
        git(&clone, &["checkout", "-B", "main"]).await?;
        git(&clone, &["add", "."]).await?;
        git(&clone, &["commit", "-m", message]).await?;
        git(&clone, &["push", "--force", "origin", "main"]).await
    };
    push("blue", "first").await?;
    let url = server.url();
    let add = [
        "source", "add", "platform", "--git", &url, "--ref", "main", "--path", "shop",
    ];
    world
        .run(&[&add[..], &["--tenant", "t-default"]].concat())
        .await?
        .success()?;
    member.until_field("cm/web", ".data.color", "blue").await?;

    push("red", "second").await?;
    world
        .run(&["source", "sync", "platform"])
        .await?
        .success()?;
    member.until_field("cm/web", ".data.color", "red").await?;

    // A force-push to an older state is a new generation with its content.
    git(&clone, &["reset", "--hard", "HEAD~1"]).await?;
    git(&clone, &["push", "--force", "origin", "main"]).await?;
    world
        .run(&["source", "sync", "platform"])
        .await?
        .success()?;
    member.until_field("cm/web", ".data.color", "blue").await?;

    // Host down, then branch deleted: a sentence each, and the objects stay.
    for step in ["down", "branch"] {
        let expected = if step == "down" {
            server.refuse(503);
            "FL-6601"
        } else {
            server.refuse(0);
            git(&bare, &["update-ref", "-d", "refs/heads/main"]).await?;
            "FL-6604"
        };
        world
            .run(&["source", "sync", "platform"])
            .await?
            .success()?;
        let mut last = serde_json::Value::Null;
        let refused = fairlead_e2e::eventually(ROLLOUT_DEADLINE, step, async || {
            last = world.json(&["source", "get", "platform"]).await.ok()?;
            last.to_string().contains(expected).then_some(())
        })
        .await;
        ensure!(refused.is_ok(), "{step}: {last}");
        ensure!(member.field("cm/web", ".data.color").await? == "blue");
    }
    Ok(())
}

async fn git(folder: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git")
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"])
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(output.status.success(), "git {args:?}: {output:?}");
    Ok(())
}
