//! A hub with a full disk: writes fail with their code, reads and kubectl continue, and writes work again
//! once there is space. The disk is a small one mounted for the test, which needs root.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may panic, waits for one future at a time, and prints its progress"
)]

#[path = "killed/client.rs"]
mod client;

use std::{fs, io::Write, path::Path, time::Duration};

use anyhow::ensure;
use fairlead_e2e::{BACKUP_RECIPIENT, Cluster, Hub, Site, eventually};
use fairlead_testkit::mounts;
use serde_json::{Value, json};

use client::{LoadClient, Request};

/// Mount options: space for the hub's keys and some hundred tenants.
const DISK_OPTIONS: &str = "size=6m,mode=0700";
const AUDIT_DISK_OPTIONS: &str = "size=2m,mode=0700";
/// Less than a recording reserves.
const SPACE_FOR_EVENTS_BYTES: u64 = 128 << 10;
const AUDIT_DEADLINE: Duration = Duration::from_secs(60);
/// Bytes that are freed at the end.
const BALLAST_BYTES: usize = 2 << 20;
/// Bytes written per tenant while there is much space.
const LARGE_TENANT_BYTES: usize = 4096;
/// Most tenants; more than the disk holds.
const MAX_TENANTS: usize = 10_000;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["a full disk", folder] => within(folder.as_ref()),
        // A test runner asks for tests by other names.
        ["--list", ..] => Ok(()),
        _ => {
            let folder = tempfile::tempdir()?;
            mounts::restart_isolated("a full disk", folder.path());
            Ok(())
        }
    }
}

/// Runs in a mount namespace of its own.
#[tokio::main]
async fn within(disk: &Path) -> anyhow::Result<()> {
    if let Err(why) = mounts::run("mount", &["-t", "tmpfs", "-o", DISK_OPTIONS, "none"], disk) {
        println!("SKIPPED: a hub with a full disk: {why}");
        return Ok(());
    }
    let told = writes_fail_with_a_code_and_everything_else_continues(disk).await;
    // The mount ends with this process, but the folder must be empty when its owner deletes it.
    let _ = mounts::run("umount", &["--lazy"], disk);
    told?;
    mounts::run(
        "mount",
        &["-t", "tmpfs", "-o", AUDIT_DISK_OPTIONS, "none"],
        disk,
    )
    .map_err(anyhow::Error::msg)?;
    let told = a_full_audit_disk_refuses_requests_until_there_is_space(disk).await;
    let _ = mounts::run("umount", &["--lazy"], disk);
    told?;
    println!("a hub with a full disk reported it, and recovered once there was space");
    Ok(())
}

async fn writes_fail_with_a_code_and_everything_else_continues(disk: &Path) -> anyhow::Result<()> {
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES])?;
    let (cluster, mut hub) = tokio::try_join!(Cluster::start_lite(), Hub::start_server_on(disk))?;
    hub.log_in().await?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let kubectl = hub.kubectl(&cluster, "demo").await?;
    let mut admin = Admin::of(&hub)?;
    // Without space for large writes there may be some for small ones.
    admin.fills_it(LARGE_TENANT_BYTES).await?;
    admin.fills_it(0).await?;
    admin.fills_it_by_hand(&hub).await?;
    let full = "database or disk is full";
    hub.process.wait_for_log(full, AUDIT_DEADLINE).await?;

    admin.reads().await?;
    let namespaces = kubectl.args(["get", "namespaces", "-o", "name"]);
    let shown = namespaces.clone().run().await?.success()?;
    ensure!(shown.contains("namespace/default"), "{shown}");
    hub.wait_state("demo", "Connected").await?;

    fs::remove_file(ballast)?;
    let (status, said) = admin.makes_one(0).await?;
    ensure!(status == 201, "there is room: {status} {said}");
    let name = json!({ "displayName": "Ours" });
    let rename = Request::patch("/tenants/t-default", &admin.token, name);
    admin.client.good(&rename).await?;
    admin.reads().await?;

    hub.kill_and_restart().await?;
    admin.client = LoadClient::new(hub.front()?);
    admin.reads().await?;
    let data = hub.data().display().to_string();
    let whole = hub.cli(["store", "check", "--data", &data]).await?;
    ensure!(whole.success()? == "The store is whole.\n");
    Ok(())
}

