//! Shared parts of all phases of a run: test beds, peers, and the report.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};

use super::progress::Progress;
use crate::{
    peers::{Bed, Built, Kind},
    report::RunReport,
    scenarios::{Pace, Title},
};

pub(super) struct Stage<'a> {
    /// Every role on one core.
    pub(super) pinned: &'a Bed<'a>,
    /// Every role on any core.
    pub(super) free: &'a Bed<'a>,
    pub(super) kinds: &'a [Kind],
    /// Peers whose programs exist and that therefore take time.
    pub(super) present: &'a [Kind],
    pub(super) pace: Pace,
    pub(super) report: RunReport,
    pub(super) progress: Progress,
    pub(super) built: &'a Built,
    /// Private to this user.
    pub(super) secrets: &'a Path,
    pub(super) results: &'a Path,
}

impl Stage<'_> {
    pub(super) fn tunnels(&self) -> Vec<Kind> {
        let tunnels = self.kinds.iter().copied();
        tunnels.filter(|kind| kind.is_tunnel()).collect()
    }

    /// Number of tunnels that take time.
    pub(super) fn tunnels_present(&self) -> usize {
        self.present.iter().filter(|kind| kind.is_tunnel()).count()
    }

    /// A new folder for keys, sockets and tokens.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.secrets.join(name);
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// Prints the current measurement.
    pub(super) fn round(&self, round: u32, what: &str) {
        let round = match round {
            0 => "the round that warms up".to_owned(),
            _ => format!("round {round} of {}", self.pace.rounds),
        };
        eprintln!("{} {round}: {what}", self.progress.said());
    }

    /// Saves the results so far, in case the run is aborted.
    pub(super) fn keep(&mut self, planned: Duration) {
        self.progress.done(planned);
        if let Err(error) = self.report.save(self.results) {
            eprintln!("figures are not saved: {error:#}");
        }
    }

    /// Records one reason why these peers cannot do these scenarios.
    pub(super) fn absent(&mut self, titles: &[&Title], kinds: &[Kind], error: &anyhow::Error) {
        let kinds_said: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        eprintln!("{}: {error:#}", kinds_said.join(", "));
        for title in titles {
            for kind in kinds {
                self.report.absent(title, *kind, error);
            }
        }
    }
}

/// Copy of an error, to record one reason in several places.
pub(super) fn again(error: &anyhow::Error) -> anyhow::Error {
    anyhow!("{error:#}")
}
