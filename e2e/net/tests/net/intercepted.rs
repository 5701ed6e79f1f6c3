//! A real squid that opens TLS (`ssl_bump`): with its CA the agent works, and the plaintext inside of squid has no secret.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::{UpgradeProtocol, inspector::Inspector};
use fairlead_e2e_net::net::{EDGE, HUB_ADDRESS};
use fairlead_e2e_net::{HUB, Squid, SquidPlan, Stage};
use fairlead_testkit::tls::TestCa;

const SECRET_WORD: &str = "the-contents-of-a-Secret";
const KEYSTROKES: &str = "keystrokes-of-a-person";

const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes that only a whole session has.
const MIN_PLAINTEXT_BYTES: usize = 8 * 1024;

#[tokio::test]
async fn proxy_that_opens_tls_reads_no_token_secret_or_keystroke() -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    stage.net.by_proxy_only()?;
    stage.net.site_by_edge()?;
    // It gets the plaintext that squid has: squid opens TLS of the agent, and the inspector that of squid.
    let address = |text: &str| anyhow::Ok(SocketAddr::new(text.parse()?, 443));
    let inspector = Inspector::start_in(
        (&stage.net.edge, address(EDGE)?),
        (HUB, address(HUB_ADDRESS)?),
        stage.net.folder(),
        &stage.hub.ready().ca_file,
    )?;
    let ca = TestCa::new("Corp Interceptor")?;
    let plan = SquidPlan::open().opening_tls(&ca, inspector.ca_file());
    let squid = Squid::start(&stage.net, &plan).await?;
    let (url, trust) = (squid.url(None), stage.trust(&ca)?);
    let site = stage
        .agent(|agent| {
            let agent = agent.env("HTTPS_PROXY", url);
            agent.args(["--ca-file".as_ref(), trust.as_os_str()])
        })
        .await?;

    let word = format!("--from-literal=word={SECRET_WORD}");
    let create = ["create", "secret", "generic", "sealed", &word];
    stage
        .cluster
        .kubectl()
        .args(create)
        .run()
        .await?
        .success()?;
    let (kubectl, pod) = (stage.kubectl().await?, stage.pod().await?);
    let get = ["get", "secret", "sealed", "-o", "jsonpath={.data.word}"];
    let got = kubectl.clone().args(get).run().await?.success()?;
    ensure!(got == "dGhlLWNvbnRlbnRzLW9mLWEtU2VjcmV0", "{got}");
    for transport in [UpgradeProtocol::WebSocket, UpgradeProtocol::Spdy] {
        let exec = kubectl.clone().transport(transport).stdin(KEYSTROKES);
        let echoed = exec.args(["exec", "-i", &pod, "--", "cat"]).run().await?;
        ensure!(echoed.success()? == KEYSTROKES, "{transport:?}");
    }
    let mut terminal = kubectl
        .args(["exec", "-it", &pod, "--", "cat"])
        .terminal(24, 80)?;
    let keys = format!("{KEYSTROKES}\r");
    let twice = format!("{KEYSTROKES}\r\n{KEYSTROKES}\r\n");
    terminal.type_until(&keys, &twice, STEP_DEADLINE).await?;

    for (name, secret) in [
        ("contents of a Secret", SECRET_WORD),
        ("keystrokes", KEYSTROKES),
    ] {
        stage.net.secrets.known().add(name, secret);
    }
    let secrets = stage.secrets()?;
    let (sent, received) = (inspector.sent(), inspector.received());
    for (side, bytes) in [("to the hub", &sent), ("to the agent", &received)] {
        ensure!(
            bytes.len() > MIN_PLAINTEXT_BYTES,
            "{side}: {} bytes",
            bytes.len()
        );
        secrets.absent_from(&format!("the plaintext {side}"), bytes)?;
    }
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
    ensure!(
        has(&sent, "GET /connect") && has(&received, " 101 "),
        "it is no plaintext"
    );
    stage.leaves_no_secret(&site).await?;
    let delete = ["delete", "secret", "sealed"];
    stage
        .cluster
        .kubectl()
        .args(delete)
        .run()
        .await?
        .success()?;
    Ok(())
}