/// A hub with its default `on-full = "refuse"`, and with required recordings.
async fn a_full_audit_disk_refuses_requests_until_there_is_space(
    disk: &Path,
) -> anyhow::Result<()> {
    let mut hub = Hub::start_server_with_audit_on(
        disk,
        &format!("[recording]\nrecipient = \"{BACKUP_RECIPIENT}\"\n"),
    )
    .await?;
    hub.log_in().await?;
    let cluster = Cluster::start().await?;
    let joining = hub.create_cluster("demo").await?;
    let _site = Site::start(&hub, &cluster, &joining).await?;
    let kubectl = hub.kubectl(&cluster, "demo").await?;
    let pods = ["get", "pods", "-l", "app=demo", "-o", "name"];
    let pods = kubectl.clone().args(pods).run().await?.success()?;
    let pod = pods.lines().next().unwrap_or_default().to_owned();
    let get = kubectl.clone().args(["get", "namespaces", "-o", "name"]);
    let exec = kubectl.args(["exec", &pod, "--", "sh", "-c", "echo seen"]);
    get.clone().run().await?.success()?;
    ensure!(exec.clone().run().await?.success()? == "seen\n");

    // Enough for events, and too little for a recording.
    let ballast = disk.join("ballast");
    let mut file = fs::File::create(&ballast)?;
    while free_bytes(disk)? > SPACE_FOR_EVENTS_BYTES {
        file.write_all(&[1; 4096])?;
    }
    get.clone().run().await?.success()?;
    let refused = exec.run().await?;
    ensure!(refused.stderr.contains("FL-5109"), "{refused:?}");

    while file.write_all(&[1; 4096]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
    // The last page of the log has space for some more events.
    eventually(AUDIT_DEADLINE, "a refusal", async || {
        let refused = get.clone().run().await.ok()?;
        refused.stderr.contains("FL-5107").then_some(())
    })
    .await?;
    let cause = "audit log cannot be written";
    hub.process.wait_for_log(cause, AUDIT_DEADLINE).await?;
    drop(file);
    fs::remove_file(ballast)?;
    eventually(AUDIT_DEADLINE, "an answer", async || {
        let answered = get.clone().run().await.ok()?;
        answered.status.success().then_some(())
    })
    .await?;
    let dir = hub.data().join("audit").display().to_string();
    let verified = hub.cli(["audit", "verify", &dir]).await?;
    ensure!(
        verified.text().contains("none removed or changed")
            || verified.text().contains("incomplete"),
        "{verified:?}"
    );
    Ok(())
}

fn free_bytes(disk: &Path) -> anyhow::Result<u64> {
    let state = rustix::fs::statvfs(disk)?;
    Ok(state.f_bavail * state.f_frsize)
}

/// A caller that creates tenants and counts them.
struct Admin {
    client: LoadClient,
    token: String,
    kept: usize,
}

impl Admin {
    fn of(hub: &Hub) -> anyhow::Result<Self> {
        Ok(Admin {
            client: LoadClient::new(hub.front()?),
            token: hub.token()?,
            kept: 0,
        })
    }

    async fn makes_one(&mut self, size: usize) -> anyhow::Result<(u16, Value)> {
        let filler = "x".repeat(size);
        let tenant = json!({
            "id": format!("t-{}", self.kept),
            "gitRepo": { "url": "ssh://git@git.example/a/b.git" },
            "annotations": { "filler": filler },
        });
        let made = Request::post("/tenants", &self.token, tenant);
        let (status, said) = self.client.ask(&made).await?;
        self.kept += usize::from(status == 201);
        Ok((status, said))
    }

    /// Creates tenants until three writes in a row fail for lack of space.
    async fn fills_it(&mut self, size: usize) -> anyhow::Result<()> {
        let mut refused = 0;
        while refused < 3 {
            ensure!(self.kept < MAX_TENANTS, "the disk has no end");
            let (status, said) = self.makes_one(size).await?;
            if status == 201 {
                continue;
            }
            refused += 1;
            let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
            ensure!(
                status == 507
                    && said["code"] == "FL-5103"
                    && text("reason") == "the hub's store cannot be written"
                    && text("next").contains("Free space"),
                "{status} {said}"
            );
        }
        ensure!(self.kept > 5, "{}", self.kept);
        Ok(())
    }

    /// Creates tenants with the command line until that fails as well.
    async fn fills_it_by_hand(&mut self, hub: &Hub) -> anyhow::Result<()> {
        let refused = loop {
            let made = hub
                .cli(["tenant", "create", &self.kept.to_string()])
                .await?;
            if !made.status.success() {
                break made;
            }
            self.kept += 1;
            ensure!(self.kept < MAX_TENANTS, "the disk has no end");
        };
        let told = ["FL-5103", "cannot be written", "Free space"];
        ensure!(
            refused.status.code() == Some(1) && told.iter().all(|it| refused.stderr.contains(it)),
            "{refused:?}"
        );
        Ok(())
    }

    /// Checks that exactly the acknowledged tenants exist, in memory and on disk.
    async fn reads(&mut self) -> anyhow::Result<()> {
        let tenants = Request::get("/tenants", &self.token);
        let tenants = self.client.good(&tenants).await?;
        let ids = tenants.as_array().into_iter().flatten().map(|it| &it["id"]);
        let made = ids.filter(|id| **id != "t-default").count();
        ensure!(
            made == self.kept,
            "{} were kept, {made} are there",
            self.kept
        );
        let last = format!("/v1/audit?tenant=t-{}", self.kept - 1);
        let log = Request::get(last, &self.token);
        let log = self.client.good(&log).await?;
        let lines = log["items"].as_array().map(Vec::len);
        ensure!(lines == Some(1), "{log}");
        Ok(())
    }
}
