//! Hub and agent from one static file: in a chroot without any other file, and in the image's root file system, where they
//! are no root and can write nothing. kubectl goes through both.

use std::{
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Joining, Process, children, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{chroot::Chroot, released};

const STEP_DEADLINE: Duration = Duration::from_secs(60);
/// Goal of the image without Helm, as a registry shows it and a node pulls it: a compressed layer.
const MAX_LAYER_BYTES: u64 = 30_000_000;
/// User of the image.
const IMAGE_USER: u32 = 65_532;

#[tokio::test]
async fn static_program_serves_in_an_empty_chroot() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    fs::copy(released("FAIRLEAD_STATIC")?, root.path().join("fairlead"))?;
    let chroot = Chroot::new(root.path(), 0)?;
    hub_and_agent_serve_kubectl(&chroot, "/fairlead").await
}

#[tokio::test]
async fn image_serves_without_root_and_without_writing() -> anyhow::Result<()> {
    let image = released("FAIRLEAD_IMAGE_ROOT")?;
    let root = tempfile::tempdir()?;
    let copied = std::process::Command::new("cp")
        .args(["-a", "--", &format!("{}/.", image.display())])
        .arg(root.path())
        .status()?;
    ensure!(copied.success());
    let chroot = Chroot::new(root.path(), IMAGE_USER)?;
    hub_and_agent_serve_kubectl(&chroot, "/usr/local/bin/fairlead").await
}

#[test]
fn image_is_small() -> anyhow::Result<()> {
    let image = released("FAIRLEAD_IMAGE_ROOT")?;
    let tar = || std::process::Command::new("tar");
    let unpacked = packed_bytes(tar().args(["-c", "-C"]).arg(&image).arg("."))?;
    let layer = packed_bytes(tar().args(["-c", "-z", "-C"]).arg(&image).arg("."))?;
    eprintln!("image without Helm: {layer} bytes as a layer of a registry, {unpacked} unpacked");
    ensure!(layer < MAX_LAYER_BYTES, "{layer} bytes");
    Ok(())
}

/// Bytes of an archive on standard output.
fn packed_bytes(tar: &mut std::process::Command) -> anyhow::Result<u64> {
    let mut tar = tar.stdout(Stdio::piped()).spawn()?;
    let mut archive = tar.stdout.take().context("standard output")?;
    let bytes = io::copy(&mut archive, &mut io::sink())?;
    let ended = tar.wait()?;
    ensure!(ended.success(), "{ended}");
    Ok(bytes)
}

async fn hub_and_agent_serve_kubectl(chroot: &Chroot, program: &str) -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let notified = NotifySocket::new(program)?;
    let ready = chroot.folder().join("ready.json");
    let hub = chroot.launch(program).args([
        "dev".as_ref(),
        "--data".as_ref(),
        chroot.folder().join("data").as_os_str(),
        "--ready-file".as_ref(),
        ready.as_os_str(),
    ]);
    let hub = hub.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let hub = hub.env("NOTIFY_SOCKET", &notified.name);
    let mut hub = hub.spawn(chroot.folder().join("hub.log"))?;
    hub.wait_for_file(&ready, STEP_DEADLINE).await?;
    notified.expect("READY=1")?;

    let cli = |args: &[&str]| chroot.run(chroot.launch(program).args(args));
    let joining = cli(&["cluster", "create", "demo", "-o", "json"])?;
    let joining: Joining = serde_json::from_str(&joining)?;
    let kubeconfig = chroot.write("site.yaml", &fs::read(cluster.kubeconfig())?)?;
    let agent = chroot.launch(program).args([
        "agent".as_ref(),
        "--kubeconfig".as_ref(),
        kubeconfig.as_os_str(),
        "--state".as_ref(),
        chroot.folder().join("agent").as_os_str(),
    ]);
    let agent = agent.env("FAIRLEAD_JOIN", &joining.join);
    let mut agent = agent.spawn(chroot.folder().join("agent.log"))?;
    let connected = eventually(STEP_DEADLINE, "a connected agent", async || {
        let shown = cli(&["cluster", "get", "demo", "-o", "json"]).ok()?;
        let shown: Value = serde_json::from_str(&shown).ok()?;
        (shown.pointer("/status/state")? == "Connected").then_some(())
    });
    connected
        .await
        .with_context(|| agent.log().unwrap_or_default())?;

    let through_hub = chroot.write("people.yaml", cli(&["kubeconfig"])?.as_bytes())?;
    let kubectl = cluster.kubectl().kubeconfig(through_hub);
    let namespaces = kubectl
        .args(["get", "namespaces", "-o", "name"])
        .run()
        .await?;
    let namespaces = namespaces.success()?;
    ensure!(namespaces.contains("namespace/kube-system"), "{namespaces}");

    for process in [&hub, &agent] {
        confined(process, chroot)?;
    }
    for process in [&mut agent, &mut hub] {
        kill_process(program_of(process)?, Signal::TERM)?;
        let ended = process.wait(STEP_DEADLINE).await?;
        ensure!(ended.success(), "{ended}: {}", process.log()?);
    }
    notified.expect("STOPPING=1")
}

