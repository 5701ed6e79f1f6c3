//! Real programs: curl through the proxy, ssh with a ProxyCommand, psql through a forwarded port.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Output, Stdio},
};

use anyhow::{Context, ensure};
use fairlead_e2e::{PostgresServer, ssh::SshServer, targets::EchoTarget};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, UnixStream},
    process::Command,
    time::timeout,
};

use crate::world::{STEP_DEADLINE, TcpWorld};

/// Runs a program to its end.
pub(crate) async fn run(command: &mut Command, input: &[u8]) -> anyhow::Result<Output> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let running = async {
        stdin.write_all(input).await?;
        drop(stdin);
        child.wait_with_output().await
    };
    Ok(timeout(STEP_DEADLINE, running)
        .await
        .context("the program does not end")??)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A web server with one page.
pub(crate) async fn web_page() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let page = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npage";
                stream.write_all(page.as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    Ok(address)
}

#[tokio::test]
async fn curl_uses_the_proxy_by_socks_and_by_connect() -> anyhow::Result<()> {
    let page = web_page().await?;
    let port = page.rsplit(':').next().context("port")?.to_owned();
    let world = TcpWorld::start(&[page.clone(), format!("localhost:{port}")]).await?;
    let proxy = world.proxy().await?;
    let address = proxy.address(0)?;
    let curl = async |args: &[&str], url: &str| {
        let mut command = Command::new("curl");
        command
            .env_clear()
            .args(["-sS", "--noproxy", ""])
            .args(args)
            .arg(url);
        run(&mut command, b"").await
    };
    let (socks, http) = (format!("socks5h://{address}"), format!("http://{address}"));
    // The name is resolved in the cluster.
    for url in [
        format!("http://{page}/"),
        format!("http://localhost:{port}/"),
    ] {
        for args in [
            &["--proxy", &socks][..],
            &["--proxytunnel", "--proxy", &http],
        ] {
            let output = curl(args, &url).await?;
            ensure!(
                text(&output.stdout) == "page",
                "{url}: {output:?}; {}",
                proxy.log()
            );
        }
    }
    let forbidden = "http://db.shop:80/";
    let output = curl(&["--proxy", &socks], forbidden).await?;
    ensure!(!output.status.success(), "{output:?}");
    let output = curl(&["--proxytunnel", "--proxy", &http], forbidden).await?;
    ensure!(text(&output.stderr).contains("403"), "{output:?}");
    // Plain HTTP is no CONNECT.
    let output = curl(&["--proxy", &http], &format!("http://{page}/")).await?;
    ensure!(text(&output.stdout).contains("FL-5134"), "{output:?}");
    let mut proxy = proxy;
    proxy.process.wait_for_log("FL-1503", STEP_DEADLINE).await?;
    proxy.process.wait_for_log("FL-5134", STEP_DEADLINE).await
}

#[tokio::test]
async fn nc_joins_standard_streams_with_half_close() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    let (address, input) = (echo.address(), vec![b'x'; 1 << 20]);
    let (host, port) = address.rsplit_once(':').context("port")?;
    for words in [vec![address.as_str()], vec![host, port]] {
        let mut args = vec!["nc".to_owned(), "--cluster".to_owned(), "demo".to_owned()];
        args.extend(words.into_iter().map(str::to_owned));
        let command = world.command(&args, None)?.command();
        let output = run(&mut command.into(), &input).await?;
        ensure!(output.status.success(), "{}", text(&output.stderr));
        ensure!(
            output.stdout == input,
            "{} bytes came back",
            output.stdout.len()
        );
    }
    let args = ["nc", "db.shop:5432", "--cluster", "demo"].map(str::to_owned);
    let command = world.command(&args, None)?.command();
    let output = run(&mut command.into(), b"").await?;
    ensure!(
        !output.status.success() && text(&output.stderr).contains("FL-1503"),
        "{output:?}"
    );
    Ok(())
}

#[tokio::test]
async fn ssh_reaches_a_server_by_a_proxy_command() -> anyhow::Result<()> {
    let unpacked = match SshServer::build().await {
        Ok(unpacked) => unpacked,
        Err(reason) => {
            println!("SKIPPED: ssh through the hub: {reason}");
            return Ok(());
        }
    };
    let home = tempfile::tempdir()?;
    let server = SshServer::start(&unpacked, &home.path().join("ssh")).await?;
    let url = server.url(Path::new("/x"));
    let authority = url.trim_start_matches("ssh://git@").trim_end_matches("/x");
    let world = TcpWorld::start(&[authority.to_owned()]).await?;
    let key = home.path().join("key");
    fs::write(&key, server.deploy_key()?)?;
    fs::set_permissions(&key, Permissions::from_mode(0o600))?;
    let known_hosts = home.path().join("known_hosts");
    fs::write(&known_hosts, server.known_host())?;
    let fairlead = fairlead_e2e::Launch::hub()?.program().display().to_string();
    let (_, port) = authority.rsplit_once(':').context("port")?;
    let mut ssh = Command::new("ssh");
    ssh.env_clear()
        .env("HOME", world.hub.dir())
        .args(["-F", "none", "-p", port]);
    ssh.arg("-i").arg(&key).args([
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        "StrictHostKeyChecking=yes",
    ]);
    ssh.arg("-o")
        .arg(format!("UserKnownHostsFile={}", known_hosts.display()));
    ssh.arg("-o")
        .arg(format!("ProxyCommand={fairlead} nc %h:%p --cluster demo"));
    ssh.args(["git@127.0.0.1", "cat; echo done"]);
    let output = run(&mut ssh, b"through the hub\n").await?;
    ensure!(
        text(&output.stdout) == "through the hub\ndone\n",
        "{output:?}; {}",
        server.log()
    );
    Ok(())
}

/// Leads a port to the Unix socket of a PostgreSQL.
async fn postgres_port(postgres: &PostgresServer) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let socket = postgres.folder().join(".s.PGSQL.5432");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = UnixStream::connect(&socket).await?;
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
        std::io::Result::Ok(())
    });
    Ok(address)
}

#[tokio::test]
async fn psql_works_through_a_forwarded_port() -> anyhow::Result<()> {
    let programs = match PostgresServer::build() {
        Ok(programs) => programs,
        Err(reason) => {
            println!("SKIPPED: psql through the hub: {reason:#}");
            return Ok(());
        }
    };
    let postgres = PostgresServer::start()?;
    let address = postgres_port(&postgres).await?;
    let world = TcpWorld::start(std::slice::from_ref(&address)).await?;
    let forward = world.forward(std::slice::from_ref(&address)).await?;
    let port = forward.address(0)?.port().to_string();
    let mut psql = Command::new(programs.join("psql"));
    // Its library is in the same packages.
    let libraries = format!("../../../{}-linux-gnu", std::env::consts::ARCH);
    psql.env("LD_LIBRARY_PATH", programs.join(libraries));
    psql.args([
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "fairlead",
        "-At",
        "postgres",
    ]);
    let script = b"create table t as select generate_series(1, 200000) as n;\ncopy t to stdout;\nselect count(*) from t;\n";
    let output = run(&mut psql, script).await?;
    let printed = text(&output.stdout);
    ensure!(
        output.status.success(),
        "{}; {}",
        text(&output.stderr),
        forward.log()
    );
    ensure!(
        printed.lines().count() == 200_002,
        "{} lines",
        printed.lines().count()
    );
    ensure!(printed.ends_with("200000\n"), "the count is missing");
    Ok(())
}
