//! SSH key of a real Flux: made by the agent, registered through the hub, rotated under load, and host keys checked.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod adoption;
mod argocd;
mod argocd_sync;
mod install;
mod repair;
mod rig;
mod uninstall;
mod world;

use std::{collections::BTreeSet, fs::File, os::unix::fs::FileExt, path::Path};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_e2e::{
    flux::{KustomizeController, SourceController},
    inspector::Inspector,
    ssh::SshServer,
};

use world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flux_syncs_with_the_agents_key_through_a_rotation_and_stops_at_another_host_key()
-> anyhow::Result<()> {
    let unpacked = match SshServer::build().await {
        Ok(unpacked) => unpacked,
        Err(reason) => {
            println!("SKIPPED: Flux over SSH: {reason}");
            return Ok(());
        }
    };
    let flux = SourceController::build().await?;
    let kustomize = KustomizeController::build().await?;
    let world = World::start(&unpacked, [&flux, &kustomize]).await?;
    world.push("one").await?;
    world.create_source().await?;
    let first = world.until_synced("one").await?;
    ensure!(first.revision.starts_with("main@sha1:"), "{first:?}");
    let key = world
        .fact("the key in use", |it| it["state"] == "settled")
        .await?;
    ensure!(key["code"].is_null(), "{key}");
    let mut private = world.private_keys().await?;

    // The source syncs each second meanwhile.
    let failures = world.flux.failures()?.len();
    world
        .cli(&["cluster", "agent", "rotate-key", "pod"])
        .await?;
    let waiting = |it: &serde_json::Value| it["code"] == "FL-6807";
    let waiting = world.fact("the next key", waiting).await?;
    private.extend(world.private_keys().await?);
    let next = waiting["nextKey"].as_str().context("nextKey")?.to_owned();
    ensure!(waiting["key"] == key["key"], "{waiting}");
    world.authorized(|keys| keys.len() == 2).await?;
    world
        .cli(&["cluster", "agent", "confirm-key", "pod", &next])
        .await?;
    let is_done = |it: &serde_json::Value| it["state"] == "settled" && it["key"] == *next;
    world.fact("the end of the rotation", is_done).await?;
    world.authorized(|keys| keys.len() == 1).await?;
    world.push("two").await?;
    world.until_synced("two").await?;
    let after = world.flux.failures()?;
    ensure!(
        after.len() == failures,
        "failed syncs: {:?}",
        &after[failures..]
    );
    private.extend(world.private_keys().await?);
    ensure!(private.len() >= 2, "two keys were made");
    search_below(&world.hub.data(), &private)?;
    search_memory(world.hub.process.pid(), &private, &next)?;
    search_wire(&world.inspector, &private)?;

    catalog_differs_and_is_found(&world).await?;
    another_host_key_stops_the_syncs(&world).await
}

async fn catalog_differs_and_is_found(world: &World) -> anyhow::Result<()> {
    let revision = world.until_synced("two").await?.revision;
    let is_synced = |it: &serde_json::Value| it["version"] == *revision && it["sync"] == "Synced";
    world.component("the synced catalog", is_synced).await?;
    let differing = ["cluster", "list", "--out-of-sync", "-o", "name"];
    ensure!(world.cli(&differing).await?.is_empty(), "all is in sync");
    world.push_file("broken", "kind: Nothing").await?;
    let is_broken =
        |it: &serde_json::Value| it["sync"] == "OutOfSync" && it["version"] == *revision;
    let broken = world.component("the broken catalog", is_broken).await?;
    ensure!(broken["message"].is_string(), "{broken}");
    let id = world.hub.cluster("pod").await?["id"].clone();
    let id = id.as_str().context("id")?;
    let differs = world.cli(&differing).await?;
    ensure!(differs.contains(id), "it differs: {differs:?}, {id}");
    let find = ["find", "component", "catalog", "-o", "name"];
    let found = world.cli(&find).await?;
    ensure!(found.contains(id), "it is found: {found:?}, {id}");
    Ok(())
}

async fn another_host_key_stops_the_syncs(world: &World) -> anyhow::Result<()> {
    let failures = world.flux.failures()?.len();
    // Another machine in the place of the Git server, as far as anybody can tell.
    let line = world.ssh.change_host_key().await?;
    world.push("three").await?;
    let alarm = |it: &serde_json::Value| it["code"] == "FL-6805";
    world.fact("the alarm", alarm).await?;
    ensure!(
        world.flux.failures()?.len() > failures,
        "the log has failed syncs"
    );
    let stopped = world.synced().await?;
    ensure!(
        stopped.commit == world.commit("broken").await?,
        "{stopped:?}"
    );
    world.set_host_keys(&line).await?;
    world.until_synced("three").await?;
    world
        .fact("the end of the alarm", |it| it["code"].is_null())
        .await?;
    let is_synced = |it: &serde_json::Value| it["sync"] == "Synced";
    world
        .component("the corrected catalog", is_synced)
        .await
        .map(drop)
}

