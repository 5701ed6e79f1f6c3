//! A network namespace of a test's own, held by a process that ends with this one: the kernel then takes away every link,
//! address and rule in it, whatever ended the test. It has no name, so that any number of runs can be at once.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Launch, Process};

/// For the namespace to be there, and for a connection made from it.
const SOON: Duration = Duration::from_secs(10);

/// Gives the namespace `$1` for /etc/hosts, brings loopback up, and stays.
const HOLD: &str =
    "mount --bind \"$1\" /etc/hosts && ip link set lo up && echo up && exec sleep infinity";

/// One network namespace, with an /etc/hosts of its own. It lives while a clone of this does.
#[derive(Debug, Clone)]
pub struct NetNs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    hosts: PathBuf,
    holder: Process,
}

impl NetNs {
    /// A new one with nothing but loopback in it. `name` is for messages; `folder` gets its hosts file and a log.
    ///
    /// # Errors
    /// Not root, or programs are missing; the error quotes what they said.
    pub async fn new(name: &str, folder: &Path) -> anyhow::Result<Self> {
        let hosts = folder.join(format!("{name}.hosts"));
        fs::write(&hosts, "127.0.0.1 localhost\n")?;
        let mut holder = Launch::new("unshare")
            .args(["--net", "--mount", "--", "sh", "-c", HOLD, "sh"])
            .args([hosts.as_os_str()])
            .spawn(folder.join(format!("{name}.holder.log")))?;
        holder.wait_for_log("up", SOON).await?;
        let name = name.to_owned();
        Ok(Self(Arc::new(Inner {
            name,
            hosts,
            holder,
        })))
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The process that holds it: `nsenter -t PID -n -m` is the way in for a person.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.holder.pid()
    }

    /// What names mean in here, beside localhost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_hosts(&self, hosts: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut text = "127.0.0.1 localhost\n".to_owned();
        for (name, address) in hosts {
            text.push_str(&format!("{address} {name}\n"));
        }
        // In its place and not renamed: the mount shows the file that was there.
        Ok(fs::write(&self.0.hosts, text)?)
    }

    /// The words to put before a program so that it runs in here.
    #[must_use]
    pub fn entrance(&self) -> Vec<OsString> {
        let own = self.space("");
        vec![
            "nsenter".into(),
            format!("--net={own}net").into(),
            format!("--mount={own}mnt").into(),
            "--".into(),
        ]
    }

    fn space(&self, which: &str) -> String {
        format!("/proc/{}/ns/{which}", self.pid())
    }

    /// Runs a short program in here to its end, as `ip` or `nft`.
    ///
    /// # Errors
    /// It fails; the error quotes what it said.
    pub fn run<A: AsRef<OsStr>>(&self, words: &[A]) -> anyhow::Result<String> {
        let mut entrance = self.entrance().into_iter();
        let output = Command::new(entrance.next().unwrap_or_default())
            .args(entrance)
            .args(words)
            .output()?;
        let Output {
            status,
            stdout,
            stderr,
        } = output;
        if !status.success() {
            let line: Vec<_> = words
                .iter()
                .map(|word| word.as_ref().to_string_lossy())
                .collect();
            let said = String::from_utf8_lossy(&stderr);
            bail!(
                "{}: {}: {status}: {}",
                self.name(),
                line.join(" "),
                said.trim_end()
            );
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// A TCP connection that is made from in here, and can be used from anywhere.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn connect(&self, to: SocketAddr) -> anyhow::Result<TcpStream> {
        let connected = self.within(move || TcpStream::connect_timeout(&to, SOON))?;
        connected.with_context(|| format!("{to} from {}", self.name()))
    }

    /// A listener in here, whose connections can be used from anywhere.
    ///
    /// # Errors
    /// The address is in use, or not one of here.
    pub fn listen(&self, at: SocketAddr) -> anyhow::Result<TcpListener> {
        let listening = self.within(move || TcpListener::bind(at))?;
        listening.with_context(|| format!("{at} in {}", self.name()))
    }

    /// This thread's network is this one until the guard goes, and so is that of programs it starts meanwhile. Other threads stay
    /// where they are, and the mounts too.
    ///
    /// # Errors
    /// It is gone, or this process is not root any more.
    pub fn enter(&self) -> anyhow::Result<Inside> {
        let (before, space) = (
            File::open("/proc/thread-self/ns/net")?,
            File::open(self.space("net"))?,
        );
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(Inside {
            before,
            _of_this_thread: PhantomData,
        })
    }

    /// On a thread of its own, which then ends, so that none is left in here by a panic.
    fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let space = File::open(self.space("net"))?;
        let worked = thread::spawn(move || {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
            anyhow::Ok(work())
        });
        worked.join().ok().context("the thread panicked")?
    }
}

/// Stands for the time that a thread is in a namespace; must be dropped on that thread, and cannot leave it.
#[derive(Debug)]
pub struct Inside {
    before: File,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let back = move_into_link_name_space(self.before.as_fd(), Some(LinkNameSpaceType::Network));
        if let Err(error) = back {
            eprintln!("cannot leave a network namespace: {error}");
        }
    }
}

/// Whether this machine can run `rig`, which needs namespaces, TUN devices, rules of nft and these programs.
///
/// # Errors
/// One sentence on what is missing.
pub fn able(rig: &str, programs: &[&str]) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "{rig} needs root, for namespaces, nft and TUN devices"
    );
    ensure!(
        Path::new("/dev/net/tun").exists(),
        "{rig} needs TUN devices, and this machine has no /dev/net/tun"
    );
    for program in ["ip", "nsenter", "unshare", "setpriv", "mount"]
        .iter()
        .chain(programs)
    {
        let mut found = Command::new("sh");
        found.args(["-c", "command -v \"$1\"", "sh", program]);
        ensure!(
            quiet(found)?,
            "{rig} needs `{program}`, which is not installed: run e2e/net/setup"
        );
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--", "nft", "list", "ruleset"]);
    ensure!(
        quiet(unshare)?,
        "{rig} may not make network namespaces here: CAP_SYS_ADMIN and CAP_NET_ADMIN are missing"
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
