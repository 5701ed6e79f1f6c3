//! The company's proxy: a real squid on corp, for the site.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_api::percent;
use fairlead_e2e::{Launch, NetNs, Process, eventually};
use fairlead_testkit::tls::TestCa;

use crate::left::NetSecrets;
use crate::net::{CORP, Net};

pub(crate) const SQUID_PORT: u16 = 3128;
const START_DEADLINE: Duration = Duration::from_secs(20);
const HELPERS: &str = "/usr/lib/squid";

/// Configuration of a company's proxy.
#[derive(Debug, Default)]
pub struct SquidPlan {
    /// Name and password of the one user, for Basic authentication.
    person: Option<(String, String)>,
    /// The company's CA, and the CA file by which squid trusts hubs, where squid terminates TLS.
    bump: Option<(String, PathBuf)>,
    /// Certificate and key of squid itself, PEM, where clients reach it by TLS.
    tls: Option<String>,
    /// Whether squid refuses every CONNECT.
    refuses: bool,
    /// Time without a byte after which squid ends a tunnel.
    idle_limit: Option<Duration>,
}

impl SquidPlan {
    /// Passes CONNECT to port 443 without authentication.
    #[must_use]
    pub fn open() -> Self {
        Self::default()
    }

    /// Requires Basic authentication with these credentials.
    #[must_use]
    pub fn for_person(mut self, name: &str, password: &str) -> Self {
        self.person = Some((name.to_owned(), password.to_owned()));
        self
    }

    /// Terminates TLS with certificates of `ca`. `hub_ca` is the CA of hubs.
    #[must_use]
    pub fn opening_tls(mut self, ca: &TestCa, hub_ca: &Path) -> Self {
        self.bump = Some((format!("{}{}", ca.pem(), ca.key_pem()), hub_ca.to_owned()));
        self
    }

    /// Is reached by TLS (`https://`), with a certificate of `ca`.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn reached_by_tls(mut self, ca: &TestCa) -> anyhow::Result<Self> {
        let leaf = ca.leaf(&[CORP])?;
        self.tls = Some(format!("{}{}", leaf.pem(), leaf.key_pem()));
        Ok(self)
    }

    /// Refuses every CONNECT with 403.
    #[must_use]
    pub fn refusing(mut self) -> Self {
        self.refuses = true;
        self
    }

    /// Ends tunnels that carry nothing for this time.
    #[must_use]
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = Some(limit);
        self
    }
}

/// A running squid.
#[derive(Debug)]
pub struct Squid {
    folder: PathBuf,
    corp: NetNs,
    scheme: &'static str,
    secrets: NetSecrets,
    process: Process,
}

impl Squid {
    /// Starts squid.
    ///
    /// # Errors
    /// squid is not installed, or does not start. The error quotes its log.
    pub async fn start(net: &Net, plan: &SquidPlan) -> anyhow::Result<Self> {
        let folder = net.folder().join("squid");
        fs::create_dir(&folder)?;
        // squid gives up root before it writes its logs.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        configure(&folder, plan)?;
        let process = launch(&net.corp, &folder)?;
        let mut squid = Self {
            folder,
            corp: net.corp.clone(),
            scheme: if plan.tls.is_some() { "https" } else { "http" },
            secrets: net.secrets.clone(),
            process,
        };
        squid.ready().await?;
        Ok(squid)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let at = SocketAddr::new(CORP.parse()?, SQUID_PORT);
        let up = eventually(START_DEADLINE, "squid's port", async || {
            self.corp.connect(at).ok()
        });
        let up = up.await.map(drop);
        up.map_err(|error| error.context(self.process.log().unwrap_or_default()))
    }

    /// Value of HTTPS_PROXY, with `person` as `name:password` if it is given.
    #[must_use]
    pub fn url(&self, person: Option<&str>) -> String {
        if let Some((name, password)) = person.and_then(|person| person.split_once(':')) {
            // As it is in the URL, and as it is in the header.
            let decoded = percent::decode(password).and_then(|it| String::from_utf8(it).ok());
            let mut known = self.secrets.known();
            known.add_proxy_password(name, &decoded.unwrap_or_default());
            known.add("password in a URL", password);
        }
        let person = person
            .map(|person| format!("{person}@"))
            .unwrap_or_default();
        format!("{}://{person}{CORP}:{SQUID_PORT}", self.scheme)
    }

    /// Replaces name and password of the one user. Tunnels that are open stay.
    ///
    /// # Errors
    /// A program fails.
    pub fn rotate(&self, name: &str, password: &str) -> anyhow::Result<()> {
        write_person(&self.folder, name, password)
    }

