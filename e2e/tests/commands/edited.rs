//! `edit`, with scripts as editors.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Launch, Output, fleet::fairlead};

use crate::{FLEET, apply, file};

/// Writes an editor with this script.
fn editor(hub: &Hub, name: &str, script: &str) -> anyhow::Result<String> {
    let path = file(hub, name, &format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    Ok(path)
}

async fn edit(hub: &Hub, editor: &str, more: &[&str]) -> anyhow::Result<Output> {
    let args = [&["cluster", "edit", "c-edge"], more].concat();
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let folder = hub.dir().display().to_string();
    fairlead(hub.dir(), &args, &[("EDITOR", editor), ("TMPDIR", &folder)]).await
}

/// Path of the text that a failure names.
fn kept(output: &Output) -> anyhow::Result<PathBuf> {
    let (_, rest) = output
        .stderr
        .split_once("kept in ")
        .with_context(|| format!("{output:?}"))?;
    Ok(Path::new(rest.lines().next().context("no line")?).to_owned())
}

#[tokio::test]
async fn edit_applies_the_edit_and_keeps_the_text_on_failure() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    apply(&hub, &["-f", &file(&hub, "fleet.yaml", FLEET)?])
        .await?
        .success()?;

    let to_gcp = editor(&hub, "gcp", "sed -i 's/aws/gcp/' \"$1\"")?;
    let done = edit(&hub, &to_gcp, &[]).await?.success()?;
    ensure!(
        done.contains("  ~ facts.cloud: \"aws\" -> \"gcp\"\n"),
        "{done}"
    );
    ensure!(done.ends_with("Changed c-edge.\n"), "{done}");
    let same = edit(&hub, "true", &[]).await?.success()?;
    ensure!(same == "c-edge is unchanged.\n", "{same}");

    // A line deleted from the text is deleted from the cluster, if it is meant so.
    let without = editor(&hub, "without", "sed -i '/deletionPolicy/d' \"$1\"")?;
    let unasked = edit(&hub, &without, &[]).await?;
    ensure!(unasked.stderr.contains("FL-4118"), "{unasked:?}");
    ensure!(!fs::read_to_string(kept(&unasked)?)?.contains("deletionPolicy"));
    edit(&hub, &without, &["--yes"]).await?.success()?;
    ensure!(hub.cluster("c-edge").await?["deletionPolicy"].is_null());

    // Another user changes the cluster while the editor is open.
    let fairlead = Launch::fairlead()?.program().display().to_string();
    let home = hub.dir().display();
    let slow = editor(
        &hub,
        "slow",
        &format!(
            "HOME={home} {fairlead} cluster set c-edge --fact cloud=azure >&2 || exit 1\nsed -i 's/gcp/openstack/' \"$1\""
        ),
    )?;
    let conflict = edit(&hub, &slow, &[]).await?;
    ensure!(conflict.status.code() == Some(6), "{conflict:?}");
    ensure!(
        conflict.stderr.ends_with("code:  FL-4114\n"),
        "{conflict:?}"
    );
    let text = kept(&conflict)?;
    ensure!(fs::read_to_string(&text)?.contains("cloud: openstack"));
    ensure!(hub.cluster("c-edge").await?["facts"]["cloud"] == "azure");
    // The kept text can be applied like any document.
    apply(&hub, &["-f", &text.display().to_string()])
        .await?
        .success()?;
    ensure!(hub.cluster("c-edge").await?["facts"]["cloud"] == "openstack");

    for (name, script, code) in [
        ("broken", "echo 'id: [' > \"$1\"", "FL-4109"),
        ("other", "echo 'id: c-other' > \"$1\"", "FL-4109"),
        (
            "late",
            "echo '# more' >> \"$1\"; echo 'x: 1' >> \"$1\"; exit 3",
            "FL-4118",
        ),
    ] {
        let failed = edit(&hub, &editor(&hub, name, script)?, &[]).await?;
        ensure!(
            failed.stderr.contains(&format!("code:  {code}\n")),
            "{failed:?}"
        );
        ensure!(kept(&failed)?.exists());
    }
    // An unchanged text is not kept.
    for (command, code) in [("exit 3 #", "FL-4118"), ("/none/editor", "FL-4101")] {
        let failed = edit(&hub, command, &[]).await?;
        ensure!(
            failed.stderr.contains(&format!("code:  {code}\n")),
            "{failed:?}"
        );
        ensure!(
            !failed.stderr.contains("kept in") && failed.stderr.contains("editor"),
            "{failed:?}"
        );
    }
    Ok(())
}
