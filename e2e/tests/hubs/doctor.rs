//! `fairlead doctor --hub` for a hub on PostgreSQL, with its Git server, its Vault and its issuers.

use std::{
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, PostgresServer};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Token of the hub for both servers.
const TOKEN: &str = "doct0r-secret";
/// Key of RFC 7517, appendix A.1.
const KEYS: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "kid": "1",
    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

/// Gitea and Vault on one port of loopback. It ends when this is dropped.
struct Servers {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Servers {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                // A client that gives up is no failure of this server.
                let _ = answer(tcp).await;
            }
        });
        Ok(Servers {
            address,
            _tasks: tasks,
        })
    }
}

async fn answer(mut tcp: TcpStream) -> anyhow::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let path = head.split(' ').nth(1).context("a path")?;
    let is_known = head.contains(TOKEN);
    let (status, body) = match path {
        "/api/v1/version" => ("200 OK", r#"{"version": "1.24.0"}"#),
        "/api/v1/user" if is_known => ("200 OK", r#"{"login": "hub"}"#),
        "/api/v1/user" => ("401 Unauthorized", r#"{"message": "invalid token"}"#),
        "/v1/auth/token/lookup-self" if is_known => (
            "200 OK",
            r#"{"data": {"policies": ["default", "fairlead"]}}"#,
        ),
        "/v1/auth/token/lookup-self" => ("403 Forbidden", r#"{"errors": ["permission denied"]}"#),
        _ => ("404 Not Found", "{}"),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    tcp.write_all(answer.as_bytes()).await?;
    tcp.shutdown().await?;
    Ok(())
}

fn secret(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(0o600))?)
}

/// Stage, result and code of each stage in the sections of these servers.
fn of_servers(checkup: &Value) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sections = checkup["sections"].as_array().cloned().unwrap_or_default();
    let stages = sections.iter().filter_map(|it| it["stages"].as_array());
    let stages = stages.flatten();
    let names = ["git-server", "vault", "issuer"];
    let of_servers = stages.filter(|it| names.contains(&it["stage"].as_str().unwrap_or_default()));
    of_servers
        .map(|it| [text(&it["stage"]), text(&it["result"]), text(&it["code"])])
        .collect()
}

#[tokio::test]
async fn hub_on_postgresql_is_checked_with_all_servers_that_it_uses() -> anyhow::Result<()> {
    let (store, folder) = (PostgresServer::start()?, tempfile::tempdir()?);
    let servers = Servers::start().await?;
    let place = |name: &str| folder.path().join(name);
    let shown = |name: &str| place(name).display().to_string();
    secret(
        &place("store.key"),
        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n",
    )?;
    secret(&place("token"), TOKEN)?;
    secret(&place("keys.json"), KEYS)?;
    let (at, token) = (servers.address, shown("token"));
    let git = format!(
        "[[server]]\nname = \"git\"\nendpoint = \"http://{at}\"\ntoken_file = \"{token}\"\n"
    );
    fs::write(place("git.toml"), git)?;
    let vault = format!(
        "address = \"http://{at}\"\ntoken_file = \"{token}\"\nservice_accounts = [\"syn/secrets\"]\nkv_mount = \"kv\"\n\
         path = \"{{tenant}}/{{cluster}}\"\nrole = \"cluster\"\naudience = \"vault\"\n"
    );
    fs::write(place("vault.toml"), vault)?;
    let issuer = |keys: &str| {
        format!(
            "[issuer.corp]\nurl = \"https://127.0.0.1:1/corp\"\naudience = [\"fairlead\"]\n{keys}\
             roles = [{{ claim = \"groups\", value = \"platform\", role = \"admin\" }}]\n"
        )
    };
    let with_keys = issuer(&format!("keys_file = \"{}\"\n", shown("keys.json")));
    fs::write(place("issuers.toml"), with_keys)?;
    let files = ["store.key", "git.toml", "vault.toml", "issuers.toml"].map(shown);
    let [key, git, vault, issuers] = &files;
    let url = store.url();
    let flags = [
        "--store",
        &url,
        "--store-key-file",
        key,
        "--git-servers",
        git,
    ];
    let flags = [&flags[..], &["--vault", vault, "--issuers", issuers]].concat();
    let hub = Hub::start_server(&flags).await?;
    let data = hub.data().display().to_string();
    let doctor = ["doctor", "--hub", "-o", "json", "--data", &data];
    let of_doctor = ["--store", &url, "--git-servers", git];
    let of_doctor = [&of_doctor[..], &["--vault", vault, "--issuers", issuers]].concat();
    let doctor = [&doctor[..], &["--public-url", &hub.ready().url], &of_doctor].concat();
    let check = async || -> anyhow::Result<(Option<i32>, Value)> {
        let output = hub.cli(&doctor).await?;
        ensure!(!output.text().contains(TOKEN), "the token is in the output");
        let json = serde_json::from_slice(&output.stdout);
        let json = json.with_context(|| format!("{output:?}"))?;
        Ok((output.status.code(), json))
    };

    let (status, checkup) = check().await?;
    ensure!(status == Some(0), "{checkup}");
    let ok = |stage: &str| [stage, "ok", ""].map(str::to_owned);
    let expected = [ok("git-server"), ok("vault"), ok("issuer")];
    ensure!(of_servers(&checkup) == expected, "{checkup}");
    for words in [
        "PostgreSQL",
        "accepts the token",
        "fairlead",
        "1 keys for signatures",
    ] {
        ensure!(checkup.to_string().contains(words), "{words:?}: {checkup}");
    }

    secret(&place("token"), "an0ther-secret")?;
    fs::write(place("issuers.toml"), issuer(""))?;
    let (status, checkup) = check().await?;
    ensure!(status == Some(1), "{checkup}");
    let failed = |stage: &str, code: &str| [stage, "failed", code].map(str::to_owned);
    let expected = [
        failed("git-server", "FL-3115"),
        failed("vault", "FL-4152"),
        failed("issuer", "FL-1105"),
    ];
    ensure!(of_servers(&checkup) == expected, "{checkup}");
    Ok(())
}
