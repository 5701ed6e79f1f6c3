//! A far site: two network namespaces, the hub's and the site's, with the emulated link of `e2e` between them. Hub, agent and
//! clients notice nothing of it but time: on either side, the other's ports are those of 127.0.0.1, and NAT sends what goes there over
//! the link. Needs root and TUN devices, and is gone with this process, however that ends.

use std::{ffi::OsString, path::Path, time::Duration};

use anyhow::Context as _;
use fairlead_e2e::{
    Launch, NetNs, Process,
    link::{Control, Shape, Toward},
    netns::{Inside, check_support},
};

use fairlead_testkit::process::Place;

use crate::ports;

const HUB: &str = "10.99.0.1";
const SITE: &str = "10.99.0.2";
/// The same packets are lost in every run.
const SEED: &str = "1";
const READY: Duration = Duration::from_secs(10);

pub(crate) struct Network {
    hub: NetNs,
    site: NetNs,
    control: Control,
    folder: std::path::PathBuf,
    _link: Process,
}

impl Network {
    /// `folder` gets its socket, rules and logs.
    ///
    /// # Errors
    /// This machine cannot run it: one sentence says why. Or a program refuses.
    pub(crate) async fn build(folder: &Path) -> anyhow::Result<Self> {
        check_support("a far link", &["nft"])?;
        let (hub, site) = tokio::try_join!(NetNs::new("hub", folder), NetNs::new("site", folder))?;
        let socket = folder.join("link.sock");
        let mut link = Launch::new(std::env::current_exe()?)
            .args(["link".as_ref(), socket.as_os_str()])
            .args([SEED, "tosite", "tohub"])
            .inside(&hub)
            .spawn(folder.join("link.log"))?;
        link.wait_for_log("ready", READY).await?;
        let network = Self {
            control: Control::new(socket),
            folder: folder.to_owned(),
            hub,
            site,
            _link: link,
        };
        network.wire()?;
        Ok(network)
    }

    fn wire(&self) -> anyhow::Result<()> {
        let site = self.site.pid().to_string();
        self.hub
            .run(&["ip", "link", "set", "tohub", "name", "wan"])?;
        self.hub
            .run(&["ip", "link", "set", "tosite", "netns", &site, "name", "wan"])?;
        for (at, address) in [(&self.hub, HUB), (&self.site, SITE)] {
            let address = format!("{address}/24");
            at.run(&["ip", "address", "add", &address, "dev", "wan"])?;
            // Room for what comes while the emulator waits for its turn.
            at.run(&["ip", "link", "set", "wan", "txqueuelen", "10000", "up"])?;
            at.run(&["sh", "-c", SETTINGS])?;
        }
        Ok(())
    }

    /// What the link is like from now on, both ways.
    ///
    /// # Errors
    /// The emulator is gone.
    pub(crate) fn shape(&self, shape: Shape) -> anyhow::Result<()> {
        self.control.set(Toward::Both, shape)
    }

    /// Makes the hub's ports reachable from the site, and these of the site from the hub.
    ///
    /// # Errors
    /// nft refuses.
    pub(crate) fn join(&self, [secure, plain]: [u16; 2]) -> anyhow::Result<()> {
        let hubs = format!("{}-{}", ports::FREE.start, ports::FREE.end - 1);
        let upstream = format!("{{ {secure}, {plain} }}");
        self.rules(&self.hub, &rules(&hubs, (&upstream, SITE), HUB))?;
        self.rules(&self.site, &rules(&upstream, (&hubs, HUB), SITE))
    }

    fn rules(&self, at: &NetNs, rules: &str) -> anyhow::Result<()> {
        let file = self.folder.join(format!("{}.nft", at.name()));
        std::fs::write(&file, rules)?;
        at.run(&["nft".as_ref(), "-f".as_ref(), file.as_os_str()])
            .context("translating addresses")?;
        Ok(())
    }

    /// This thread and what it starts are at the hub until the guard goes.
    pub(crate) fn enter(&self) -> anyhow::Result<Inside> {
        self.hub.enter()
    }

    /// The words that lead a program to the site.
    pub(crate) fn site(&self) -> Vec<OsString> {
        Place::entrance(&self.site)
    }
}

/// 127.0.0.1 may leave by the link, translated; and what TCP learned of the path from one peer is not given to the next.
const SETTINGS: &str =
    "cd /proc/sys/net/ipv4 && echo 1 > conf/all/route_localnet && echo 1 > tcp_no_metrics_save";

/// `here` are ports of this side, `there` those of the other one and its address.
fn rules(here: &str, there: (&str, &str), own: &str) -> String {
    let (ports, address) = there;
    format!(
        "table ip far {{
  chain arriving {{
    type nat hook prerouting priority dstnat
    iifname wan tcp dport {here} dnat to 127.0.0.1
  }}
  chain leaving {{
    type nat hook output priority -100
    ip daddr 127.0.0.1 tcp dport {ports} dnat to {address}
  }}
  chain left {{
    type nat hook postrouting priority srcnat
    oifname wan ip saddr 127.0.0.1 snat to {own}
  }}
}}
"
    )
}
