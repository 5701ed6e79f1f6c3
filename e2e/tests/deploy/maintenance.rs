//! Merge requests of Renovate in the repositories of a tenant, on a real Gitea: listed, and merged as
//! asked, and nothing else.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

use anyhow::{Context, ensure};
use fairlead_e2e::{eventually, gitea::Gitea};
use serde_json::{Value, json};

use crate::world::{ROLLOUT_DEADLINE, World};

/// Repositories, each with its owner.
const REPOSITORIES: [(&str, &str); 3] = [("config", "t-acme"), ("one", "c-one"), ("two", "c-two")];
const REQUESTS_PER_REPOSITORY: usize = 10;
/// Numbers of the requests with a failed CI, in their repository.
const RED: [(&str, &[usize]); 3] = [("config", &[0, 1]), ("one", &[2]), ("two", &[3, 4])];
/// Numbers of the requests with conflicts.
const CONFLICTS: [usize; 2] = [8, 9];

fn is_red(repository: &str, number: usize) -> bool {
    RED.iter()
        .any(|(name, numbers)| *name == repository && numbers.contains(&number))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Gitea, which takes minutes to build: `make gitea`"]
async fn thirty_merge_requests_are_listed_and_merged_as_asked() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let gitea = Gitea::start(&home.path().join("gitea"))?;
    let token = gitea.create_token().await?;
    let world = start_hub(&gitea, home.path(), &token).await?;
    for (repository, _) in REPOSITORIES {
        fill(&gitea, repository).await?;
    }
    // Of a person: neither listed nor merged.
    let other = propose(&gitea, "one", "fix/typo", "typo.yml").await?;
    report(&gitea, "one", &other, "success").await?;

    let items = until_checked(&world).await?;
    let red: Vec<&str> = ids(&items, |it| it["ci"] == "failed");
    let list = [
        "maintenance",
        "list",
        "--tenant",
        "t-acme",
        "--ci",
        "failed",
        "-o",
        "name",
    ];
    let listed = world.run(&list).await?.success()?;
    ensure!(listed.lines().collect::<Vec<_>>() == red, "{listed}");

    let conflicts: Vec<&str> = ids(&items, |it| it["merge"] == "blocked");
    for (id, reason) in [(red[0], "has a failed CI"), (conflicts[0], "has conflicts")] {
        let merge = ["maintenance", "merge", id, "--tenant", "t-acme", "--yes"];
        let refused = world.run(&merge).await?;
        ensure!(!refused.status.success(), "{id} was merged");
        ensure!(refused.text().contains(reason), "{}", refused.text());
    }
    let all = ["maintenance", "merge", "--all", "--tenant", "t-acme"];
    let dry = world
        .run(&[&all[..], &["--dry-run"]].concat())
        .await?
        .success()?;
    ensure!(dry.matches("would merge ").count() == 23, "{dry}");
    ensure!(open(&gitea).await? == 31, "a dry run has merged something");

    let merged = world
        .run(&[&all[..], &["--yes"]].concat())
        .await?
        .success()?;
    eprintln!("{merged}");
    ensure!(
        merged.contains("23 merged, 0 refused, 0 not tried"),
        "{merged}"
    );
    ensure!(
        open(&gitea).await? == 8,
        "5 red ones, 2 with conflicts, 1 of a person"
    );
    let log = world.hub.process.log()?;
    ensure!(!log.contains(&token), "the token is in the log");
    Ok(())
}

async fn start_hub(gitea: &Gitea, home: &std::path::Path, token: &str) -> anyhow::Result<World> {
    let token_file = home.join("token");
    fs::write(&token_file, token)?;
    fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600))?;
    let settings = home.join("git.toml");
    let text = format!(
        "[[server]]\nname = \"git.example\"\nendpoint = \"{}\"\ntoken_file = \"{}\"\nssh_host = \"git.example\"\ncreate_groups = true\n",
        gitea.endpoint(),
        token_file.display()
    );
    fs::write(&settings, text)?;
    let world = World::alone(&["--git-servers", &settings.display().to_string()]).await?;
    let tenant = home.join("tenant.yaml");
    let url = |name: &str| format!("ssh://git@git.example/acme/{name}.git");
    let document = json!({ "id": "t-acme", "gitRepo": { "type": "auto", "url": url("config") } });
    fs::write(&tenant, document.to_string())?;
    let tenant = tenant.display().to_string();
    let apply = ["tenant", "apply", "-f", &tenant, "--yes"];
    world.run(&apply).await?.success()?;
    for (name, id) in REPOSITORIES
        .into_iter()
        .filter(|(_, id)| id.starts_with("c-"))
    {
        let create = ["cluster", "create", name, "--tenant", "t-acme", "--id", id];
        world.run(&create).await?.success()?;
        let set = ["cluster", "set", id, "--git-repo", &url(name), "--yes"];
        world.run(&set).await?.success()?;
    }
    // The hub has written its files by then, so it does not write at the same time as the test.
    for path in [
        "config/contents/c-one.yml",
        "config/contents/c-two.yml",
        "one",
        "two",
    ] {
        eventually(ROLLOUT_DEADLINE, path, async || {
            let path = format!("/repos/acme/{path}");
            gitea.call("GET", &path, &Value::Null).await.ok()
        })
        .await?;
    }
    Ok(world)
}

