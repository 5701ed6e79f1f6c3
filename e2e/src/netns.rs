//! Network namespaces. A child process keeps each one open; when it ends, the kernel deletes every link, address and
//! rule in it. Namespaces have no global name, so that test runs can overlap.

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

use fairlead_testkit::process::{Launch, Process, ProcessLocation};

/// Deadline of a new namespace.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline of a connection from a namespace.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Script of the process that keeps the namespace: mounts `$1` at /etc/hosts, brings loopback up, sleeps.
const KEEPER_SCRIPT: &str =
    "mount --bind \"$1\" /etc/hosts && ip link set lo up && echo up && exec sleep infinity";

/// A network namespace with its own /etc/hosts. It exists until the last clone of this is dropped.
#[derive(Debug, Clone)]
pub struct NetNs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    hosts: PathBuf,
    keeper: Process,
}

impl NetNs {
    /// Creates a namespace that has only loopback. `name` is for messages; `folder` gets the hosts file and a log.
    ///
    /// # Errors
    /// This process is not root, or programs are missing. The error quotes their output.
    pub async fn new(name: &str, folder: &Path) -> anyhow::Result<Self> {
        let hosts = folder.join(format!("{name}.hosts"));
        fs::write(&hosts, "127.0.0.1 localhost\n")?;
        let mut keeper = Launch::new("unshare")
            .args(["--net", "--mount", "--", "sh", "-c", KEEPER_SCRIPT, "sh"])
            .args([hosts.as_os_str()])
            .spawn(folder.join(format!("{name}.keeper.log")))?;
        keeper.wait_for_log("up", START_DEADLINE).await?;
        let name = name.to_owned();
        Ok(Self(Arc::new(Inner {
            name,
            hosts,
            keeper,
        })))
    }

    /// Name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Process that keeps the namespace. `nsenter -t PID -n -m` opens a shell in it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.keeper.pid()
    }

    /// Replaces the host names of the namespace; localhost stays.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_hosts(&self, hosts: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut text = "127.0.0.1 localhost\n".to_owned();
        for (name, address) in hosts {
            text.push_str(&format!("{address} {name}\n"));
        }
        // Written in place: a bind mount keeps showing the old file after a rename.
        Ok(fs::write(&self.0.hosts, text)?)
    }

    fn space(&self, which: &str) -> String {
        format!("/proc/{}/ns/{which}", self.pid())
    }

    /// Runs a short program, such as `ip` or `nft`, in the namespace to its end.
    ///
    /// # Errors
    /// The program fails. The error quotes its standard error.
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
            let reason = String::from_utf8_lossy(&stderr);
            bail!(
                "{}: {}: {status}: {}",
                self.name(),
                line.join(" "),
                reason.trim_end()
            );
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// Opens a TCP connection from the namespace. Any thread may use it.
    ///
    /// # Errors
    /// The peer does not answer in time.
    pub fn connect(&self, to: SocketAddr) -> anyhow::Result<TcpStream> {
        let connected = self.within(move || TcpStream::connect_timeout(&to, CONNECT_DEADLINE))?;
        connected.with_context(|| format!("{to} from {}", self.name()))
    }

    /// Opens a listener in the namespace. Any thread may use its connections.
    ///
    /// # Errors
    /// The address is in use, or does not belong to the namespace.
    pub fn listen(&self, at: SocketAddr) -> anyhow::Result<TcpListener> {
        let listening = self.within(move || TcpListener::bind(at))?;
        listening.with_context(|| format!("{at} in {}", self.name()))
    }

    /// Moves this thread, and commands that it starts, into the network namespace until the guard is dropped.
    ///
    /// Other threads and the mounts stay. [`Launch::spawn`] starts programs on another thread, so they need [`Launch::inside`].
    ///
    /// # Errors
    /// The namespace is gone, or this process is no longer root.
    pub fn enter(&self) -> anyhow::Result<Inside> {
        let (before, space) = (
            File::open("/proc/thread-self/ns/net")?,
            File::open(self.space("net"))?,
        );
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(Inside {
            before,
            _not_send: PhantomData,
        })
    }

    /// Runs `work` on a new thread, so that a panic leaves no thread in the namespace.
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

impl ProcessLocation for NetNs {
    fn entrance(&self) -> Vec<OsString> {
        let own = self.space("");
        vec![
            "nsenter".into(),
            format!("--net={own}net").into(),
            format!("--mount={own}mnt").into(),
            "--".into(),
        ]
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }
}

/// Guard of a thread in a namespace. Dropping it moves the thread back; it cannot be sent to another thread.
#[derive(Debug)]
pub struct Inside {
    before: File,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let back = move_into_link_name_space(self.before.as_fd(), Some(LinkNameSpaceType::Network));
        if let Err(error) = back {
            eprintln!("cannot leave a network namespace: {error}");
        }
    }
}

/// Checks that this machine can run `rig`: root, namespaces, TUN devices, nft, and `programs`.
///
/// # Errors
/// One sentence about the first missing part.
pub fn check_support(rig: &str, programs: &[&str]) -> anyhow::Result<()> {
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
        "{rig} cannot create network namespaces here: CAP_SYS_ADMIN and CAP_NET_ADMIN are missing"
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
