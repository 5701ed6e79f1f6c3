//! The agent's part: a real API server, and agent and runner beside it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use fairlead_e2e::helm;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::{Instant, sleep};

use super::{Args, bundles, flux, helm_upgrades, site::DeliverySite};
use crate::{hub::figures::Figures, launch::Launcher, stats};

/// Time for the agent to end its work before a measurement at rest.
const SETTLE_TIME: Duration = Duration::from_secs(20);
const OBJECT_COUNT: usize = 20;
/// Objects of each of many bundles.
pub(super) const FEW_OBJECTS: usize = 4;
/// Changes of objects by another client, each in another bundle.
const DRIFT_COUNT: usize = 5;
const DRIFT_DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Requests to the API server that progress names, most frequent first.
const MAX_NAMED_CALLS: usize = 8;

/// An agent without work.
struct SiteAtRest {
    memory: f64,
    /// Requests a minute, except watches and probes of the hub.
    calls: f64,
}

pub(super) async fn run(args: &Args, launcher: &Launcher) -> anyhow::Result<Figures> {
    let bundles = args.agent_bundles;
    eprintln!("agent: {bundles} bundles of {OBJECT_COUNT} objects");
    let helm = helm::program()?;
    let mut figures = Figures::of("agent");
    let mut site = DeliverySite::start(args, launcher, &helm).await?;
    let before = rest(args, &site).await?;
    let begun = Instant::now();
    site.deploy(bundles, OBJECT_COUNT).await?;
    site.until_ready(bundles).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let what = format!("{bundles} bundles x {OBJECT_COUNT} objects");
    figures.add(format!("{what}: all ready"), seconds, "s", None);
    let after = rest(args, &site).await?;
    figures.add("memory without bundles", before.memory, "MB", None);
    let more = after.memory - before.memory;
    figures.add("memory at rest, more than without", more, "MB", Some(10.0));
    let calls = "API calls at rest";
    figures.add(
        format!("{calls}, without bundles"),
        before.calls,
        "a minute",
        None,
    );
    figures.add(calls, after.calls, "a minute", Some(8.0));
    drift(&mut site, bundles, &mut figures).await?;
    helm_upgrades::measure(&mut site, &helm, &mut figures).await?;
    site.stop().await?;
    Ok(figures)
}

/// Time and memory of many small bundles in a new cluster, beside kustomize-controller.
pub(super) async fn many(args: &Args, launcher: &Launcher) -> anyhow::Result<Figures> {
    let mut figures = Figures::of("many");
    let count = args.many_bundles;
    eprintln!("many: {count} bundles of {FEW_OBJECTS} objects");
    let mut site = DeliverySite::start(args, launcher, &helm::program()?).await?;
    let begun = Instant::now();
    site.deploy(count, FEW_OBJECTS).await?;
    site.until_ready(count).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let memory = site.memory()?.peak;
    let what = format!("{count} bundles x {FEW_OBJECTS} objects");
    figures.add(format!("{what}: all ready"), seconds, "s", None);
    figures.add(format!("{what}: highest memory"), memory, "MB", None);
    site.stop().await?;
    let controller = match flux::build().await {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("SKIPPED: kustomize-controller: {error:#}");
            return Ok(figures);
        }
    };
    for (name, wait) in [
        ("kustomize-controller", false),
        ("kustomize-controller, wait", true),
    ] {
        eprintln!("  {name}");
        let measured = flux::measure(launcher, &controller, count, wait).await;
        let flux = match measured {
            Ok(flux) => flux,
            Err(error) => {
                eprintln!("SKIPPED: {name}: {error:#}");
                continue;
            }
        };
        figures.add(format!("{name}: all ready"), flux.seconds, "s", None);
        figures.add(format!("{name}: highest memory"), flux.memory, "MB", None);
        let time = seconds / flux.seconds;
        figures.add(format!("time, of {name}"), time, "x", Some(0.8));
        let memory = memory / flux.memory;
        figures.add(format!("memory, of {name}"), memory, "x", Some(0.5));
    }
    Ok(figures)
}

/// Measures agent and runner while nothing happens.
async fn rest(args: &Args, site: &DeliverySite) -> anyhow::Result<SiteAtRest> {
    let time = Duration::try_from_secs_f64(args.rest_seconds)?;
    eprintln!("  at rest for {:?}", SETTLE_TIME + time);
    sleep(SETTLE_TIME).await;
    let (known, begun) = (site.cluster.audit()?.len(), Instant::now());
    sleep(time).await;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let events = site.cluster.audit()?;
    let mut calls = BTreeMap::<String, usize>::new();
    for event in events.get(known..).unwrap_or_default() {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let (verb, uri) = (text("verb"), text("requestURI"));
        let path = uri.split('?').next().unwrap_or_default();
        if verb != "watch" && path != "/readyz" {
            *calls.entry(format!("{verb} {path}")).or_default() += 1;
        }
    }
    let mut named: Vec<_> = calls.iter().collect();
    named.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (call, count) in named.into_iter().take(MAX_NAMED_CALLS) {
        eprintln!("  {count} x {call}");
    }
    Ok(SiteAtRest {
        memory: site.memory()?.now,
        calls: calls.values().sum::<usize>() as f64 / minutes,
    })
}

/// Changes objects by another client, and waits until the hub shows and the agent corrects each.
async fn drift(
    site: &mut DeliverySite,
    bundles: usize,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (mut seen, mut corrected) = (Vec::new(), Vec::new());
    for number in 0..DRIFT_COUNT.min(bundles) {
        eprintln!("  drift {} of {DRIFT_COUNT}", number + 1);
        let bundle = bundles::id(number);
        let path = format!(
            "/api/v1/namespaces/{}/configmaps/{}",
            bundles::NAMESPACE,
            bundles::object_name(number, 0)
        );
        site.patch(&path, &json!({"data": {"color": "red"}}))
            .await?;
        let begun = Instant::now();
        let (mut shown_after, mut corrected_after) = (None, None);
        while shown_after.is_none() || corrected_after.is_none() {
            let shown = site.deployment(&bundle).await?;
            if shown_after.is_none() && shown.get("state") == Some(&json!("Drifted")) {
                shown_after = Some(begun.elapsed().as_secs_f64());
            }
            let object = site.object(&path).await?;
            if corrected_after.is_none() && object.pointer("/data/color") == Some(&json!("blue")) {
                corrected_after = Some(begun.elapsed().as_secs_f64());
            }
            ensure!(begun.elapsed() < DRIFT_DEADLINE, "drift remains: {shown}");
            sleep(POLL_INTERVAL).await;
        }
        seen.extend(shown_after);
        corrected.extend(corrected_after);
        site.until_applied(&bundle, 1).await?;
    }
    for (what, times, goal) in [("seen", seen, 2.0), ("corrected", corrected, 10.0)] {
        let median = stats::median(times.iter().copied()).context("no drift")?;
        figures.add(format!("drift {what}: median"), median, "s", Some(goal));
        let (_, last) = stats::range(times).context("no drift")?;
        figures.add(format!("drift {what}: highest"), last, "s", None);
    }
    Ok(())
}

/// Seconds between two moments of a document.
pub(super) fn seconds_between(document: &Value, from: &str, to: &str) -> anyhow::Result<f64> {
    let moment = |name: &str| {
        let text = document.get(name).and_then(Value::as_str);
        let text = text.with_context(|| format!("{name} is missing: {document}"))?;
        anyhow::Ok(OffsetDateTime::parse(text, &Rfc3339)?)
    };
    Ok((moment(to)? - moment(from)?).as_seconds_f64())
}
