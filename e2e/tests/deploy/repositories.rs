//! Repositories of a tenant and its cluster on a real Gitea: from the records of the hub to the
//! server, and their end.

use std::{fs, os::unix::fs::PermissionsExt};

use anyhow::{Context, ensure};
use fairlead_e2e::{eventually, gitea::Gitea};
use serde_json::Value;

use crate::world::{ROLLOUT_DEADLINE, World};

const TENANT_REPO: &str = "ssh://git@git.example/acme/config.git";
const CATALOG_REPO: &str = "ssh://git@git.example/acme/catalog.git";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Gitea, which takes minutes to build: `make gitea`"]
async fn gitea_has_the_repositories_of_a_tenant_and_its_cluster() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let gitea = Gitea::start(&home.path().join("gitea"))?;
    let token_file = home.path().join("token");
    let token = gitea.create_token().await?;
    fs::write(&token_file, &token)?;
    fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600))?;
    let settings = home.path().join("git.toml");
    let text = format!(
        "[[server]]\nname = \"git.example\"\nendpoint = \"{}\"\ntoken_file = \"{}\"\nssh_host = \"git.example\"\ncreate_groups = true\n",
        gitea.endpoint(),
        token_file.display()
    );
    fs::write(&settings, text)?;
    let settings = settings.display().to_string();
    let world = World::alone(&["--git-servers", &settings]).await?;
    let tenant = home.path().join("tenant.yaml");
    fs::write(
        &tenant,
        format!("{{id: t-acme, gitRepo: {{type: auto, url: \"{TENANT_REPO}\"}}}}"),
    )?;
    let tenant = tenant.display().to_string();
    for command in [
        &["tenant", "apply", "-f", &tenant, "--yes"][..],
        &[
            "cluster", "create", "edge", "--tenant", "t-acme", "--id", "c-edge",
        ],
        &[
            "cluster",
            "set",
            "c-edge",
            "--git-repo",
            CATALOG_REPO,
            "--yes",
        ],
    ] {
        world.run(command).await?.success()?;
    }
    created(&world, &["cluster", "get", "c-edge"]).await?;
    created(&world, &["tenant", "get", "t-acme"]).await?;
    let catalog = gitea
        .call("GET", "/repos/acme/catalog", &Value::Null)
        .await?;
    ensure!(
        catalog["description"] == "edge (Fairlead: c-edge)",
        "{catalog}"
    );
    let files = "/repos/acme/config/contents/c-edge.yml";
    eventually(ROLLOUT_DEADLINE, "the cluster's file", async || {
        gitea.call("GET", files, &Value::Null).await.ok()
    })
    .await?;

    // The end of the cluster ends its file, and archives its repository.
    let delete = ["cluster", "delete", "c-edge", "--yes"];
    world.run(&delete).await?.success()?;
    eventually(ROLLOUT_DEADLINE, "an archived repository", async || {
        let catalog = gitea.call("GET", "/repos/acme/catalog", &Value::Null);
        (catalog.await.ok()?["archived"] == true).then_some(())
    })
    .await?;
    eventually(ROLLOUT_DEADLINE, "no file of the cluster", async || {
        let list = "/repos/acme/config/contents";
        let list = gitea.call("GET", list, &Value::Null).await.ok()?;
        let names: Vec<_> = list
            .as_array()?
            .iter()
            .map(|it| it["name"].clone())
            .collect();
        (names == ["common.yml"]).then_some(())
    })
    .await?;
    let log = world.hub.process.log()?;
    ensure!(!log.contains(&token), "the token is in the log");
    Ok(())
}

async fn created(world: &World, get: &[&str]) -> anyhow::Result<()> {
    let mut last = Value::Null;
    let created = eventually(ROLLOUT_DEADLINE, "a created repository", async || {
        last = world.json(get).await.ok()?;
        (last["gitRepo"]["state"]["phase"] == "created").then_some(())
    });
    created.await.with_context(|| last.to_string())
}
