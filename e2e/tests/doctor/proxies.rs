//! The way out through a proxy with a password: in plain or in TLS, and with a password that is rotated.

use anyhow::ensure;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_testkit::tls::TestCa;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::{
    servers::{FaultyServer, NAMES, tunnel},
    world::{DoctorWorld, Fault},
};

/// Name of the hub behind the proxy. No resolver knows it.
const HUB_NAME: &str = "hub.fairlead.test";

/// Password with characters that a URL escapes.
const PASSWORD: &str = "n3w:p@ss/word-secret";
const ESCAPED: &str = "n3w%3Ap%40ss%2Fword-secret";

#[tokio::test]
async fn rotated_password_of_a_proxy_is_read_for_each_dial() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let ca = TestCa::new("Fairlead Test CA")?;
    let front = ca.leaf(&[HUB_NAME])?.server()?;
    let front = FaultyServer::before(&world.hub, front, (|head| head, |head| head)).await?;
    let proxy_leaf = ca.leaf(&NAMES)?;
    let to = front.address;
    let authorization = format!("Basic {}", STANDARD.encode(format!("user:{PASSWORD}")));
    for (name, tls) in [("plain-proxy", false), ("tls-proxy", true)] {
        let acceptor = TlsAcceptor::from(proxy_leaf.server()?);
        let expected = authorization.clone();
        let proxy = FaultyServer::serve(move |tcp: TcpStream| {
            let (acceptor, expected) = (acceptor.clone(), expected.clone());
            async move {
                // A client that gives up is no failure of this proxy.
                let _ = match tls {
                    false => tunnel(tcp, to, &expected).await,
                    true => match acceptor.accept(tcp).await {
                        Ok(tls) => tunnel(tls, to, &expected).await,
                        Err(error) => Err(error.into()),
                    },
                };
            }
        })
        .await?;
        let scheme = if tls { "https" } else { "http" };
        let address = proxy.address;
        let url = |password: &str| format!("{scheme}://user:{password}@{address}\n");
        let file = world.write(&format!("{name}.url"), &url("0ld-secret"))?;
        let fault = world
            .fault(name, ("proxy", "FL-3104"), &["407", "user:password@host"])
            .await?;
        let fault = Fault {
            url: Some(format!("https://{HUB_NAME}:{}", to.port())),
            ca_file: Some(world.write("ca.pem", &ca.pem())?),
            proxy_file: Some(file.clone()),
            ..fault
        };
        let mut agent = world.diagnosed(&fault).await?;
        std::fs::write(&file, url(ESCAPED))?;
        world.hub.wait_state(name, "Connected").await?;
        let (status, checkup) = world.doctor(&fault, &[]).await?;
        ensure!(status == 0, "{checkup}");
        let way = checkup["sections"][0]["way"].to_string();
        ensure!(
            way.contains(&format!("through {scheme}://{address}")),
            "{way}"
        );
        let log = agent.log()?;
        ensure!(!log.contains("-secret"), "{log}");
        agent.term()?;
    }
    Ok(())
}
