//! A Git repository whose pushes reach a cluster.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::ensure;
use fairlead_testkit::git_server::GitServer;
use tokio::process::Command;

use crate::{
    OPTIONS,
    world::{World, write_files},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_reaches_a_cluster_and_a_lost_repository_removes_nothing() -> anyhow::Result<()> {
    let world = World::start(1).await?;
    let member = &world.members[0];
    let home = tempfile::tempdir()?;
    let server = GitServer::start(home.path().join("served")).await;
    let bare = server.repository();
    let copy = WorkingCopy::of_new(home.path(), &bare).await?;
    copy.push("blue").await?;
    let url = server.url();
    let add = [
        "source", "add", "platform", "--git", &url, "--ref", "main", "--path", "shop",
    ];
    world
        .run(&[&add[..], &["--tenant", "t-default"]].concat())
        .await?
        .success()?;
    member.until_field("cm/web", ".data.color", "blue").await?;

    copy.push("red").await?;
    world
        .run(&["source", "sync", "platform"])
        .await?
        .success()?;
    member.until_field("cm/web", ".data.color", "red").await?;

    // A force-push to an older state is a new generation with its content.
    copy.git(&["reset", "--hard", "HEAD~1"]).await?;
    copy.git(&["push", "--force", "origin", "main"]).await?;
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
        let refused = world.until_source("platform", |it| it.to_string().contains(expected));
        refused.await?;
        ensure!(member.field("cm/web", ".data.color").await? == "blue");
    }
    Ok(())
}

/// A clone of a repository whose folder `shop` is a bundle.
pub(crate) struct WorkingCopy {
    folder: PathBuf,
}

impl WorkingCopy {
    /// Makes an empty bare repository, and clones it into `home`.
    pub(crate) async fn of_new(home: &Path, bare: &Path) -> anyhow::Result<Self> {
        let bare = bare.display().to_string();
        git(home, &["init", "--bare", "--initial-branch=main", &bare]).await?;
        WorkingCopy::of(home, &bare).await
    }

    /// Clones a repository into `home`.
    pub(crate) async fn of(home: &Path, url: &str) -> anyhow::Result<Self> {
        git(home, &["clone", url, "clone"]).await?;
        let folder = home.join("clone");
        Ok(WorkingCopy { folder })
    }

    /// Pushes a commit with a ConfigMap of this color.
    pub(crate) async fn push(&self, color: &str) -> anyhow::Result<()> {
        let web = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{color: {color}}}\n"
        );
        write_files(
            &self.folder.join("shop"),
            &[("web.yaml", &web), ("fairlead.yaml", OPTIONS)],
        )?;
        self.git(&["checkout", "-B", "main"]).await?;
        self.git(&["add", "."]).await?;
        self.git(&["commit", "-m", color]).await?;
        self.git(&["push", "--force", "origin", "main"]).await
    }

    pub(crate) async fn git(&self, args: &[&str]) -> anyhow::Result<()> {
        git(&self.folder, args).await
    }
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
