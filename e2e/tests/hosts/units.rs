//! The systemd units: what systemd itself says of their exposure.

use std::process::Command;

use anyhow::{Context, ensure};

/// Highest exposure, of 10, that `systemd-analyze security` may report.
const MAX_EXPOSURE: f64 = 2.0;

#[test]
fn units_have_little_exposure() -> anyhow::Result<()> {
    for unit in ["fairlead-server.service", "fairlead-agent.service"] {
        let file = format!("{}/../deploy/systemd/{unit}", env!("CARGO_MANIFEST_DIR"));
        let analyze = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--no-pager", &file])
            .output();
        let Ok(output) = analyze else {
            eprintln!("SKIPPED: this machine has no systemd-analyze");
            return Ok(());
        };
        let text = String::from_utf8(output.stdout)?;
        let exposure = text
            .lines()
            .find_map(|line| line.split_once("Overall exposure level for "))
            .and_then(|(_, rest)| rest.split_once(": "))
            .and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
        let exposure = exposure.with_context(|| format!("{unit}: {text}"))?;
        ensure!(exposure < MAX_EXPOSURE, "{unit}: {exposure}\n{text}");
    }
    Ok(())
}
