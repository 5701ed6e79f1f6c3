//! A far site: the hub's and the site's network namespaces with the emulated link of `e2e` between them.
//!
//! Hub, agent and clients need no configuration for it: on either side, the other side's ports appear on
//! 127.0.0.1, and NAT sends their packets over the link. It needs root and TUN devices, and disappears when
//! this process ends.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use fairlead_e2e::{
    Launch, NetNs, Process,
    link::{LinkControl, LinkShape, Toward},
    netns::{Inside, check_support},
};

use fairlead_testkit::process::ProcessLocation;

use crate::{launch::Sides, ports};

const HUB_ADDRESS: &str = "10.99.0.1";
const SITE_ADDRESS: &str = "10.99.0.2";
/// Fixed, so that the same packets are lost in every run.
const LINK_SEED: &str = "1";
const READY_DEADLINE: Duration = Duration::from_secs(10);

pub(crate) struct BenchNetwork {
    hub: NetNs,
    site: NetNs,
    control: LinkControl,
    folder: std::path::PathBuf,
    _link: Process,
}

impl BenchNetwork {
    /// Builds the network. `folder` gets its socket, rules and logs.
    ///
    /// # Errors
    /// This machine does not support it, which one sentence explains, or a program fails.
    pub(crate) async fn build(folder: &Path) -> anyhow::Result<Self> {
        check_support("a far link", &["nft"])?;
        let (hub, site) = tokio::try_join!(NetNs::new("hub", folder), NetNs::new("site", folder))?;
        let socket = folder.join("link.sock");
        let mut link = Launch::new(std::env::current_exe()?)
            .args(["link".as_ref(), socket.as_os_str()])
            .args([LINK_SEED, "tosite", "tohub"])
            .inside(&hub)
            .spawn(folder.join("link.log"))?;
        link.wait_for_log("ready", READY_DEADLINE).await?;
        let network = Self {
            control: LinkControl::new(socket),
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
        for (at, address) in [(&self.hub, HUB_ADDRESS), (&self.site, SITE_ADDRESS)] {
            let address = format!("{address}/24");
            at.run(&["ip", "address", "add", &address, "dev", "wan"])?;
            // Queue for packets that arrive while the emulator is not scheduled.
            at.run(&["ip", "link", "set", "wan", "txqueuelen", "10000", "up"])?;
            at.run(&["sh", "-c", SYSCTL_SETTINGS])?;
        }
        Ok(())
    }

    /// Changes the properties of the link in both directions.
    ///
    /// # Errors
    /// The emulator has ended.
    pub(crate) fn shape(&self, shape: LinkShape) -> anyhow::Result<()> {
        self.control.set(Toward::Both, shape)
    }

    /// Makes the hub's ports reachable from the site, and the site's ports from the hub.
    ///
    /// # Errors
    /// nft fails.
    pub(crate) fn join(&self, [secure, plain]: [u16; 2]) -> anyhow::Result<()> {
        let hubs = format!("{}-{}", ports::FREE.start, ports::FREE.end - 1);
        let upstream = format!("{{ {secure}, {plain} }}");
        self.rules(
            &self.hub,
            &rules(&hubs, (&upstream, SITE_ADDRESS), HUB_ADDRESS),
        )?;
        self.rules(
            &self.site,
            &rules(&upstream, (&hubs, HUB_ADDRESS), SITE_ADDRESS),
        )
    }

    fn rules(&self, at: &NetNs, rules: &str) -> anyhow::Result<()> {
        let file = self.folder.join(format!("{}.nft", at.name()));
        std::fs::write(&file, rules)?;
        at.run(&["nft".as_ref(), "-f".as_ref(), file.as_os_str()])
            .context("translating addresses")?;
        Ok(())
    }

    /// Moves this thread, and commands that it starts, to the hub's side until the guard is dropped.
    pub(crate) fn enter(&self) -> anyhow::Result<Inside> {
        self.hub.enter()
    }

    /// Command prefixes that start programs on either side.
    pub(crate) fn sides(&self) -> Sides {
        Sides {
            hub: self.hub.entrance(),
            site: self.site.entrance(),
        }
    }
}

/// Packets of 127.0.0.1 may leave by the link, translated. TCP must not carry path metrics over from one peer
/// to the next.
const SYSCTL_SETTINGS: &str =
    "cd /proc/sys/net/ipv4 && echo 1 > conf/all/route_localnet && echo 1 > tcp_no_metrics_save";

/// Rules for one side: `here` are its own ports, `there` are the ports and the address of the other side.
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
