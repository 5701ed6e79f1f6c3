//! Git through the tunnel: real Git and OpenSSH reach a server over SSH and over HTTPS by the agent's listeners only. In
//! between, the agent connects to no Git server: the hub does.

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Site, eventually, squid::LoopbackSquid, ssh::SshServer};
use fairlead_testkit::{git_server::GitServer, reserved_port::ReservedPort};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{io::copy_bidirectional, net::TcpStream, process::Command, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

use crate::world::{STEP_DEADLINE, SiteWorld};

/// Name of the Git server for HTTPS; the hub resolves it to loopback, which is private.
const LOCAL_NAME: &str = "localhost";

const LOG_DEADLINE: Duration = Duration::from_secs(30);

/// A Git server over HTTPS.
struct HttpsServer {
    git: GitServer,
    ca_file: PathBuf,
    port: u16,
    accepting: JoinHandle<()>,
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl HttpsServer {
    async fn start(folder: &Path) -> anyhow::Result<Self> {
        let git = GitServer::start(folder.join("served")).await;
        let (ca_file, key_file) = (folder.join("tls.crt"), folder.join("tls.key"));
        let make = Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            ])
            .args([
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .arg("-keyout")
            .arg(&key_file)
            .arg("-out")
            .arg(&ca_file)
            .output();
        let made = make.await?;
        ensure!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let chain = vec![CertificateDer::from_pem_file(&ca_file)?];
        let key = PrivateKeyDer::from_pem_file(&key_file)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let tls = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let plain: SocketAddr = git.address().parse()?;
        let accepting = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut tls = acceptor.accept(tcp).await?;
                    let mut server = TcpStream::connect(plain).await?;
                    copy_bidirectional(&mut tls, &mut server).await
                });
            }
        });
        Ok(HttpsServer {
            git,
            ca_file,
            port,
            accepting,
        })
    }
}

/// Runs git without any configuration of this machine.
async fn git(
    folder: &Path,
    args: &[&str],
    variables: &[(&str, &str)],
) -> anyhow::Result<std::process::Output> {
    let path = std::env::var_os("PATH").context("PATH")?;
    let mut git = Command::new("git");
    git.args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    Ok(git.output().await?)
}

async fn new_repository(folder: &Path, bare: &Path) -> anyhow::Result<()> {
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    let bare_path = bare.display().to_string();
    let commit: &[&str] = &[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.com",
        "commit",
        "-qm",
        "first",
        "--allow-empty",
    ];
    for args in [
        &["init", "-q", "-b", "main"][..],
        commit,
        &["clone", "-q", "--bare", ".", &bare_path],
    ] {
        let done = git(&work, args, &[]).await?;
        ensure!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(())
}

fn authority_of(ssh_url: &str) -> anyhow::Result<String> {
    let authority = ssh_url.trim_start_matches("ssh://git@").split('/').next();
    Ok(authority.context("authority")?.to_owned())
}

/// The hub with its allowed addresses, and the agent with its listeners.
struct Proxied {
    world: SiteWorld,
    agent: Site,
    http: ReservedPort,
    ssh: ReservedPort,
}

impl Proxied {
    async fn start(hub_flags: &[&str], ssh_target: &str) -> anyhow::Result<Self> {
        Self::start_with_env(hub_flags, &[], ssh_target).await
    }

    async fn start_with_env(
        hub_flags: &[&str],
        hub_env: &[(&str, &str)],
        ssh_target: &str,
    ) -> anyhow::Result<Self> {
        let hub = Hub::start_with_env(hub_flags, hub_env);
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), hub)?;
        let world = SiteWorld::on(cluster, hub, "").await?;
        let (http, ssh) = (ReservedPort::new()?, ReservedPort::new()?);
        let listen = http.address().to_string();
        let forward = format!("{}={ssh_target}", ssh.address());
        let flags = ["--git-proxy", &listen, "--git-forward", &forward];
        let join = world.join().await?;
        let agent = Site::begin_in_with(&world.hub, &world.pod, &join, "pod", &flags)?;
        world.hub.wait_state("pod", "Connected").await?;
        Ok(Proxied {
            world,
            agent,
            http,
            ssh,
        })
    }

    /// Waits for `text` in the agent's log.
    async fn says(&mut self, text: &str) -> anyhow::Result<()> {
        let agent = &mut self.agent.process;
        agent.wait_for_log(text, STEP_DEADLINE).await
    }
}

