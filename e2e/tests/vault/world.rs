//! A Vault with the token of the hub as docs/vault.md describes it, and the settings of the hub.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use fairlead_e2e::vault::Vault;
use tempfile::TempDir;

pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct VaultWorld {
    pub(crate) vault: Vault,
    pub(crate) home: TempDir,
    pub(crate) token: String,
}

impl VaultWorld {
    /// Starts a Vault, with the documented policies of the hub's token.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let vault = Vault::start(home.path()).await?;
        let token = vault.create_token("hub", &documented_policy()?).await?;
        let world = VaultWorld { vault, home, token };
        world.write_token(&world.token)?;
        Ok(world)
    }

    pub(crate) fn write_token(&self, token: &str) -> anyhow::Result<()> {
        let path = self.home.path().join("token");
        fs::write(&path, token)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(())
    }

    /// Writes the settings of a hub, with further lines.
    pub(crate) fn settings(&self, more: &str) -> anyhow::Result<PathBuf> {
        let token = self.home.path().join("token");
        self.settings_by(&format!("token_file = \"{}\"\n{more}", token.display()))
    }

    /// Writes the settings of a hub with these lines, which have its login.
    pub(crate) fn settings_by(&self, lines: &str) -> anyhow::Result<PathBuf> {
        let path = self.home.path().join("vault.toml");
        let text = format!(
            "address = \"{}\"\nservice_accounts = [\"syn/secrets\"]\n{lines}",
            self.vault.url()
        );
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Writes a file that only its owner reads; returns its path.
    pub(crate) fn private(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.home.path().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path.display().to_string())
    }
}

/// All policies of docs/vault.md.
fn documented_policy() -> anyhow::Result<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vault.md");
    let page = fs::read_to_string(page)?;
    let blocks = page.split("```hcl\n").skip(1);
    let blocks: Option<Vec<&str>> = blocks.map(|it| Some(it.split_once("```")?.0)).collect();
    let text = blocks.context("a block has no end")?.concat();
    Some(text)
        .filter(|it| !it.is_empty())
        .context("docs/vault.md has no policy")
}
