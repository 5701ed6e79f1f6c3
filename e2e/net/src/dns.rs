//! A real DNS server of the company, dnsmasq on corp, for the site.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use fairlead_e2e::{Launch, NetNs, Process};
use rustix::process::Signal;

use crate::HUB;
use crate::net::{CORP, Net};

const STEP_DEADLINE: Duration = Duration::from_secs(20);

/// A running DNS server that the site's resolver uses. The resolver's file is restored when this is dropped.
#[derive(Debug)]
pub struct Dns {
    site: NetNs,
    records: PathBuf,
    process: Process,
}

impl Dns {
    /// Starts it with these addresses of the hub. The site's hosts file gets empty.
    ///
    /// # Errors
    /// dnsmasq is not installed, or does not start. The error quotes its output.
    pub async fn start(net: &Net, addresses: &[&str]) -> anyhow::Result<Self> {
        let records = net.folder().join("dns.hosts");
        fs::write(&records, lines(addresses))?;
        let listen = format!("--listen-address={CORP}");
        let hosts = format!("--addn-hosts={}", records.display());
        let process = Launch::new("dnsmasq")
            .args(["--keep-in-foreground", "--log-facility=-", "--log-queries"])
            .args(["--conf-file=/dev/null", "--no-resolv", "--no-hosts"])
            .args(["--bind-interfaces", "--user=root", "--pid-file="])
            .args([&listen, &hosts])
            .inside(&net.corp)
            .spawn(net.folder().join("dns.log"))?;
        let mut dns = Self {
            site: net.site.clone(),
            records,
            process,
        };
        let ready = format!("read {}", dns.records.display());
        dns.process.wait_for_log(&ready, STEP_DEADLINE).await?;
        net.site.set_hosts(&[])?;
        let resolver = net.folder().join("resolv.conf");
        fs::write(&resolver, format!("nameserver {CORP}\n"))?;
        let mount = ["mount".as_ref(), "--bind".as_ref(), resolver.as_os_str()];
        net.site
            .run(&[&mount[..], &["/etc/resolv.conf".as_ref()]].concat())?;
        Ok(dns)
    }

    /// Replaces the addresses of the hub.
    ///
    /// # Errors
    /// The server has ended.
    pub async fn change(&mut self, addresses: &[&str]) -> anyhow::Result<()> {
        fs::write(&self.records, lines(addresses))?;
        let times = |log: &str| log.matches("dns.hosts - ").count();
        let before = times(&self.process.log()?);
        self.process.signal(Signal::HUP)?;
        let process = &self.process;
        let read = fairlead_e2e::eventually(STEP_DEADLINE, "records that are read", async || {
            (times(&process.log().ok()?) > before).then_some(())
        });
        read.await
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        // The site outlives its test.
        drop(self.site.run(&["umount", "/etc/resolv.conf"]));
    }
}

fn lines(addresses: &[&str]) -> String {
    let lines = addresses.iter().map(|address| format!("{address} {HUB}\n"));
    lines.collect()
}