#[tokio::test]
async fn git_over_ssh_and_https_goes_through_the_hub() -> anyhow::Result<()> {
    let unpacked = match SshServer::build().await {
        Ok(unpacked) => unpacked,
        Err(reason) => {
            println!("SKIPPED: Git over SSH: {reason}");
            return Ok(());
        }
    };
    let home = tempfile::tempdir()?;
    let server = SshServer::start(&unpacked, &home.path().join("ssh")).await?;
    let https = HttpsServer::start(home.path()).await?;
    let bare = https.git.repository();
    new_repository(home.path(), &bare).await?;
    let ssh_url = server.url(&bare);
    let ssh_target = authority_of(&ssh_url)?;
    let https_target = format!("{LOCAL_NAME}:{}", https.port);
    let flags = [
        "--git-proxy-allow",
        &ssh_target,
        "--git-proxy-allow",
        &https_target,
        "--git-proxy-private",
        "127.0.0.0/8",
        "--git-proxy-private",
        "::1/128",
    ];
    let mut proxied = Proxied::start(&flags, &ssh_target).await?;
    let ssh_command = ssh_command(&server, home.path())?;
    let ssh_variables = [("GIT_SSH_COMMAND", ssh_command.as_str())];
    let through_ssh = format!("ssh://git@{}{}", proxied.ssh.address(), bare.display());
    let clone_ssh = ["clone", "-q", &through_ssh, "by-ssh"];

    // The addresses are allowed, but none is of a repository of this cluster.
    let refused = git(home.path(), &clone_ssh, &ssh_variables).await?;
    ensure!(!refused.status.success(), "the clone was not refused");
    proxied.says("has no repository at").await?;
    ensure!(proxied.agent.process.log()?.contains("FL-1509"));

    let set = ["cluster", "set", "pod", "--git-repo", &ssh_url, "--yes"];
    proxied.world.hub.cli(set).await?.success()?;
    let cloned = git(home.path(), &clone_ssh, &ssh_variables).await?;
    ensure!(
        cloned.status.success(),
        "{}",
        String::from_utf8_lossy(&cloned.stderr)
    );

    clone_over_https(&mut proxied, &https, home.path()).await?;
    let ended = "connection through the Git proxy ended";
    let hub = &mut proxied.world.hub.process;
    hub.wait_for_log(ended, STEP_DEADLINE).await?;
    eventually(STEP_DEADLINE, "two connections", async || {
        let metrics = proxied.world.hub.metrics().await.ok()?;
        let name = "fairlead_git_proxy_requests_total";
        let connected = metrics.sum(name, &["result=\"connected\""]);
        (connected >= 2.0).then_some(())
    })
    .await
}

/// Command of git for SSH with the key of the server.
fn ssh_command(server: &SshServer, home: &Path) -> anyhow::Result<String> {
    let key = home.join("key");
    std::fs::write(&key, server.deploy_key()?)?;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
    Ok(format!(
        "ssh -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -F none",
        key.display()
    ))
}

