//! What the tests of one run share, because it takes seconds to be there: the site's namespace with its cluster. Each test
//! in its turn builds a network of its own around it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, NetNs};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::folder::Folder;

/// Programs without which nothing here runs.
const PROGRAMS: [&str; 7] = [
    "ip",
    "nft",
    "conntrack",
    "nsenter",
    "unshare",
    "setpriv",
    "mount",
];

/// The site: a real cluster on the loopback of a namespace that has no way out yet.
#[derive(Debug)]
pub struct Ground {
    pub site: NetNs,
    pub cluster: Cluster,
    turn: Mutex<()>,
    _folder: Folder,
}

impl Ground {
    /// The one of this test binary, started by whoever asks first, for one test at a time.
    ///
    /// # Errors
    /// This machine cannot run it: one sentence says why. Or the cluster does not come up.
    pub async fn shared() -> anyhow::Result<(&'static Self, MutexGuard<'static, ()>)> {
        static SHARED: OnceCell<Ground> = OnceCell::const_new();
        let ground = SHARED.get_or_try_init(Self::start).await?;
        Ok((ground, ground.turn.lock().await))
    }

    async fn start() -> anyhow::Result<Self> {
        able()?;
        let folder = Folder::new()?;
        let site = NetNs::new("site", folder.path()).await?;
        let cluster = Cluster::start_in(&site).await?;
        Ok(Self {
            site,
            cluster,
            turn: Mutex::new(()),
            _folder: folder,
        })
    }
}

/// Whether this machine can run the rig at all.
///
/// # Errors
/// One sentence on what is missing.
pub fn able() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the network rig needs root, for namespaces, nft and TUN devices: run `make net` as root"
    );
    ensure!(
        Path::new("/dev/net/tun").exists(),
        "the network rig needs TUN devices, and this machine has no /dev/net/tun"
    );
    for program in PROGRAMS {
        let mut found = Command::new("sh");
        found.args(["-c", "command -v \"$1\"", "sh", program]);
        ensure!(
            quiet(found)?,
            "the network rig needs `{program}`, which is not installed: run e2e/net/setup"
        );
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--", "nft", "list", "ruleset"]);
    ensure!(
        quiet(unshare)?,
        "the network rig may not make network namespaces here: CAP_SYS_ADMIN and CAP_NET_ADMIN are missing"
    );
    Ok(())
}

fn quiet(mut command: Command) -> anyhow::Result<bool> {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command.status().context("cannot start programs")?.success())
}
