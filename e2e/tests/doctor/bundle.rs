//! `fairlead support-bundle`: its files, and none of the rig's secrets in them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::JoinString;
use fairlead_e2e::fleet::fairlead;
use tokio::process::Command;

use crate::{servers::FaultyServer, world::DoctorWorld};

/// Unpacks the archive and returns names and texts of its files.
async fn unpacked(archive: &Path, to: &Path) -> anyhow::Result<Vec<(String, String)>> {
    fs::create_dir(to)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(to);
    let output = tar.output().await?;
    ensure!(output.status.success(), "{output:?}");
    let mut texts = Vec::new();
    for entry in fs::read_dir(to.join("fairlead-support"))? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?.display().to_string();
        texts.push((name, fs::read_to_string(&path)?));
    }
    texts.sort();
    Ok(texts)
}

#[tokio::test]
async fn bundle_of_an_agent_has_no_secret() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let fault = world.fault("bundled", ("proxy", "FL-3103"), &[]).await?;
    // A proxy that quotes its user's password, a log that quotes all.
    let answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 43\r\n\r\nuser:pr0xy-secret may not CONNECT elsewhere";
    let proxy = FaultyServer::plain(answer).await?;
    let join = fault.join.clone();
    let token = world.hub.token()?;
    let encoded = STANDARD.encode("user:pr0xy-secret");
    let log = format!(
        "INFO join {join}\nWARN {} {token}\nlast line\n",
        proxy.proxy_url()
    );
    let log = world.write("agent.log", &log)?;
    let file = world.hub.dir().join("agent.tar.gz");
    let paths = [&file, &fault.kubeconfig, &log].map(|it| it.display().to_string());
    let [file_name, kubeconfig, log] = &paths;
    let admin = world.hub.ready().admin_url.trim_start_matches("http://");
    let args = [
        "support-bundle",
        file_name,
        "--kubeconfig",
        kubeconfig,
        "--log-file",
        log,
        "--url",
        "https://hub.fairlead.test",
        "--admin",
        admin,
    ];
    let args = args.map(str::to_owned);
    let proxy_url = proxy.proxy_url();
    let env = [
        ("FAIRLEAD_JOIN", join.as_str()),
        ("HTTPS_PROXY", &proxy_url),
        ("FAIRLEAD_STORE_PASSWORD", "st0re-secret"),
    ];
    let output = fairlead(world.hub.dir(), &args, &env).await?.success()?;
    ensure!(output.starts_with("Wrote "), "{output}");
    let mode = fs::metadata(&file)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}");

    let texts = unpacked(&file, &world.hub.dir().join("unpacked")).await?;
    let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "doctor.json",
        "doctor.txt",
        "log.txt",
        "metrics.txt",
        "settings.txt",
        "version.txt",
    ];
    ensure!(names == expected, "{names:?}");
    let parsed: JoinString = join.parse()?;
    let bootstrap = secret_of(&parsed);
    for secret in [
        join.as_str(),
        &bootstrap,
        "pr0xy-secret",
        "st0re-secret",
        &token,
        &encoded,
    ] {
        for (name, text) in &texts {
            ensure!(!text.contains(secret), "{secret:?} is in {name}: {text}");
        }
    }
    let text = |name: &str| {
        let found = texts.iter().find(|(it, _)| it == name);
        found.map(|(_, text)| text.as_str()).unwrap_or_default()
    };
    ensure!(
        text("doctor.txt").contains("FL-3103"),
        "{}",
        text("doctor.txt")
    );
    ensure!(text("settings.txt").contains("join = *** (environment)"));
    ensure!(text("settings.txt").contains("HTTPS_PROXY = http://***@"));
    ensure!(text("metrics.txt").contains("fairlead_sessions"));
    ensure!(text("log.txt").ends_with("last line\n"));

    // An existing file is never replaced.
    let again = fairlead(world.hub.dir(), &args, &env).await?;
    ensure!(!again.status.success(), "{again:?}");
    Ok(())
}

fn secret_of(join: &JoinString) -> String {
    // The token's `Debug` hides it; its serialized form is in the payload of the join string.
    let json = serde_json::to_value(fairlead_api::enroll::CheckRequest {
        token: Some(join.token.clone()),
        key: None,
    });
    let json = json.unwrap_or_default();
    json["token"].as_str().unwrap_or_default().to_owned()
}