/// Fails if a file has a private key, in one of its forms.
fn search_below(folder: &Path, private: &BTreeSet<String>) -> anyhow::Result<()> {
    let mut folders = vec![folder.to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(bytes) = std::fs::read(&path) else {
                continue; // a socket
            };
            files += 1;
            for form in forms(private)? {
                let is_found = has(&bytes, &form);
                ensure!(!is_found, "{} has a private key", path.display());
            }
        }
    }
    ensure!(files > 0, "the hub has files");
    Ok(())
}

/// Fails if the memory of the hub has a private key, as it would after one had crossed the link. `known` is a text that the
/// hub has.
fn search_memory(hub: u32, private: &BTreeSet<String>, known: &str) -> anyhow::Result<()> {
    let memory = File::open(format!("/proc/{hub}/mem"))?;
    let maps = std::fs::read_to_string(format!("/proc/{hub}/maps"))?;
    let forms = forms(private)?;
    let mut has_known = false;
    for map in maps.lines().filter(|it| it.contains(" rw-p ")) {
        let (range, _) = map.split_once(' ').context("a range")?;
        let (start, end) = range.split_once('-').context("two ends")?;
        let (start, end) = (
            u64::from_str_radix(start, 16)?,
            u64::from_str_radix(end, 16)?,
        );
        let mut bytes = vec![0; usize::try_from(end - start)?];
        // Guard pages cannot be read.
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        has_known |= has(&bytes, known);
        let found = forms.iter().any(|form| has(&bytes, form));
        ensure!(!found, "a private key is in the hub's memory: {map}");
    }
    ensure!(has_known, "the hub's memory was read");
    Ok(())
}

/// Fails if the bytes within the outer TLS have a private key. The frames of the agent are searched without their masks. The
/// inner TLS hides the requests in them, so the memory of the hub is searched, too.
fn search_wire(inspector: &Inspector, private: &BTreeSet<String>) -> anyhow::Result<()> {
    let (sent, received) = (inspector.sent(), inspector.received());
    ensure!(has(&sent, "GET /connect"), "the request was recorded");
    ensure!(has(&received, "fairlead.v1"), "the answer was recorded");
    for (bytes, who) in [(&sent, "agent"), (&received, "hub")] {
        // Record of a handshake of TLS with its length, which is below 16 KiB.
        let is_handshake =
            |it: &[u8]| matches!(it, [0x16, 0x03, 0x01 | 0x03, 0..=0x40, _, 0x01 | 0x02]);
        let has_inner = bytes.windows(6).any(is_handshake);
        ensure!(has_inner, "no inner TLS of the {who} was recorded");
        for form in forms(private)? {
            ensure!(!has(bytes, &form), "the {who} has sent a private key");
        }
        for seed in seeds(private)? {
            let is_found = bytes.windows(seed.len()).any(|it| it == seed);
            ensure!(!is_found, "the {who} has sent a raw private key");
        }
    }
    Ok(())
}

/// Raw private keys of Ed25519: the 32 bytes before the last public key in OpenSSH's format.
fn seeds(private: &BTreeSet<String>) -> anyhow::Result<Vec<Vec<u8>>> {
    let seed = |encoded: &String| {
        let pem = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        let lines = pem.lines().filter(|it| !it.starts_with("-----"));
        let body = STANDARD.decode(lines.collect::<String>()).ok()?;
        // Its type and its length stand before the first public key.
        let mark = b"ssh-ed25519\0\0\0\x20";
        let start = body.windows(mark.len()).position(|it| it == mark)? + mark.len();
        let public = body.get(start..start + 32)?.to_vec();
        let last = body.windows(32).rposition(|it| it == public)?;
        Some(body.get(last - 32..last)?.to_vec())
    };
    let seeds: Option<_> = private.iter().map(seed).collect();
    seeds.context("a key has another format")
}

/// Private keys as they are in a Secret, and a line from within each.
fn forms(private: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let mut forms = Vec::new();
    for encoded in private {
        let pem = String::from_utf8(STANDARD.decode(encoded)?)?;
        let line = pem.lines().nth(3).context("a line within the key")?;
        forms.extend([encoded.clone(), line.to_owned()]);
    }
    Ok(forms)
}

fn has(bytes: &[u8], text: &str) -> bool {
    let mut windows = bytes.windows(text.len());
    windows.any(|it| it == text.as_bytes())
}
