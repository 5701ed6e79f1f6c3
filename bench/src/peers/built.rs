//! Paths of the peers' binaries: those of Fairlead from the command line, the others as `bench/peers/build`
//! prints them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, anyhow, ensure};
use tokio::process::Command;

use super::kind::Kind;

#[derive(Debug, Clone, Default)]
pub(crate) struct Built {
    folders: BTreeMap<String, Result<PathBuf, String>>,
    /// Descriptions of the programs that the user gave (`BENCH_PEERS`).
    given: BTreeMap<String, String>,
}

impl Built {
    /// Runs the script; its messages go to standard error. With a cold cache it takes minutes.
    pub(crate) async fn by(script: &Path) -> anyhow::Result<Self> {
        let output = Command::new(script)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("running {}", script.display()))?;
        ensure!(
            output.status.success(),
            "{} ended: {}",
            script.display(),
            output.status
        );
        Ok(Self::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Parses lines of `NAME FOLDER`, of `NAME - REASON` for a peer that could not be built, and of
    /// `NAME = DESCRIPTION` for programs that the user gave.
    fn parse(text: &str) -> Self {
        let mut built = Self::default();
        for (name, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            if let Some(description) = rest.strip_prefix("= ") {
                built.given.insert(name.to_owned(), description.to_owned());
                continue;
            }
            let found = match rest.strip_prefix("- ") {
                Some(why) => Err(why.to_owned()),
                None => Ok(PathBuf::from(rest)),
            };
            built.folders.insert(name.to_owned(), found);
        }
        built
    }

    /// Names and descriptions of programs that the user gave, of these peers.
    pub(crate) fn given(&self, kinds: &[Kind]) -> Vec<String> {
        let kinds = kinds.iter().map(|kind| kind.name());
        kinds
            .filter_map(|name| Some(format!("{name} ({})", self.given.get(name)?)))
            .collect()
    }

    /// Adds a binary of Fairlead.
    pub(crate) fn with_fairlead(mut self, kind: Kind, binary: PathBuf) -> Self {
        self.folders.insert(kind.name().to_owned(), Ok(binary));
        self
    }

    /// # Errors
    /// The command line names no such binary.
    pub(super) fn fairlead(&self, kind: Kind) -> anyhow::Result<PathBuf> {
        let binary = self
            .folders
            .get(kind.name())
            .and_then(|found| found.clone().ok());
        binary.with_context(|| match kind {
            Kind::FairleadBefore => "not here: --before names no binary",
            _ => "not here: --fairlead names no binary",
        })
    }

    /// `true` if the programs of this peer exist, or if it needs none.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        !kind.is_tunnel() || matches!(self.folders.get(kind.name()), Some(Ok(_)))
    }

    /// # Errors
    /// The reason why the peer could not be built.
    pub(crate) fn program(&self, peer: &str, program: &str) -> anyhow::Result<PathBuf> {
        match self.folders.get(peer) {
            Some(Ok(folder)) => Ok(folder.join(program)),
            Some(Err(why)) => Err(anyhow!("not here: {why}")),
            None => Err(anyhow!("not here: peers were not built")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_has_a_folder_or_a_reason() {
        let built = Built::parse("frp /c/frp-1\nwstunnel - no registry has it\n");
        let program = |peer| built.program(peer, "x").map_err(|error| error.to_string());
        assert_eq!(program("frp"), Ok(PathBuf::from("/c/frp-1/x")));
        assert_eq!(
            program("wstunnel"),
            Err("not here: no registry has it".to_owned())
        );
        assert!(program("chisel").is_err());
        let has = [Kind::Frp, Kind::Wstunnel, Kind::Direct].map(|kind| built.has(kind));
        assert_eq!(has, [true, false, true]);
    }

    #[test]
    fn programs_of_the_user_are_described_where_they_are_measured() {
        let built = Built::parse("wstunnel /p\nwstunnel = wstunnel-cli 10, SHA-256 0f\n");
        assert!(built.has(Kind::Wstunnel));
        assert_eq!(
            built.given(&[Kind::Frp, Kind::Wstunnel]),
            ["wstunnel (wstunnel-cli 10, SHA-256 0f)"]
        );
        assert!(built.given(&[Kind::Frp]).is_empty());
    }
}
