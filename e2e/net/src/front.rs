//! Load balancers in front of the hub, on edge: haproxy that passes TLS through, and haproxy or nginx that
//! terminate TLS and understand HTTP and WebSocket.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use fairlead_e2e::{Launch, NetNs, Process, eventually};
use fairlead_testkit::tls::TestCa;

use crate::HUB;
use crate::net::{EDGE, HUB_ADDRESS, Net};

const START_DEADLINE: Duration = Duration::from_secs(20);

/// How a load balancer treats TLS.
#[derive(Debug, Clone, Copy)]
pub enum Mode<'a> {
    /// Passes TLS through.
    Tcp,
    /// Terminates TLS with a certificate of this CA and opens another connection to the hub.
    Http(&'a TestCa),
}

/// One load balancer at [`EDGE`].
#[derive(Debug)]
struct LoadBalancer {
    launch: Launch,
    log: PathBuf,
    edge: NetNs,
    process: Process,
}

impl LoadBalancer {
    async fn start(net: &Net, launch: Launch, log: PathBuf) -> anyhow::Result<Self> {
        let launch = launch.inside(&net.edge);
        let process = launch.clone().spawn(&log)?;
        let mut front = Self {
            launch,
            log,
            edge: net.edge.clone(),
            process,
        };
        front.ready().await?;
        net.site_by_edge()?;
        Ok(front)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let at = SocketAddr::new(EDGE.parse()?, 443);
        let up = eventually(START_DEADLINE, "the load balancer's port", async || {
            self.edge.connect(at).ok()
        });
        let up = up.await.map(drop);
        up.map_err(|error| error.context(self.process.log().unwrap_or_default()))
    }

    async fn restart(&mut self) -> anyhow::Result<()> {
        self.process = self.launch.clone().spawn(&self.log)?;
        self.ready().await
    }
}

/// A running haproxy. It is killed when dropped.
#[derive(Debug)]
pub struct Haproxy {
    own: LoadBalancer,
    socket: PathBuf,
}

impl Haproxy {
    /// Starts haproxy. `idle` is its timeout for connections without traffic.
    ///
    /// # Errors
    /// haproxy is not installed, or does not start. The error quotes its output.
    pub async fn start(net: &Net, mode: Mode<'_>, idle: Duration) -> anyhow::Result<Self> {
        let folder = folder(net, "haproxy")?;
        let socket = folder.join("admin.sock");
        let (kind, bind, server) = match mode {
            Mode::Tcp => ("tcp", String::new(), ""),
            Mode::Http(ca) => {
                let leaf = ca.leaf(&[HUB])?;
                let pem = folder.join("tls.pem");
                fs::write(&pem, format!("{}{}", leaf.pem(), leaf.key_pem()))?;
                (
                    "http",
                    format!(" ssl crt {}", pem.display()),
                    " ssl verify none",
                )
            }
        };
        let idle = idle.as_millis();
        let config = format!(
            "global\n  stats socket {} mode 600 level admin\n  maxconn 1000\n\
             defaults\n  mode {kind}\n  timeout connect 5s\n  timeout client {idle}ms\n  timeout server {idle}ms\n\
             frontend edge\n  bind :443{bind}\n  default_backend hubs\n\
             backend hubs\n  server hub {HUB_ADDRESS}:443{server}\n",
            socket.display()
        );
        let file = folder.join("haproxy.cfg");
        fs::write(&file, config)?;
        let launch = Launch::new("haproxy").args(["-db".as_ref(), "-f".as_ref(), file.as_os_str()]);
        let own = LoadBalancer::start(net, launch, folder.join("out.log")).await?;
        Ok(Self { own, socket })
    }

    /// Ends every connection in order: both sides get a FIN.
    ///
    /// # Errors
    /// haproxy does not answer.
    pub fn end_sessions(&self) -> anyhow::Result<()> {
        let mut socket = UnixStream::connect(&self.socket).context("haproxy's socket")?;
        socket.set_read_timeout(Some(START_DEADLINE))?;
        socket.write_all(b"shutdown sessions server hubs/hub\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        anyhow::ensure!(answer.trim().is_empty(), "haproxy: {answer}");
        Ok(())
    }

    /// Kills it; the kernel closes its connections.
    ///
    /// # Errors
    /// It has ended.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.own.process.kill_9()
    }

