//! Value of a Secret in a chart and in manifests: it reaches its objects, and no file, log, error or command line.

use std::{collections::BTreeSet, fs, io::ErrorKind, path::Path, time::Duration};

use anyhow::ensure;
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use fairlead_e2e::eventually;
use tokio::time::sleep;

use crate::world::{ROLLOUT_DEADLINE, World};

const CANARY: &str = "canary-Tr0ub4dor-2026-value";
/// Interval of looks at the command lines of all processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const SECRETS: &str = "secrets: [{namespace: shop, name: db, key: password, as: AS}]\ntargets: [{name: all, selector: env=prod}]\n";
/// Notes are a part of Helm's output: plain, and in base64 at each offset.
const NOTES: &str = "\
plain {{ .Values.db.password }}
zero {{ .Values.db.password | b64enc }}
one {{ printf \"x%s\" .Values.db.password | b64enc }}
two {{ printf \"xy%s\" .Values.db.password | b64enc }}
quoted {{ .Values.db.password | quote }}
";
const OBJECT: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {password: \"VALUE\"}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn value_of_a_secret_reaches_its_objects_only() -> anyhow::Result<()> {
    let world = World::start(1).await?;
    let member = &world.members[0];
    let literal = format!("--from-literal=password={CANARY}");
    let create = ["create", "secret", "generic", "db", &literal];
    member.kubectl(&create).await?;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let watching = async {
        let mut lines = BTreeSet::new();
        while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
            lines.extend(leaking_processes());
            sleep(LOOK_INTERVAL).await;
        }
        lines
    };
    let deploying = async {
        let deployed = deploy_all(&world).await;
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        deployed
    };
    let (lines, deployed) = tokio::join!(watching, deploying);
    deployed?;
    ensure!(lines.is_empty(), "{lines:?}");
    for object in ["secret/of-chart", "secret/of-manifests"] {
        let value = member.field(object, ".data.password").await?;
        let expected = base64::engine::general_purpose::STANDARD.encode(CANARY);
        ensure!(value == expected, "{object}: {value}");
    }
    // Data of the hub, its log, and the folders of agent and runner.
    let mut files = 0;
    search(world.hub.dir(), &mut files)?;
    ensure!(files > 10, "{files} files");
    Ok(())
}

/// A chart and manifests with the value, and content of both kinds that fails with it.
async fn deploy_all(world: &World) -> anyhow::Result<()> {
    let options = format!(
        "namespace: shop\n{}",
        SECRETS.replace("AS", "values.db.password")
    );
    let object = OBJECT.replace("NAME", "of-chart");
    let object = object.replace("\"VALUE\"", "{{ .Values.db.password | quote }}");
    let chart = "{apiVersion: v2, name: hidden, version: 1.0.0}";
    let broken = "{{ fail (printf \"refused %s\" .Values.db.password) }}";
    let mut files = vec![
        ("fairlead.yaml", &*options),
        ("Chart.yaml", chart),
        ("templates/NOTES.txt", NOTES),
        ("templates/secret.yaml", &object),
    ];
    let folder = world.folder("hidden", &files)?;
    world.deploy(&folder, &[]).await?;
    logs_hide(world, "b-hidden", "helm").await?;
    files.push(("templates/broken.yaml", broken));
    fails(world, "hidden", &files, "refused").await?;

    let options = format!(
        "namespace: shop\n{}",
        SECRETS.replace("AS", "vars.password")
    );
    let object = OBJECT.replace("NAME", "of-manifests");
    let object = object.replace("VALUE", "${vars.password}");
    let files = [("fairlead.yaml", &*options), ("a.yaml", &object)];
    let folder = world.folder("plain", &files)?;
    world.deploy(&folder, &[]).await?;
    logs_hide(world, "b-plain", "apply").await?;
    // The API server quotes the invalid name of a key.
    let invalid = object.replace("password: \"", "\"${vars.password} invalid\": \"");
    let files = [("fairlead.yaml", &*options), ("a.yaml", &invalid)];
    fails(world, "plain", &files, "").await
}

/// Deploys content that fails, and checks its sentence and its log.
async fn fails(
    world: &World,
    name: &str,
    files: &[(&str, &str)],
    part: &str,
) -> anyhow::Result<()> {
    let folder = world.folder(name, files)?;
    let deploy = ["deploy", &folder, "--tenant", "t-default", "--yes"];
    let output = world.run(&deploy).await?;
    hides(&output.text(), "output")?;
    let bundle = format!("b-{name}");
    let failed = world.until(0, &bundle, "Failed").await?.to_string();
    ensure!(failed.contains(part), "{failed}");
    hides(&failed, "deployment")?;
    logs_hide(world, &bundle, "").await
}

/// Checks the logs of all runs of a bundle.
async fn logs_hide(world: &World, bundle: &str, part: &str) -> anyhow::Result<()> {
    // The agent registers its runs independently of its reports.
    let runs = eventually(ROLLOUT_DEADLINE, "a run", async || {
        let runs = world
            .json(&["run", "list", "--bundle", bundle])
            .await
            .ok()?;
        let runs = runs["items"].as_array()?.clone();
        (!runs.is_empty()).then_some(runs)
    })
    .await?;
    for run in runs {
        let id = run["id"].as_str().unwrap_or_default();
        let log = world.run_log(id, part).await?;
        hides(&log, id)?;
        hides(&run.to_string(), id)?;
    }
    Ok(())
}

/// The value, and its base64 without the characters that neighbours change, at each offset.
fn forms() -> [String; 4] {
    let at = |offset: usize| {
        let padded = format!("{}{CANARY}", "x".repeat(offset));
        let text = STANDARD_NO_PAD.encode(padded);
        let start = (offset * 8).div_ceil(6);
        text[start..text.len() - 2].to_owned()
    };
    [CANARY.to_owned(), at(0), at(1), at(2)]
}

fn hides(text: &str, place: &str) -> anyhow::Result<()> {
    for form in forms() {
        ensure!(!text.contains(&form), "{form} in {place}: {text}");
    }
    Ok(())
}

fn search(folder: &Path, files: &mut u32) -> anyhow::Result<()> {
    for entry in found(fs::read_dir(folder))?.into_iter().flatten() {
        let path = entry?.path();
        let Some(metadata) = found(fs::symlink_metadata(&path))? else {
            continue;
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            search(&path, files)?;
        } else if kind.is_file() {
            let bytes = found(fs::read(&path))?.unwrap_or_default();
            for form in forms() {
                let mut windows = bytes.windows(form.len());
                let is_hidden = !windows.any(|window| window == form.as_bytes());
                ensure!(is_hidden, "{form} in {}", path.display());
            }
            *files += 1;
        }
    }
    Ok(())
}

/// Hub, agent and runner delete files meanwhile: `None` for one that is gone.
fn found<T>(read: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Command lines and environments with the value, except for those of kubectl in this test.
fn leaking_processes() -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for process in processes.flatten() {
        for file in ["cmdline", "environ"] {
            let text = fs::read(process.path().join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            if forms().iter().any(|form| text.contains(form)) {
                found.push(format!("{file}: {text}"));
            }
        }
    }
    found
}
