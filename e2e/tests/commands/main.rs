//! The registry's commands, as users and scripts call them: each command once. Their logic is tested in `cli`.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod access;
mod asked;
mod completion;
mod documents;
mod edited;
mod tables;
mod upkeep;
mod watched;

use std::fs;
use std::time::Duration;

use fairlead_e2e::{Hub, Output};

pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// A tenant and a cluster of it, in the wrong order.
pub(crate) const FLEET: &str = "\
id: c-edge
tenant: t-acme
displayName: Edge
facts:
  cloud: aws
deletionPolicy: Retain
---
id: t-acme
displayName: Acme
gitRepo:
  type: unmanaged
";

pub(crate) fn file(hub: &Hub, name: &str, text: &str) -> anyhow::Result<String> {
    let path = hub.dir().join(name);
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}

pub(crate) async fn apply(hub: &Hub, more: &[&str]) -> anyhow::Result<Output> {
    hub.cli([&["cluster", "apply"], more].concat()).await
}
