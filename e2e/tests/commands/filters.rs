//! Filters: one that cannot match is an error, and a wait for an impossible event ends.

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Launch};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::{FLEET, STEP_DEADLINE, apply, file};

#[tokio::test]
async fn filter_that_can_match_nothing_is_an_error_with_a_next_step() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    for (line, exit, code) in [
        ("cluster list --tenant nosuch", 4, "FL-4107"),
        ("tenant list --tenant nosuch", 4, "FL-4107"),
        ("token list --tenant nosuch", 4, "FL-4107"),
        ("cluster token list --tenant nosuch", 4, "FL-4107"),
        ("cluster compiled --tenant nosuch", 4, "FL-4107"),
        ("audit --tenant nosuch", 4, "FL-4107"),
        ("audit --cluster c-typo", 4, "FL-1301"),
        ("changes --tenant nosuch", 4, "FL-4107"),
        ("changes --id c-typo", 4, "FL-4107"),
        ("changes --id typo", 2, "FL-4109"),
        ("changes --kind foo", 2, "FL-4117"),
        ("cluster list -l env=(", 2, "FL-4109"),
        ("cluster list --fact =x", 2, "FL-4109"),
        ("facts c-edge --fact nosuch", 4, "FL-4107"),
        ("cluster agent set c-edge --facts-off nosuch", 2, "FL-4109"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = hub.cli(words).await?;
        ensure!(said.status.code() == Some(exit), "{line}: {said:?}");
        ensure!(
            said.stderr.ends_with(&format!("code:  {code}\n")),
            "{line}: {said:?}"
        );
        ensure!(
            said.stderr.contains("\nnext:  ") && said.stdout.is_empty(),
            "{line}: {said:?}"
        );
    }
    for line in [
        "cluster list --fact cloud=aws -o name",
        "cluster list --fact cloud:aws -o name",
        "cluster list --tenant acme -o name",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let found = hub.cli(words).await?.success()?;
        ensure!(found == "c-edge\n", "{line}: {found}");
    }
    // A deleted cluster is known to the log, so its name is no mistake.
    hub.cli(["cluster", "delete", "c-edge", "--yes"])
        .await?
        .success()?;
    hub.cli(["tenant", "delete", "t-acme", "--yes"])
        .await?
        .success()?;
    for line in [
        "audit --cluster c-edge -o name",
        "audit --tenant acme -o name",
        "changes --id c-edge -o name",
        "changes --tenant acme -o name",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let found = hub.cli(words).await?.success()?;
        ensure!(found.contains("c-edge"), "{line}: {found}");
    }
    Ok(())
}

#[tokio::test]
async fn facts_that_have_changed_since_are_asked_for_in_pages() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;
    let changed = ["facts", "--fact", "cloud", "--since", "7d", "-o", "name"];
    let changed = hub.cli(changed).await?.success()?;
    ensure!(changed == "c-edge\n", "{changed}");
    let history = [
        "facts",
        "c-edge",
        "--since",
        "7d",
        "-o",
        "jsonpath={.items[*].value}",
    ];
    let history = hub.cli(history).await?.success()?;
    ensure!(history.contains("aws"), "{history}");
    Ok(())
}

#[tokio::test]
async fn wait_ends_when_the_bootstrap_token_is_revoked() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let mut create = tokio::process::Command::new(Launch::fairlead()?.program())
        .args(["cluster", "create", "demo", "--wait"])
        .env_clear()
        .env("HOME", hub.dir())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut steps = BufReader::new(create.stderr.take().context("stderr")?).lines();
    let mut said = timeout(STEP_DEADLINE, steps.next_line())
        .await??
        .context("no step")?;
    ensure!(said == "waiting for the agent to enrol", "{said}");
    hub.cli(["cluster", "token", "revoke", "demo", "--yes"])
        .await?
        .success()?;
    while let Some(line) = timeout(STEP_DEADLINE, steps.next_line()).await?? {
        said += &format!("\n{line}");
    }
    let status = timeout(STEP_DEADLINE, create.wait()).await??;
    ensure!(status.code() == Some(5), "{said}");
    ensure!(
        said.contains("was revoked") && said.contains("fairlead cluster token renew c-"),
        "{said}"
    );
    ensure!(
        said.ends_with("code:  FL-4113") && !said.contains("enrolled"),
        "{said}"
    );
    Ok(())
}
