//! Connections that are refused: by role, tenant, rule of the site, and spelling.

use anyhow::ensure;
use fairlead_e2e::{
    raw_tcp::{head, refusal},
    targets::EchoTarget,
};

use crate::world::TcpWorld;

#[tokio::test]
async fn only_roles_for_tcp_reach_targets_that_the_site_allows() -> anyhow::Result<()> {
    let (echo, other) = (EchoTarget::start().await?, EchoTarget::start().await?);
    let world = TcpWorld::start(&[echo.rule()]).await?;
    world
        .hub
        .cli(["tenant", "create", "acme"])
        .await?
        .success()?;
    let (cluster, client) = (world.joining.id.as_str(), world.hub.front()?);
    let (echo, other) = (echo.address(), other.address());
    let code = async |token: &str, target: &str| {
        let answer = refusal(&client, &head(token, cluster, target)).await?;
        let text = answer.text();
        ensure!(
            text.contains(answer.code()) && text.contains("\"next\""),
            "{text}"
        );
        anyhow::Ok((answer.status, answer.code().to_owned()))
    };
    let is = |status: u16, code: &str| (status, code.to_owned());

    let admin = world.hub.token()?;
    let tcp = world.token("tcp", &["--role", "tcp"]).await?;
    let own = world
        .token("own", &["--role", "tcp", "--tenant", &world.joining.tenant])
        .await?;
    let one = world
        .token("one", &["--role", "tcp", "--cluster", "demo"])
        .await?;
    for token in [&admin, &tcp, &own, &one] {
        world.open(token, &echo).await?;
        ensure!(
            code(token, &other).await? == is(403, "FL-1523"),
            "loopback by another port"
        );
        ensure!(code(token, "db.shop:5432").await? == is(403, "FL-1503"));
        ensure!(code(token, "169.254.169.254:80").await? == is(403, "FL-1523"));
    }
    for role in ["viewer", "operator"] {
        let token = world.token(role, &["--role", role]).await?;
        ensure!(code(&token, &echo).await? == is(403, "FL-1423"), "{role}");
    }
    // Another tenant's role sees no cluster at all.
    let foreign = world
        .token("foreign", &["--role", "tcp", "--tenant", "acme"])
        .await?;
    ensure!(code(&foreign, &echo).await? == is(404, "FL-1301"));
    ensure!(code("wrong", &echo).await? == is(401, "FL-1102"));

    // The role reaches no API server.
    let get = format!(
        "GET /k8s/clusters/{cluster}/api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {tcp}\r\n\r\n"
    );
    let answer = refusal(&client, &get).await?;
    ensure!(
        (answer.status, answer.code()) == (403, "FL-1201"),
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn no_other_spelling_of_a_target_passes_the_hub() -> anyhow::Result<()> {
    let echo = EchoTarget::start().await?;
    let world = TcpWorld::start(&[echo.rule()]).await?;
    let (cluster, client) = (world.joining.id.as_str(), world.hub.front()?);
    let (token, port) = (world.hub.token()?, echo.rule().replace("127.0.0.1:", ""));
    for target in [
        format!("127.0.0.1:0{port}"),
        format!("127.1:{port}"),
        format!("0x7f.0.0.1:{port}"),
        format!("2130706433:{port}"),
        format!("0177.0.0.1:{port}"),
        format!("%5B::ffff:127.0.0.1%5D:{port}"),
        format!("LOCALHOST:{port}"),
        format!("localhost.:{port}"),
        format!("user@127.0.0.1:{port}"),
        format!("127.0.0.1%20:{port}"),
        format!("127.0.0.1:{port}:{port}"),
        format!("127.0.0.1:{port}/"),
        format!("127.0.0.1%40x:{port}"),
        "127.0.0.1:0".to_owned(),
        "127.0.0.1:65536".to_owned(),
        "127.0.0.1:".to_owned(),
        "127.0.0.1".to_owned(),
        String::new(),
    ] {
        let answer = refusal(&client, &head(&token, cluster, &target)).await?;
        ensure!(
            (answer.status, answer.code()) == (400, "FL-1420"),
            "{target}: {answer:?}"
        );
    }
    for target in [
        format!("..:{port}/../127.0.0.1:{port}"),
        format!("127.0.0.1%00:{port}"),
        format!("127.0.0.1%0d%0a:{port}"),
        format!("http:%2F%2F127.0.0.1:{port}"),
        format!("127.0.0.1%2e:{port}"),
        format!("127.0.0.1:{port}//"),
    ] {
        let answer = refusal(&client, &head(&token, cluster, &target)).await?;
        ensure!(
            (answer.status, answer.code()) == (400, "FL-1303"),
            "{target}: {answer:?}"
        );
    }
    // CONNECT of a client, and requests without the WebSocket.
    let host = format!("host: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n{host}");
    ensure!(refusal(&client, &connect).await?.code() == "FL-1303");
    for method in ["GET", "POST", "DELETE"] {
        let path = format!("/v1/clusters/{cluster}/tcp/127.0.0.1:{port}");
        let plain = format!("{method} {path} HTTP/1.1\r\n{host}");
        let answer = refusal(&client, &plain).await?;
        ensure!(answer.code() == "FL-1421", "{method}: {answer:?}");
    }
    ensure!(echo.open() == 0, "a connection has arrived");
    Ok(())
}
