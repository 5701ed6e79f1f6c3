//! A real Gitea as the Git server: webhooks, and each way to lose content.

use anyhow::{Context, ensure};
use fairlead_e2e::{eventually, gitea::Gitea};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    git::WorkingCopy,
    world::{ROLLOUT_DEADLINE, World},
};

const REPOSITORY: &str = "platform";
const SOURCE: &str = "s-platform";
const BUNDLE: &str = "b-shop";
const SECRET: &str = "only-gitea-knows-it";

/// Gitea, a clone of its repository, and a world with its source.
struct Platform {
    world: World,
    gitea: Gitea,
    copy: WorkingCopy,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Gitea, which takes minutes to build: `make gitea`"]
async fn pushes_to_gitea_reach_a_cluster_and_nothing_lost_removes_objects() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let gitea = Gitea::start(&home.path().join("gitea"))?;
    gitea.create_repository(REPOSITORY).await?;
    let copy = WorkingCopy::of(home.path(), &gitea.push_url(REPOSITORY)).await?;
    copy.push("blue").await?;

    let credentials = home.path().join("credentials");
    std::fs::create_dir_all(credentials.join("t-default"))?;
    std::fs::write(
        credentials.join(format!("t-default/{SOURCE}.webhook")),
        SECRET,
    )?;
    let folder = credentials.display().to_string();
    let world = World::start_with(1, &["--delivery-credentials", &folder]).await?;
    let url = gitea.url(REPOSITORY);
    let add = [
        "source", "add", SOURCE, "--git", &url, "--ref", "main", "--path", "shop",
    ];
    let add = [&add[..], &["--tenant", "t-default"]].concat();
    world.run(&add).await?.success()?;
    let hook = format!("{}/hooks/v1/sources/{SOURCE}", world.hub.ready().url);
    gitea.add_webhook(REPOSITORY, &hook, SECRET).await?;
    let mut platform = Platform { world, gitea, copy };
    platform.until_applied(1, "blue").await?;
    platform.follow_webhooks().await?;
    platform.lose_the_folder().await?;
    platform.lose_the_branch().await?;
    platform.lose_the_host().await
}

impl Platform {
    /// Pushes reach the cluster by the webhook, long before the next poll; a force-push is one more generation.
    async fn follow_webhooks(&self) -> anyhow::Result<()> {
        for (number, color) in ["red", "green", "white"].into_iter().enumerate() {
            self.copy.push(color).await?;
            let pushed = Instant::now();
            self.until_applied(number as u64 + 2, color).await?;
            let took = pushed.elapsed().as_millis();
            eprintln!("webhook to Ready: {took} ms after the push");
        }
        self.copy.git(&["reset", "--hard", "HEAD~2"]).await?;
        let force = ["push", "--force", "origin", "main"];
        self.copy.git(&force).await?;
        let pushed = Instant::now();
        self.until_applied(5, "red").await?;
        let took = pushed.elapsed().as_millis();
        eprintln!("force-push to Ready: {took} ms");
        let called = eventually(ROLLOUT_DEADLINE, "four calls", async || {
            let log = self.world.hub.process.log().ok()?;
            let calls = log.matches("webhook of a source called").count();
            (calls >= 4).then_some(())
        });
        let called = called.await;
        called.with_context(|| self.world.hub.process.log().unwrap_or_default())
    }

    async fn lose_the_folder(&self) -> anyhow::Result<()> {
        self.copy.git(&["rm", "-r", "-q", "shop"]).await?;
        self.copy.git(&["commit", "-m", "no shop"]).await?;
        self.copy.git(&["push", "origin", "main"]).await?;
        let mut last = Value::Null;
        let orphaned = eventually(ROLLOUT_DEADLINE, "an orphaned bundle", async || {
            last = self.world.json(&["bundle", "get", BUNDLE]).await.ok()?;
            (last["orphaned"] == true).then_some(())
        });
        orphaned.await.with_context(|| last.to_string())?;
        self.stays("red").await?;
        self.copy.push("blue").await?;
        self.until_applied(6, "blue").await
    }

    async fn lose_the_branch(&self) -> anyhow::Result<()> {
        let delete = ["push", "origin", "--delete", "main"];
        self.copy.git(&delete).await?;
        self.refused(
            "FL-6604: the repository has no such branch, tag or commit: ",
            "blue",
        )
        .await?;
        self.copy.push("red").await?;
        self.until_applied(7, "red").await
    }

    async fn lose_the_host(&mut self) -> anyhow::Result<()> {
        self.gitea.stop();
        self.refused("FL-6601: ", "red").await?;
        self.gitea.resume()?;
        self.copy.push("green").await?;
        self.until_applied(8, "green").await?;
        let healed = |it: &Value| it["reason"].is_null();
        self.world.until_source(SOURCE, healed).await?;
        Ok(())
    }

    /// The next poll fails with this reason, and the objects stay.
    async fn refused(&self, expected: &str, color: &str) -> anyhow::Result<()> {
        let sync = ["source", "sync", SOURCE];
        self.world.run(&sync).await?.success()?;
        let is_refused = |it: &Value| {
            let reason = it["reason"].as_str();
            reason.is_some_and(|it| it.starts_with(expected))
        };
        let source = self.world.until_source(SOURCE, is_refused).await?;
        eprintln!("{}", source["reason"]);
        self.stays(color).await
    }

    async fn stays(&self, color: &str) -> anyhow::Result<()> {
        let found = self.world.members[0].field("cm/web", ".data.color").await?;
        ensure!(found == color, "{found}");
        Ok(())
    }

    /// Waits until the cluster is ready with this generation and this color.
    async fn until_applied(&self, generation: u64, color: &str) -> anyhow::Result<()> {
        let member = &self.world.members[0];
        let mut last = Value::Null;
        let applied = eventually(ROLLOUT_DEADLINE, "a generation", async || {
            let get = ["deployment", "get", &member.id, BUNDLE];
            last = self.world.json(&get).await.ok()?;
            let is_new = last["generation"]["applied"] == generation;
            (is_new && last["state"] == "Ready").then_some(())
        });
        applied
            .await
            .with_context(|| format!("generation {generation}: {last}"))?;
        self.stays(color).await
    }
}
