//! Changes of bundles without a pause. While the hub is away, the same content is sent again.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context;
use fairlead_e2e::{eventually, fleet::fairlead, link::Random};

use crate::world::{ROLLOUT_DEADLINE, write_files};

/// Number of bundles; the first half has manifests, the others are charts.
pub(super) const BUNDLE_COUNT: usize = 8;
/// Number of objects with the same names in each content.
const STAYING_OBJECTS: u32 = 5;
/// Number of names of the one further object: each content has another name than the last one.
const MOVING_NAMES: u32 = 3;

/// Hook that Helm waits for; without pods it ends by its first field.
const HOOK: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME-hook
  annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation}
spec:
  END
  template:
    spec: {restartPolicy: Never, containers: [{name: hook, image: hook}]}
";

/// First field of a hook that succeeds.
pub(super) const HOOK_SUCCEEDS: &str = "completions: 0";

/// Hook of a release with this first field.
pub(super) fn hook(release: &str, end: &str) -> String {
    HOOK.replace("NAME", release).replace("END", end)
}

/// Changes bundles at the hub with this folder until `is_over`, and returns the last content of each.
pub(super) async fn change_all(
    home: &Path,
    seed: u64,
    is_over: &AtomicBool,
) -> anyhow::Result<Vec<u32>> {
    let mut random = Random::new(!seed);
    let mut contents = vec![0; BUNDLE_COUNT];
    let all: Vec<usize> = (0..BUNDLE_COUNT).collect();
    for bundle in &all {
        deploy(home, *bundle, &mut contents).await?;
    }
    while !is_over.load(Ordering::SeqCst) {
        let bundle = *random.choose(&all).context("no bundle")?;
        deploy(home, bundle, &mut contents).await?;
    }
    Ok(contents)
}

pub(super) fn name(bundle: usize) -> String {
    if is_chart(bundle) {
        format!("chart-{bundle}")
    } else {
        format!("plain-{bundle}")
    }
}

pub(super) fn is_chart(bundle: usize) -> bool {
    bundle >= BUNDLE_COUNT / 2
}

/// Names of the objects of a content.
pub(super) fn objects(bundle: usize, content: u32) -> Vec<String> {
    let name = name(bundle);
    let moving = format!("{name}-m{}", content % MOVING_NAMES);
    let mut names: Vec<_> = (0..STAYING_OBJECTS)
        .map(|number| format!("{name}-{number}"))
        .collect();
    names.push(moving);
    names
}

/// Deploys the next content of a bundle. An answer may be lost, so the same content is sent until one arrives.
async fn deploy(home: &Path, bundle: usize, contents: &mut [u32]) -> anyhow::Result<()> {
    let last = contents.get_mut(bundle).context("no such bundle")?;
    *last += 1;
    let folder = write(home, bundle, *last)?.display().to_string();
    let words = ["deploy", &folder, "--tenant", "t-default", "--yes"].map(str::to_owned);
    let mut refusal = String::new();
    let deployed = eventually(ROLLOUT_DEADLINE, "a deployment", async || {
        match fairlead(home, &words, &[]).await {
            Ok(output) if output.status.success() => Some(()),
            Ok(output) => {
                refusal = output.text();
                None
            }
            Err(error) => {
                refusal = error.to_string();
                None
            }
        }
    });
    deployed.await.context(refusal)
}

fn write(home: &Path, bundle: usize, content: u32) -> anyhow::Result<PathBuf> {
    let name = name(bundle);
    let folder = home.join(&name);
    let options = "namespace: shop\nretries: 100\ntargets: [{name: all, selector: env=prod}]\n";
    let objects = objects(bundle, content).into_iter().map(|name| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{content: \"{content}\"}}\n"
        )
    });
    let objects: String = objects.collect();
    let mut files = vec![("fairlead.yaml", options.to_owned())];
    if is_chart(bundle) {
        let chart = format!("{{apiVersion: v2, name: {name}, version: 1.0.0}}");
        files.push(("Chart.yaml", chart));
        files.push(("templates/objects.yaml", objects));
        files.push(("templates/hook.yaml", hook(&name, HOOK_SUCCEEDS)));
    } else {
        files.push(("objects.yaml", objects));
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    write_files(&folder, &files)?;
    Ok(folder)
}