/// The program in the chroot.
fn program_of(process: &Process) -> anyhow::Result<Pid> {
    let inner = children(process.pid())?;
    let inner = inner.first().context("the program has ended")?;
    Pid::from_raw(i32::try_from(*inner)?).context("process id")
}

/// The program runs as the user of the chroot, and its root is read-only.
fn confined(process: &Process, chroot: &Chroot) -> anyhow::Result<()> {
    let folder = format!("/proc/{}", program_of(process)?.as_raw_nonzero());
    let status = fs::read_to_string(format!("{folder}/status"))?;
    let user = chroot.user();
    let ids = format!("Uid:\t{user}\t{user}\t{user}\t{user}\n");
    ensure!(status.contains(&ids), "{status}");
    let mounts = fs::read_to_string(format!("{folder}/mountinfo"))?;
    let root = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut root = root.filter(|fields| fields.get(4) == Some(&"/"));
    let read_only = |fields: Vec<&str>| fields.get(5).is_some_and(|it| it.starts_with("ro"));
    ensure!(root.next().is_some_and(read_only), "{mounts}");
    Ok(())
}

/// Socket of a service manager that is no file, so that programs in a chroot reach it.
struct NotifySocket {
    name: String,
    socket: UnixDatagram,
}

impl NotifySocket {
    fn new(program: &str) -> anyhow::Result<Self> {
        let name = format!(
            "fairlead{}-{}",
            program.replace('/', "-"),
            std::process::id()
        );
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_read_timeout(Some(STEP_DEADLINE))?;
        let name = format!("@{name}");
        Ok(NotifySocket { name, socket })
    }

    fn expect(&self, state: &str) -> anyhow::Result<()> {
        let mut buffer = [0; 64];
        let length = self.socket.recv(&mut buffer)?;
        let got = buffer.get(..length).unwrap_or_default();
        ensure!(got == state.as_bytes(), "{}", String::from_utf8_lossy(got));
        Ok(())
    }
}

/// Names come from the files of the chroot, although its nsswitch.conf names a service that only a library could have.
#[test]
fn names_are_found_without_libraries() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    fs::copy(released("FAIRLEAD_STATIC")?, root.path().join("fairlead"))?;
    let etc = root.path().join("etc");
    fs::create_dir(&etc)?;
    fs::write(etc.join("nsswitch.conf"), "hosts: unknown\n")?;
    fs::write(etc.join("hosts"), "127.0.0.1 hub.test\n")?;
    // A command without any CA ends before it looks a name up.
    let authorities = Path::new("etc/ssl/certs/ca-certificates.crt");
    let inside = root.path().join(authorities);
    fs::create_dir_all(inside.parent().context("a folder")?)?;
    fs::copy(Path::new("/").join(authorities), inside)?;
    let chroot = Chroot::new(root.path(), 0)?;
    let call = |name: &str| {
        let whoami = chroot.launch("/fairlead").args(["whoami"]);
        // Nothing listens at port 1.
        let whoami = whoami.env("FAIRLEAD_URL", format!("https://{name}:1"));
        chroot.run(whoami.env("FAIRLEAD_TOKEN", "fl_none"))
    };
    let known = call("hub.test").unwrap_err().to_string();
    ensure!(known.contains("refused"), "{known}");
    let unknown = call("other.test").unwrap_err().to_string();
    ensure!(unknown.contains("lookup"), "{unknown}");
    Ok(())
}
