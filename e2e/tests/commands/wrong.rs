//! Errors for a user with the wrong hub, the wrong CA or no token.

use std::path::Path;

use anyhow::ensure;
use fairlead_e2e::{Hub, Output, fleet::fairlead};

/// Runs `fairlead cluster list`, configured only by the environment.
async fn list(home: &Path, env: &[(&str, &str)]) -> anyhow::Result<Output> {
    let words = ["cluster", "list"].map(str::to_owned);
    fairlead(home, &words, env).await
}

fn is_failure(said: &Output, exit: i32, code: &str, words: &[&str]) -> anyhow::Result<()> {
    ensure!(
        said.status.code() == Some(exit)
            && said.stderr.ends_with(&format!("code:  {code}\n"))
            && words.iter().all(|it| said.stderr.contains(it))
            && !said.stderr.contains("Error"),
        "{code}: {said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn errors_on_the_path_to_a_hub_have_cause_and_next_step() -> anyhow::Result<()> {
    let (hub, home) = (Hub::start().await?, tempfile::tempdir()?);
    let (url, token) = (hub.ready().url.as_str(), hub.token()?);
    let ca = hub.ready().ca_file.display().to_string();
    let way = [
        ("FAIRLEAD_URL", url),
        ("FAIRLEAD_TOKEN", token.as_str()),
        ("FAIRLEAD_CA_FILE", &ca),
    ];
    list(home.path(), &way).await?.success()?;

    let said = list(home.path(), &way[..1]).await?;
    is_failure(
        &said,
        3,
        "FL-4106",
        &["no token for", url, "FAIRLEAD_TOKEN"],
    )?;
    let said = list(home.path(), &way[..2]).await?;
    let words = ["certificate is not trusted", url, "FAIRLEAD_CA_FILE"];
    is_failure(&said, 5, "FL-3105", &words)?;
    let plain = hub.ready().admin_url.replace("http:", "https:");
    let said = list(home.path(), &[("FAIRLEAD_URL", &plain), way[1], way[2]]).await?;
    is_failure(&said, 5, "FL-4105", &["does not speak TLS", &plain])?;
    let said = list(home.path(), &[way[0], ("FAIRLEAD_TOKEN", "a\nb"), way[2]]).await?;
    is_failure(&said, 2, "FL-4101", &["the token"])?;
    Ok(())
}

#[tokio::test]
async fn clusters_are_found_by_name_and_missing_ones_are_listed() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let id = hub.create_cluster("demo").await?.id;
    let log = ["audit", "--cluster", "demo", "-o", "name"];
    let log = hub.cli(log).await?.success()?;
    ensure!(log == format!("{id}\n"), "{log}");
    let list = ["cluster", "list", "--tenant", "default", "-o", "name"];
    let list = hub.cli(list).await?.success()?;
    ensure!(list == format!("{id}\n"), "{list}");
    let make = ["token", "create", "steward", "--role", "cluster"];
    let make = [
        &make[..],
        &["--cluster", "demo", "-o", "jsonpath={.cluster}"],
    ]
    .concat();
    let made = hub.cli(make).await?.success()?;
    ensure!(made.trim() == id, "{made}");
    hub.cli(["cluster", "delete", "demo", "--yes"])
        .await?
        .success()?;
    let log = [
        "audit",
        "--cluster",
        &id,
        "-o",
        "jsonpath={.items[*].operation}",
    ];
    let log = hub.cli(log).await?.success()?;
    ensure!(log.contains("deleted"), "{log}");
    let gone = hub.cli(["audit", "--cluster", "demo"]).await?;
    is_failure(&gone, 4, "FL-1301", &["\"demo\""])?;
    let gone = hub.cli(["token", "delete", "k-none", "--yes"]).await?;
    is_failure(
        &gone,
        4,
        "FL-4107",
        &["no token has the id or name \"k-none\""],
    )
}
