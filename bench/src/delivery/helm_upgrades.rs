//! Upgrades of a Helm release by a bundle, beside those of the same chart by `helm` itself.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::{process::Command, time::Instant};

use super::{agent_part::seconds_between, bundles, site::DeliverySite};
use crate::{hub::figures::Figures, stats};

const BUNDLE: &str = "b-bench-helm";
const UPGRADE_COUNT: u64 = 5;
const CHART: [(&str, &str); 2] = [
    (
        "Chart.yaml",
        "{apiVersion: v2, name: bench, version: 1.0.0}\n",
    ),
    (
        "templates/objects.yaml",
        "{{- range $number := until 20 }}\n---\napiVersion: v1\nkind: ConfigMap\n\
         metadata: {name: {{ $.Release.Name }}-{{ $number }}}\ndata: {color: {{ $.Values.color | quote }}}\n{{- end }}\n",
    ),
];

pub(super) async fn measure(
    site: &mut DeliverySite,
    helm: &Path,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let dir = tempfile::TempDir::with_prefix("fairlead-bench-")?;
    let chart = dir.path().join("bench");
    std::fs::create_dir_all(chart.join("templates"))?;
    for (name, text) in CHART {
        std::fs::write(chart.join(name), text)?;
    }
    let files = CHART.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let mut caller = site.hub.caller()?;
    let content = bundles::upload(&mut caller, &site.hub, &files).await?;
    let (mut by_hand, mut runs, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    // The first generation installs the release.
    for generation in 1..=UPGRADE_COUNT + 1 {
        eprintln!("  Helm release {generation} of {}", UPGRADE_COUNT + 1);
        let color = format!("color-{generation}");
        let hand = upgrade_by_hand(site, helm, &chart, &color).await?;
        let mut document = bundles::document(&content.id);
        if let Some(fields) = document.as_object_mut() {
            let options = json!({"release": "ours", "values": {"color": color}});
            fields.insert("helm".to_owned(), options);
        }
        let begun = Instant::now();
        bundles::put(&mut caller, &site.hub, BUNDLE, &document).await?;
        site.until_applied(BUNDLE, generation).await?;
        let ready = begun.elapsed().as_secs_f64();
        let run = run_of(site, generation).await?;
        if generation > 1 {
            by_hand.push(hand);
            runs.push(run);
            whole.push(ready);
        }
    }
    let differences = |ours: &[f64]| {
        let pairs = ours.iter().zip(&by_hand);
        stats::median(pairs.map(|(ours, hand)| ours - hand)).context("no upgrade")
    };
    let more = differences(&runs)?;
    let later = differences(&whole)?;
    let hand = stats::median(by_hand.iter().copied()).context("no upgrade")?;
    figures.add("Helm upgrade by hand", hand, "s", None);
    figures.add(
        "Helm upgrade: run, longer than by hand",
        more,
        "s",
        Some(0.3),
    );
    figures.add(
        "Helm upgrade: write of the bundle to Ready, longer than by hand",
        later,
        "s",
        None,
    );
    Ok(())
}

/// Seconds of `helm upgrade --install`, as the administrator.
async fn upgrade_by_hand(
    site: &DeliverySite,
    helm: &Path,
    chart: &Path,
    color: &str,
) -> anyhow::Result<f64> {
    let mut command = Command::new(helm);
    command
        .args(["upgrade", "--install", "by-hand"])
        .arg(chart)
        .args(["--namespace", bundles::NAMESPACE, "--set"])
        .arg(format!("color={color}"))
        .arg("--kubeconfig")
        .arg(site.cluster.kubeconfig())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let begun = Instant::now();
    let output = command.output().await?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(
        output.status.success(),
        "helm upgrade: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(seconds)
}

/// Seconds of the run of a generation, as the agent reports it.
async fn run_of(site: &mut DeliverySite, generation: u64) -> anyhow::Result<f64> {
    let deadline = Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let list = site.get(&format!("/v1/runs?bundle={BUNDLE}")).await?;
        let items = list.get("items").and_then(Value::as_array);
        let mut items = items.into_iter().flatten();
        let run = items.find(|it| {
            it.get("generation") == Some(&json!(generation))
                && it.get("state") == Some(&json!("Succeeded"))
        });
        if let Some(run) = run {
            return seconds_between(run, "startedAt", "finishedAt");
        }
        ensure!(Instant::now() < deadline, "no run of {generation}: {list}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