/// Only squid resolves the name of the Git server, so a clone proves that the hub has gone through it.
#[tokio::test]
async fn hub_behind_a_proxy_reaches_git_servers_through_it() -> anyhow::Result<()> {
    let unpacked = match SshServer::build().await {
        Ok(unpacked) if LoopbackSquid::is_installed() => unpacked,
        Ok(_) => {
            println!("SKIPPED: a hub behind squid: squid is not installed");
            return Ok(());
        }
        Err(reason) => {
            println!("SKIPPED: Git over SSH: {reason}");
            return Ok(());
        }
    };
    let home = tempfile::tempdir()?;
    let server = SshServer::start(&unpacked, &home.path().join("ssh")).await?;
    let bare = home.path().join("served/platform.git");
    new_repository(home.path(), &bare).await?;
    let names = ["git.test", "direct.test"];
    let squid = LoopbackSquid::start_with_names(&home.path().join("squid"), &names).await?;
    let ssh_target = authority_of(&server.url(&bare))?;
    let (_, port) = ssh_target.rsplit_once(':').context("port")?;
    let [by_squid, direct] = names.map(|name| format!("{name}:{port}"));
    let flags = [
        "--git-proxy-allow",
        &by_squid,
        "--git-proxy-allow",
        &direct,
        "--git-proxy-all-clusters",
    ];
    let env = [
        ("HTTPS_PROXY", squid.url()),
        ("NO_PROXY", "direct.test".to_owned()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut proxied = Proxied::start_with_env(&flags, &env, &by_squid).await?;
    let ssh_command = ssh_command(&server, home.path())?;
    let variables = [("GIT_SSH_COMMAND", ssh_command.as_str())];
    let url = format!("ssh://git@{}{}", proxied.ssh.address(), bare.display());
    let cloned = git(home.path(), &["clone", "-q", &url, "by-squid"], &variables).await?;
    ensure!(
        cloned.status.success(),
        "{}",
        String::from_utf8_lossy(&cloned.stderr)
    );
    let squids = eventually(LOG_DEADLINE, "squid's line of the tunnel", async || {
        let log = squid.access_log().ok()?;
        log.contains(&format!("CONNECT {by_squid}")).then_some(log)
    });
    squids.await?;

    // NO_PROXY has this name, which the hub cannot resolve.
    let proxy = format!("http://{}", proxied.http.address());
    let variables = [("https_proxy", proxy.as_str()), ("no_proxy", "")];
    let url = format!("https://{direct}/a.git");
    let refused = git(home.path(), &["clone", "-q", &url, "direct"], &variables).await?;
    ensure!(!refused.status.success(), "the clone was not refused");
    let hub_log = &mut proxied.world.hub.process;
    hub_log.wait_for_log("FL-1510", LOG_DEADLINE).await?;
    ensure!(
        !squid.access_log()?.contains("direct.test"),
        "through squid"
    );
    let log = hub_log.log()?;
    ensure!(!log.contains("proxy-word"), "the password is in the log");
    Ok(())
}

/// Clones through the HTTP proxy, and fails to do so from a host outside of the list.
async fn clone_over_https(
    proxied: &mut Proxied,
    https: &HttpsServer,
    home: &Path,
) -> anyhow::Result<()> {
    // URLs of repositories have a group.
    let group = home.join("served/acme");
    std::fs::create_dir_all(&group)?;
    symlink(https.git.repository(), group.join("platform.git"))?;
    let https_url = format!("https://{LOCAL_NAME}:{}/acme/platform.git", https.port);
    let set = ["cluster", "set", "pod", "--git-repo", &https_url, "--yes"];
    proxied.world.hub.cli(set).await?.success()?;
    let (proxy, ca) = (
        format!("http://{}", proxied.http.address()),
        https.ca_file.display().to_string(),
    );
    let https_variables = [
        ("https_proxy", proxy.as_str()),
        ("no_proxy", ""),
        ("GIT_SSL_CAINFO", &ca),
    ];
    let clone = ["clone", "-q", &https_url, "by-https"];
    let cloned = git(home, &clone, &https_variables).await?;
    ensure!(
        cloned.status.success(),
        "{}",
        String::from_utf8_lossy(&cloned.stderr)
    );

    // A host outside of the list: git shows the status, the agent's log the code.
    let other = ["clone", "-q", "https://git.example:443/a.git", "other"];
    let refused = git(home, &other, &https_variables).await?;
    let text = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && text.contains("403"), "{text}");
    proxied.says("is not in its list").await
}

#[tokio::test]
async fn private_address_of_a_name_and_a_hub_without_a_list_are_refused() -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let target = format!("{LOCAL_NAME}:{}", listener.local_addr()?.port());
    let home = tempfile::tempdir()?;
    let flags = ["--git-proxy-allow", &target, "--git-proxy-all-clusters"];
    let mut private = Proxied::start(&flags, &target).await?;
    let mut off = Proxied::start(&[], &target).await?;
    for (proxied, cause) in [
        (&mut private, "has private addresses only"),
        (&mut off, "has no addresses"),
    ] {
        let proxy = format!("http://{}", proxied.http.address());
        let variables = [("https_proxy", proxy.as_str()), ("no_proxy", "")];
        let url = format!("https://{target}/a.git");
        let refused = git(home.path(), &["clone", "-q", &url, "a"], &variables).await?;
        let text = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success() && text.contains("403"), "{text}");
        proxied.says(cause).await?;
    }
    listener.set_nonblocking(true)?;
    ensure!(listener.accept().is_err(), "the hub connected all the same");
    Ok(())
}
