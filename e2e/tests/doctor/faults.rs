//! Faults of the path, by small servers in the place of hub and proxy.

use anyhow::ensure;
use futures_util::{StreamExt, stream::FuturesUnordered};

use crate::{
    servers::{FaultyServer, NAMES, ca, date, with, without},
    world::{DoctorWorld, Fault},
};

/// A hub that the proxies of the tests never resolve.
const FAR_HUB: &str = "https://hub.fairlead.test:8443";

const DAY_AND_TWO_HOURS_SECONDS: i64 = 26 * 3600;

/// The head with a date of a hub whose clock is 26 hours ahead.
fn tomorrow(head: String) -> String {
    with(&head, "date", &date(DAY_AND_TWO_HOURS_SECONDS))
}

fn yesterday(head: String) -> String {
    with(&head, "date", &date(-DAY_AND_TWO_HOURS_SECONDS))
}

/// Checks all faults at the same time: each waits for three dials of its agent.
async fn check_all(world: &DoctorWorld, faults: &[Fault]) -> anyhow::Result<()> {
    let mut checks: FuturesUnordered<_> = faults.iter().map(|it| world.check(it)).collect();
    let mut failed = Vec::new();
    while let Some(checked) = checks.next().await {
        failed.extend(checked.err().map(|error| format!("{error:#}")));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

#[tokio::test]
async fn fault_before_tls_has_its_stage_and_code() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let refusing = FaultyServer::refusing()?;
    let silent = FaultyServer::silent().await?;
    let mut faults = Vec::new();
    for (name, expected, url, words) in [
        (
            "wrong-dns",
            ("dns", "FL-3101"),
            "https://no-such-hub.invalid:8443".to_owned(),
            "no-such-hub.invalid",
        ),
        (
            "refused",
            ("tcp", "FL-3102"),
            refusing.url(),
            "Connection refused",
        ),
        (
            "dropped",
            ("tls", "FL-3110"),
            silent.url(),
            "no answer within",
        ),
    ] {
        let fault = world.fault(name, expected, &[words]).await?;
        let url = Some(url);
        faults.push(Fault { url, ..fault });
    }
    let mut proxies = Vec::new();
    for (name, answer, code, words) in [
        (
            "proxy-403",
            "HTTP/1.1 403 Forbidden\r\nServer: corp-gate\r\nVia: 1.1 gate.corp\r\nContent-Length: 19\r\n\r\ncategory is blocked",
            "FL-3103",
            &["403", "corp-gate", "1.1 gate.corp", "category is blocked"][..],
        ),
        (
            "proxy-407",
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
            "FL-3104",
            &["407", "user:password@host"],
        ),
        (
            "proxy-ntlm",
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n",
            "FL-3104",
            &["it takes NTLM only", "cntlm"],
        ),
        (
            "proxy-negotiate",
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Negotiate\r\nContent-Length: 0\r\n\r\n",
            "FL-3104",
            &["it takes Negotiate only", "px"],
        ),
    ] {
        let server = FaultyServer::plain(answer).await?;
        let fault = world.fault(name, ("proxy", code), words).await?;
        faults.push(Fault {
            // Each fault has a hub of its own, so that its Event is found.
            url: Some(FAR_HUB.replace("hub.", &format!("{name}."))),
            proxy: Some(server.proxy_url()),
            ..fault
        });
        proxies.push(server);
    }
    check_all(&world, &faults).await
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn fault_of_tls_or_upgrade_has_its_stage_and_code() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let (ours, leaf) = ca("Fairlead Test CA")?;
    let (_corp, intercepting) = ca("Corp Interceptor")?;
    let expired = ours.expired_leaf(&NAMES)?;
    let other_name = ours.leaf(&["other.example"])?;
    let ca_file = world.write("ours.pem", &ours.pem())?;
    const PAGE: &str = "HTTP/1.1 200 OK\r\nServer: portal\r\nContent-Type: text/html\r\nContent-Length: 39\r\n\r\n<html>Please sign in to Guest WiFi</html>";
    const MOVED: &str = "HTTP/1.1 301 Moved Permanently\r\nServer: front\r\nLocation: https://login.example/start?ticket=42\r\nContent-Length: 0\r\n\r\n";
    const FULL: &str =
        "HTTP/1.1 429 Too Many Requests\r\nFairlead-Code: FL-1407\r\nContent-Length: 0\r\n\r\n";
    let upgrade = |code| ("upgrade", code);
    let table = [
        (
            "login-page",
            upgrade("FL-3106"),
            FaultyServer::tls(&leaf, PAGE).await?,
            &["200", "portal", "Please sign in", "login page"][..],
        ),
        (
            "moved",
            upgrade("FL-3106"),
            FaultyServer::tls(&leaf, MOVED).await?,
            &["301", "https://login.example/start", "no redirect"],
        ),
        (
            "hub-full",
            upgrade("FL-1407"),
            FaultyServer::tls(&leaf, FULL).await?,
            &["429", "too many requests"],
        ),
        (
            "no-place",
            ("link", "FL-3114"),
            FaultyServer::evicting(&world.hub, leaf.server()?).await?,
            &["gave the place", "dials again"],
        ),
        (
            "upgrade-stripped",
            upgrade("FL-3106"),
            FaultyServer::before(
                &world.hub,
                leaf.server()?,
                (
                    |head| without(&without(&head, "upgrade"), "connection"),
                    |head| head,
                ),
            )
            .await?,
            &["426", "`Upgrade`"],
        ),
        (
            "intercepted",
            ("tls", "FL-3105"),
            FaultyServer::tls(&intercepting, PAGE).await?,
            &["Corp Interceptor", "--ca-file"],
        ),
        (
            "expired",
            ("tls", "FL-3105"),
            FaultyServer::tls(&expired, PAGE).await?,
            &["expired at 2021-01-01", "Renew", "Fairlead Test CA"],
        ),
        (
            "wrong-name",
            ("tls", "FL-3105"),
            FaultyServer::tls(&other_name, PAGE).await?,
            &["other.example", "a name of its certificate"],
        ),
        (
            "clock-behind",
            ("clock", "FL-3113"),
            FaultyServer::before(&world.hub, leaf.server()?, (|head| head, tomorrow)).await?,
            &["behind the hub's"],
        ),
        (
            "clock-ahead",
            ("clock", "FL-3113"),
            FaultyServer::before(&world.hub, leaf.server()?, (|head| head, yesterday)).await?,
            &["ahead of the hub's"],
        ),
    ];
    let mut faults = Vec::new();
    for (name, expected, server, words) in &table {
        let fault = world.fault(name, *expected, words).await?;
        faults.push(Fault {
            url: Some(server.url()),
            ca_file: Some(ca_file.clone()),
            ..fault
        });
    }
    check_all(&world, &faults).await
}