    /// Starts it again after a kill.
    ///
    /// # Errors
    /// As [`Haproxy::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.own.restart().await
    }
}

/// A running nginx, which terminates TLS.
#[derive(Debug)]
pub struct Nginx {
    own: LoadBalancer,
    folder: PathBuf,
}

impl Nginx {
    /// Starts nginx. `idle` is its timeout for connections without traffic.
    ///
    /// # Errors
    /// As [`Haproxy::start`].
    pub async fn start(net: &Net, ca: &TestCa, idle: Duration) -> anyhow::Result<Self> {
        let folder = certified(net, ca)?;
        Self::run(net, folder, &nginx_conf_with(idle)).await
    }

    /// Starts nginx with its own timeouts and buffers. It passes WebSockets on, unless `strips_upgrade`.
    ///
    /// # Errors
    /// As [`Haproxy::start`].
    pub async fn start_with_defaults(
        net: &Net,
        ca: &TestCa,
        strips_upgrade: bool,
    ) -> anyhow::Result<Self> {
        let folder = certified(net, ca)?;
        let more = if strips_upgrade { "" } else { PASS_UPGRADE };
        Self::run(net, folder, more).await
    }

    async fn run(net: &Net, folder: PathBuf, more: &str) -> anyhow::Result<Self> {
        let file = folder.join("nginx.conf");
        fs::write(&file, nginx_conf(&folder, more))?;
        let launch = Launch::new("nginx")
            .args([
                "-p".as_ref(),
                folder.as_os_str(),
                "-c".as_ref(),
                file.as_os_str(),
            ])
            .args(["-e", "stderr"]);
        let own = LoadBalancer::start(net, launch, folder.join("out.log")).await?;
        Ok(Self { own, folder })
    }

    /// Access log: one line per ended request.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn access_log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.folder.join("access.log"))?)
    }

    /// Kills it; the kernel closes its connections.
    ///
    /// # Errors
    /// It has ended.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.own.process.kill_9()
    }

    /// Starts it again after a kill.
    ///
    /// # Errors
    /// As [`Nginx::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.own.restart().await
    }
}

/// Settings without which nginx passes no WebSocket on.
const PASS_UPGRADE: &str = "proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;";

fn nginx_conf_with(idle: Duration) -> String {
    let idle = idle.as_millis();
    format!(
        "{PASS_UPGRADE}
            proxy_read_timeout {idle}ms;
            proxy_send_timeout {idle}ms;
            proxy_buffering off;
            proxy_request_buffering off;"
    )
}

/// Folder of nginx with a certificate of the hub's name.
fn certified(net: &Net, ca: &TestCa) -> anyhow::Result<PathBuf> {
    let folder = folder(net, "nginx")?;
    let leaf = ca.leaf(&[HUB])?;
    fs::write(folder.join("tls.crt"), leaf.pem())?;
    fs::write(folder.join("tls.key"), leaf.key_pem())?;
    Ok(folder)
}

/// Runs in one process, so that killing it ends all of it.
fn nginx_conf(folder: &Path, more: &str) -> String {
    let at = folder.display();
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        temporary.push_str(&format!("{kind}_temp_path {at}/{kind};\n"));
    }
    format!(
        r#"daemon off;
master_process off;
error_log stderr notice;
pid {at}/nginx.pid;
events {{ worker_connections 512; }}
http {{
    {temporary}
    access_log {at}/access.log;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    server {{
        listen 443 ssl;
        ssl_certificate {at}/tls.crt;
        ssl_certificate_key {at}/tls.key;
        location / {{
            proxy_pass https://{HUB_ADDRESS}:443;
            proxy_set_header Host $host;
            proxy_ssl_server_name on;
            proxy_ssl_name $host;
            {more}
        }}
    }}
}}
"#
    )
}

fn folder(net: &Net, name: &str) -> anyhow::Result<PathBuf> {
    let folder = net.folder().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}
