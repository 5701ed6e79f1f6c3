//! Requests of all kinds, generated from the hub's own description of its API along its links.
//!
//! Every answer must match the description. The hub runs on a file and on PostgreSQL, and once with
//! Lieutenant's description.

#![allow(
    clippy::large_futures,
    reason = "a test waits for one future at a time"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, PostgresServer, setting};
use tokio::process::Command;
use tokio::time::timeout;

const RIG: &str = env!("CARGO_MANIFEST_DIR");
const LIEUTENANTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../control/tests/lieutenant/data/openapi.yaml"
);
/// Address without a server: the port for discarding (RFC 863).
const AWAY: &str = "http://127.0.0.1:9";
/// Deadline for one hub; it takes some minutes.
const RUN_DEADLINE: Duration = Duration::from_secs(1800);

async fn built(script: &str, args: &[&str]) -> anyhow::Result<String> {
    let built = Command::new(format!("{RIG}/{script}/build"))
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .await?;
    ensure!(built.status.success(), "{script}: nothing to test with");
    Ok(String::from_utf8(built.stdout)?.trim_end().to_owned())
}

#[derive(Clone, Copy)]
enum ApiDocument {
    Ours,
    Lieutenants,
}

/// Runs Schemathesis. `FAIRLEAD_E2E_SEED` makes its requests repeatable.
async fn fuzz(hub: &Hub, document: ApiDocument, what: &[&str]) -> anyhow::Result<()> {
    let bin = built("clients", &["schemathesis"]).await?;
    let seed = setting("FAIRLEAD_E2E_SEED").unwrap_or_else(|| "1".to_owned());
    let mut command = Command::new(format!("{bin}/schemathesis"));
    let url = &hub.ready().url;
    let (config, at) = match document {
        ApiDocument::Ours => ("schemathesis.toml", format!("{url}/openapi.json")),
        ApiDocument::Lieutenants => ("lieutenant.toml", LIEUTENANTS.to_owned()),
    };
    let hooks = matches!(document, ApiDocument::Lieutenants).then(|| {
        [
            (
                "SCHEMATHESIS_HOOKS",
                format!("{RIG}/clients/lieutenant_hooks.py"),
            ),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ]
    });
    let hooks = hooks.into_iter().flatten();
    command
        .arg("--config-file")
        .arg(format!("{RIG}/clients/{config}"))
        .args(["run", &at, "--url", url])
        .args(["--seed", &seed, "--no-shrink"])
        .args(["--continue-on-failure", "--output-truncate", "false"])
        .arg("--tls-verify")
        .arg(&hub.ready().ca_file)
        .args([
            "--header",
            &format!("Authorization: Bearer {}", hub.token()?),
        ])
        .args(what)
        .current_dir(hub.dir())
        .env_clear()
        .env("HOME", hub.dir())
        .env("PATH", setting("PATH").unwrap_or_default())
        .envs(hooks)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = timeout(RUN_DEADLINE, command.output()).await;
    let ended = ended.with_context(|| format!("it has not ended within {RUN_DEADLINE:?}"))??;
    let said = String::from_utf8_lossy(&ended.stdout);
    eprintln!("{said}");
    ensure!(ended.status.success(), "it has found something");
    let log = hub.process.log()?;
    ensure!(!log.contains("panicked"), "the hub has panicked");
    Ok(())
}

/// Tests everything. The retirement of the CA and the deletion of tokens come last: clients have to trust the new CA
/// then, and one of the tokens is that of the run.
async fn all(hub: &Hub) -> anyhow::Result<()> {
    let (retire, delete) = ("retireCa", "deleteToken");
    let most = [
        "--exclude-operation-id",
        retire,
        "--exclude-operation-id",
        delete,
    ];
    fuzz(hub, ApiDocument::Ours, &most).await?;
    let untrusted = ["--tls-verify", "false", "--include-operation-id"];
    let last = |operation| [&untrusted[..], &[operation]].concat();
    fuzz(hub, ApiDocument::Ours, &last(retire)).await?;
    fuzz(hub, ApiDocument::Ours, &last(delete)).await
}

/// Flags for a Git server, a Vault and adoptions, so that their routes do more than refuse. Nobody answers at the servers'
/// addresses.
fn with_servers(folder: &Path) -> anyhow::Result<Vec<String>> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        anyhow::Ok(path.display().to_string())
    };
    let token = file("token", "only-for-tests")?;
    let git = format!(
        "[[server]]\nname = \"git.example\"\nendpoint = \"{AWAY}\"\nprovider = \"gitlab\"\ntoken_file = \"{token}\"\nssh_host = \"127.0.0.1\"\n"
    );
    let vault = format!(
        "address = \"{AWAY}\"\ntoken_file = \"{token}\"\nservice_accounts = [\"syn/secrets\"]\n"
    );
    let (git, vault) = (file("git.toml", &git)?, file("vault.toml", &vault)?);
    let flags = ["--git-servers", &git, "--vault", &vault, "--adoption"];
    Ok(flags.map(str::to_owned).to_vec())
}

#[tokio::test]
async fn answers_of_a_hub_with_a_file_match_its_description() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    all(&Hub::start_server(&with_servers(folder.path())?).await?).await
}

#[tokio::test]
async fn answers_of_a_hub_with_postgresql_match_its_description() -> anyhow::Result<()> {
    let server = PostgresServer::start()?;
    let folder = tempfile::tempdir()?;
    let store = ["--store".to_owned(), server.url()];
    let flags = [&store[..], &with_servers(folder.path())?].concat();
    all(&Hub::start_server(&flags).await?).await
}

#[tokio::test]
async fn answers_match_lieutenants_description_except_listed_ones() -> anyhow::Result<()> {
    let hub = Hub::start_server::<&str>(&[]).await?;
    // Objects that its configuration names, so that not every answer is 404.
    hub.log_in().await?;
    hub.cli(["tenant", "create", "known"]).await?.success()?;
    let cluster = ["known", "--id", "c-known", "--tenant", "t-known"];
    hub.cli(["cluster", "create"].into_iter().chain(cluster))
        .await?
        .success()?;
    fuzz(&hub, ApiDocument::Lieutenants, &[]).await
}
