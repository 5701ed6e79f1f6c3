//! Packets that leave the site beside its proxy, captured by tcpdump.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::{Launch, NetNs, Process, eventually};

use crate::net::{CORP, Net};
use crate::squid::SQUID_PORT;

const STEP_DEADLINE: Duration = Duration::from_secs(20);
/// Port at corp without a listener: its one packet proves that the capture is alive and has seen all before it.
const PROBE_PORT: u16 = 9;

/// A running capture on the site's only device.
#[derive(Debug)]
pub struct Capture {
    site: NetNs,
    process: Process,
}

impl Capture {
    /// Captures every packet but those of TCP connections with the proxy, and those of the kernel for neighbours and groups.
    ///
    /// # Errors
    /// tcpdump is not installed, or does not start. The error quotes its output.
    pub async fn beside_the_proxy(net: &Net) -> anyhow::Result<Self> {
        let proxy = format!("tcp and host {CORP} and port {SQUID_PORT}");
        let filter = format!("not arp and not icmp6 and not ip6 multicast and not ({proxy})");
        let mut process = Launch::new("tcpdump")
            .args(["-i", "corp", "-n", "-l", "-Z", "root", "--immediate-mode"])
            .args([&filter])
            .inside(&net.site)
            .spawn(net.folder().join("capture.log"))?;
        process.wait_for_log("listening on", STEP_DEADLINE).await?;
        Ok(Self {
            site: net.site.clone(),
            process,
        })
    }

    /// Checks that there was no such packet so far.
    ///
    /// # Errors
    /// The first of them, or tcpdump has ended.
    pub async fn is_empty(&mut self) -> anyhow::Result<()> {
        // It is refused: nobody listens there.
        drop(
            self.site
                .connect(SocketAddr::new(CORP.parse()?, PROBE_PORT)),
        );
        let probe = format!("{CORP}.{PROBE_PORT}:");
        self.process.wait_for_log(&probe, STEP_DEADLINE).await?;
        let log = eventually(STEP_DEADLINE, "the end of the capture's line", async || {
            self.process.log().ok().filter(|log| log.ends_with('\n'))
        });
        let log = log.await?;
        let packets = log.lines().filter(|line| line.contains(" > "));
        let others: Vec<&str> = packets
            .filter(|line| !line.contains(&format!("{CORP}.{PROBE_PORT}")))
            .collect();
        ensure!(
            others.is_empty(),
            "{} packets beside the proxy:\n{}",
            others.len(),
            others.join("\n")
        );
        Ok(())
    }
}
