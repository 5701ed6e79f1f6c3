//! Servers that a hub uses: its Git servers, its Vault, and the issuers of its callers. The checks change nothing there.

use std::path::Path;

use fairlead_api::{Code, Failure, checkup::CheckSection};
use fairlead_control::issuers::Issuers;
use tokio::time::Instant;

use crate::hub::settings::Settings;

const CHECK_ISSUER: &str = "Check the URL, `ca_file` and the token file of this table in the file of `--issuers`, and the network from the hub to the issuer.";

/// Checks all servers that the settings name.
pub(super) async fn check(settings: &Settings) -> Vec<CheckSection> {
    let mut sections = Vec::new();
    if let Some(path) = &settings.git_servers {
        sections.extend(git_servers(path).await);
    }
    if let Some(path) = &settings.vault {
        sections.push(vault(path).await);
    }
    if let Some(path) = &settings.issuers {
        sections.extend(issuers(path).await);
    }
    sections
}

async fn git_servers(path: &Path) -> Vec<CheckSection> {
    let servers = match fairlead_git_servers::open_each(path) {
        Ok(servers) => servers,
        Err(failure) => return vec![section("Git servers", "settings", Err(failure))],
    };
    let mut sections = Vec::new();
    for server in servers {
        let since = Instant::now();
        let checked = server.check().await;
        let checked = checked.map_err(|cause| Failure::because(Code::GitServerUnusable, cause));
        let mut section = CheckSection::new(format!("Git server {}", server.title()));
        section.add("git-server", since.elapsed(), checked);
        sections.push(section);
    }
    sections
}

async fn vault(path: &Path) -> CheckSection {
    let vault = match fairlead_vault::open(path) {
        Ok(vault) => vault,
        Err(failure) => return section("Vault", "settings", Err(failure)),
    };
    let since = Instant::now();
    let checked = vault.check().await.map_err(|error| error.failure());
    let mut section = CheckSection::new(format!("Vault {}", vault.address()));
    section.add("vault", since.elapsed(), checked);
    section
}

async fn issuers(path: &Path) -> Vec<CheckSection> {
    let issuers = match Issuers::open(path) {
        Ok(issuers) => issuers,
        Err(failure) => return vec![section("issuers", "settings", Err(failure))],
    };
    let mut sections = Vec::new();
    for (url, outcome) in issuers.check().await {
        let outcome =
            outcome.map_err(|cause| Failure::because(Code::IssuerDown, cause).next(CHECK_ISSUER));
        sections.push(section(&format!("issuer {url}"), "issuer", outcome));
    }
    sections
}

fn section(subject: &str, stage: &'static str, outcome: Result<String, Failure>) -> CheckSection {
    let mut section = CheckSection::new(subject);
    section.add(stage, std::time::Duration::ZERO, outcome);
    section
}