    /// Resets every connection of its clients, as a proxy with a limit for their age does.
    ///
    /// # Errors
    /// The kernel cannot end sockets of others.
    pub fn reset_clients(&self) -> anyhow::Result<()> {
        let filter = format!("( sport = :{SQUID_PORT} )");
        let ss = ["ss", "-K", "-H", "-t", "state", "established", &filter];
        let ended = self.corp.run(&ss)?;
        ensure!(!ended.trim().is_empty(), "squid had no client");
        Ok(())
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
        self.process.kill_9()
    }

    /// Starts it again after a kill.
    ///
    /// # Errors
    /// As [`Squid::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process = launch(&self.corp, &self.folder)?;
        self.ready().await
    }
}

fn launch(corp: &NetNs, folder: &Path) -> anyhow::Result<Process> {
    Launch::new("squid")
        .args([
            "-N".as_ref(),
            "-f".as_ref(),
            folder.join("squid.conf").as_os_str(),
        ])
        .inside(corp)
        .spawn(folder.join("out.log"))
}

fn configure(folder: &Path, plan: &SquidPlan) -> anyhow::Result<()> {
    let at = folder.display();
    let mut port = format!("http_port {CORP}:{SQUID_PORT}");
    let mut more = String::new();
    if let Some(tls) = &plan.tls {
        fs::write(folder.join("tls.pem"), tls)?;
        port = format!("https_port {CORP}:{SQUID_PORT} tls-cert={at}/tls.pem");
    }
    if plan.refuses {
        more.push_str("http_access deny CONNECT\n");
    }
    if let Some(limit) = plan.idle_limit {
        more.push_str(&format!("read_timeout {} seconds\n", limit.as_secs()));
    }
    if let Some((name, password)) = &plan.person {
        write_person(folder, name, password)?;
        more.push_str(&format!(
            "auth_param basic program {HELPERS}/basic_ncsa_auth {at}/people\n\
             auth_param basic children 1\nauth_param basic realm corp\n\
             acl known proxy_auth REQUIRED\nhttp_access deny !known\n"
        ));
    }
    if let Some((ca, hub_ca)) = &plan.bump {
        let pem = folder.join("bump.pem");
        fs::write(&pem, ca)?;
        let store = folder.join("certificates");
        let helper = format!("{HELPERS}/security_file_certgen");
        let made = Command::new(&helper)
            .arg("-c")
            .arg("-s")
            .arg(&store)
            .args(["-M", "4MB"])
            .output()?;
        ensure!(made.status.success(), "{helper}: {made:?}");
        run_checked(Command::new("chmod").args(["-R", "a+rwX"]).arg(&store))?;
        // A copy that squid can read without root.
        fs::copy(hub_ca, folder.join("hub-ca.pem"))?;
        port.push_str(&format!(
            " ssl-bump tls-cert={} generate-host-certificates=on dynamic_cert_mem_cache_size=4MB",
            pem.display()
        ));
        // In the spelling of clients, because squid compares case-sensitively.
        more.push_str(&format!(
            "sslcrtd_program {helper} -s {} -M 4MB\nsslcrtd_children 1\n\
             tls_outgoing_options cafile={at}/hub-ca.pem\nssl_bump bump all\n\
             http_upgrade_request_protocols websocket allow all\n",
            store.display()
        ));
    }
    let config = format!(
        "{port}\nvisible_hostname corp\npid_filename none\ncoredump_dir {at}\npinger_enable off\n\
         cache deny all\nhosts_file /etc/hosts\nshutdown_lifetime 0 seconds\nmax_filedescriptors 1024\n\
         logfile_rotate 0\nbuffered_logs off\naccess_log stdio:{at}/access.log\ncache_log {at}/cache.log\n\
         acl safe port 443\nacl CONNECT method CONNECT\nhttp_access deny CONNECT !safe\n\
         {more}http_access allow all\n"
    );
    Ok(fs::write(folder.join("squid.conf"), config)?)
}

fn write_person(folder: &Path, name: &str, password: &str) -> anyhow::Result<()> {
    let hash = ["passwd", "-apr1", "-stdin"];
    let mut child = Command::new("openssl")
        .args(hash)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = child.stdin.take();
    writeln!(input.context("no standard input")?, "{password}")?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "openssl passwd: {}", output.status);
    let hashed = String::from_utf8(output.stdout)?;
    Ok(fs::write(
        folder.join("people"),
        format!("{name}:{hashed}"),
    )?)
}

fn run_checked(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}