/// Opens ten requests; those with conflicts change a file that the default branch has changed since.
async fn fill(gitea: &Gitea, repository: &str) -> anyhow::Result<()> {
    let has_conflicts = repository == "one";
    let base = write(gitea, repository, "shared.yml", "a: 1\n", None, None).await?;
    for number in 0..REQUESTS_PER_REPOSITORY {
        let branch = format!("renovate/dep-{number}");
        let head = match has_conflicts && CONFLICTS.contains(&number) {
            true => {
                let text = format!("a: {number}0\n");
                write(
                    gitea,
                    repository,
                    "shared.yml",
                    &text,
                    Some(&base),
                    Some(&branch),
                )
                .await?;
                pull(gitea, repository, &branch).await?
            }
            false => propose(gitea, repository, &branch, &format!("dep-{number}.yml")).await?,
        };
        let state = if is_red(repository, number) {
            "failure"
        } else {
            "success"
        };
        report(gitea, repository, &head, state).await?;
    }
    if has_conflicts {
        write(gitea, repository, "shared.yml", "a: 2\n", Some(&base), None).await?;
    }
    Ok(())
}

/// Opens a request with a new file; returns its last commit.
async fn propose(
    gitea: &Gitea,
    repository: &str,
    branch: &str,
    file: &str,
) -> anyhow::Result<String> {
    write(gitea, repository, file, "a: 1\n", None, Some(branch)).await?;
    pull(gitea, repository, branch).await
}

/// Writes a file, on a new branch if one is given; returns the id of its content.
async fn write(
    gitea: &Gitea,
    repository: &str,
    file: &str,
    text: &str,
    replaced: Option<&str>,
    branch: Option<&str>,
) -> anyhow::Result<String> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let mut body = json!({ "content": STANDARD.encode(text), "message": file });
    if let Some(branch) = branch {
        body["new_branch"] = branch.into();
    }
    let method = match replaced {
        Some(id) => {
            body["sha"] = id.into();
            "PUT"
        }
        None => "POST",
    };
    let path = format!("/repos/acme/{repository}/contents/{file}");
    let made = gitea.call(method, &path, &body).await?;
    let id = made["content"]["sha"].as_str().context("no content")?;
    Ok(id.to_owned())
}

async fn pull(gitea: &Gitea, repository: &str, branch: &str) -> anyhow::Result<String> {
    let at = format!("/repos/acme/{repository}");
    let found = gitea.call("GET", &at, &Value::Null).await?;
    let body = json!({ "head": branch, "base": found["default_branch"], "title": branch });
    let made = gitea.call("POST", &format!("{at}/pulls"), &body).await?;
    let head = made["head"]["sha"].as_str().context("no commit")?;
    Ok(head.to_owned())
}

/// Reports the result of a CI.
async fn report(gitea: &Gitea, repository: &str, head: &str, state: &str) -> anyhow::Result<()> {
    let body = json!({ "state": state, "context": "ci" });
    let path = format!("/repos/acme/{repository}/statuses/{head}");
    gitea.call("POST", &path, &body).await.map(drop)
}

/// Waits until Gitea has checked all requests for conflicts.
async fn until_checked(world: &World) -> anyhow::Result<Vec<Value>> {
    let mut last = BTreeMap::new();
    let list = ["maintenance", "list", "--tenant", "t-acme"];
    let checked = eventually(ROLLOUT_DEADLINE, "checked merge requests", async || {
        let list = world.json(&list).await.ok()?;
        let items = list["items"].as_array()?.clone();
        last.clear();
        for item in &items {
            let state = format!("{} {}", item["ci"], item["merge"]);
            *last.entry(state).or_insert(0) += 1;
        }
        let count = |ci: &str, merge: &str| {
            last.get(&format!("\"{ci}\" \"{merge}\""))
                .copied()
                .unwrap_or(0)
        };
        let is_complete = items.len() == 30
            && count("passed", "clean") == 23
            && count("failed", "clean") == 5
            && count("passed", "blocked") == 2;
        is_complete.then_some(items)
    });
    checked.await.with_context(|| format!("{last:?}"))
}

fn ids(items: &[Value], matches: impl Fn(&Value) -> bool) -> Vec<&str> {
    let matching = items.iter().filter(|it| matches(it));
    matching.filter_map(|it| it["id"].as_str()).collect()
}

/// Open requests in all repositories.
async fn open(gitea: &Gitea) -> anyhow::Result<usize> {
    let mut count = 0;
    for (repository, _) in REPOSITORIES {
        let path = format!("/repos/acme/{repository}/pulls?state=open&limit=50");
        let found = gitea.call("GET", &path, &Value::Null).await?;
        count += found.as_array().map_or(0, Vec::len);
    }
    Ok(count)
}
