//! Git proxy: a cluster reaches allowed addresses of its own repositories, and no private address by a name.

use std::sync::Arc;

use fairlead_api::Code;
use fairlead_certs::AgentIdentity;
use fairlead_control::GitProxySettings;
use fairlead_dialer::dial::ProxyRules;
use fairlead_seam::{Outbound, OutboundIo};
use fairlead_testkit::proxy::FakeProxy;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::rig::{Rig, admin};

/// Address that is in the list, and of no repository.
const OTHER: &str = "192.0.2.1:22";

struct World {
    rig: Rig,
    server: TcpListener,
    target: String,
    identity: AgentIdentity,
    outbound: Arc<dyn Outbound>,
}

async fn world(change: impl FnOnce(&mut GitProxySettings)) -> World {
    let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = server.local_addr().unwrap().port();
    let target = format!("127.0.0.1:{port}");
    let allow = [&target, OTHER, &format!("localhost:{port}")].map(|it| it.parse().unwrap());
    let mut settings = GitProxySettings {
        allow: allow.to_vec(),
        ..GitProxySettings::default()
    };
    change(&mut settings);
    let rig = Rig::with(|config| config.git_proxy = settings).await;
    rig.tenant("acme").await;
    let join = rig.cluster("demo", "acme").await;
    let (_, identity) = rig.enrolled(&join).await;
    let modules = rig.control.seam().modules;
    let outbound = modules.iter().find_map(|it| it.outbound()).unwrap();
    World {
        rig,
        server,
        target,
        identity,
        outbound,
    }
}

impl World {
    /// Names a repository of the cluster.
    async fn repository(&self, url: &str) {
        let repo = json!({ "gitRepo": { "type": "unmanaged", "url": url } });
        let patch = http::Method::PATCH;
        let by = admin();
        let changed = self.rig.call(&by, patch, "/clusters/c-demo", repo);
        changed.await.good();
    }

    async fn connect(&self, target: &str) -> Result<Box<dyn OutboundIo>, Code> {
        let connected = self.outbound.connect(&self.identity, target).await;
        connected.map_err(|failure| failure.code)
    }
}

#[tokio::test]
async fn cluster_reaches_the_server_of_its_repository() {
    let world = world(|_| {}).await;
    let target = world.target.clone();
    let refused = world.connect(&target).await.err();
    assert_eq!(refused, Some(Code::GitProxyRefused), "it has no repository");
    let url = format!("ssh://git@{target}/acme/demo.git");
    world.repository(&url).await;
    let mut near = world.connect(&target).await.unwrap();
    let (mut far, _) = world.server.accept().await.unwrap();
    far.write_all(b"SSH-2.0").await.unwrap();
    let mut read = [0; 7];
    near.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"SSH-2.0");
    assert_eq!(
        world.connect(OTHER).await.err(),
        Some(Code::GitProxyRefused)
    );
}

#[tokio::test]
async fn address_outside_of_the_list_is_refused_although_it_is_of_a_repository() {
    let world = world(|_| {}).await;
    world.repository("ssh://git@192.0.2.7/acme/demo.git").await;
    for target in ["192.0.2.7:22", "192.0.2.7", "", "user@127.0.0.1:22"] {
        let refused = world.connect(target).await.err();
        assert_eq!(refused, Some(Code::GitProxyRefused), "{target}");
    }
}

#[tokio::test]
async fn name_with_private_addresses_needs_their_network_in_the_settings() {
    let all = |settings: &mut GitProxySettings| settings.for_all_clusters = true;
    let closed = world(all).await;
    let port = closed.server.local_addr().unwrap().port();
    let refused = closed.connect(&format!("localhost:{port}")).await.err();
    assert_eq!(refused, Some(Code::GitProxyRefused));

    let open = world(|settings| {
        all(settings);
        settings.private_networks = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let open = open.await;
    let port = open.server.local_addr().unwrap().port();
    open.connect(&format!("localhost:{port}")).await.unwrap();
}

#[tokio::test]
async fn server_that_does_not_answer_has_a_code_of_its_own() {
    let world = world(|settings| settings.for_all_clusters = true).await;
    let target = world.target.clone();
    drop(world.server);
    let refused = world.outbound.connect(&world.identity, &target).await;
    assert_eq!(refused.err().unwrap().code, Code::GitProxyUnreachable);
}

/// Settings of a hub behind this proxy.
fn behind(proxy: &FakeProxy, no_proxy: &str) -> impl FnOnce(&mut GitProxySettings) {
    let url = format!("http://robot:s3cret@{}", proxy.address());
    let rules = ProxyRules::parse(Some(&url), Some(no_proxy)).unwrap();
    move |settings| {
        settings.for_all_clusters = true;
        settings.proxy = rules;
    }
}

#[tokio::test]
async fn hub_behind_a_proxy_connects_through_it_and_loses_no_byte() {
    // An SSH server speaks first; its bytes may come together with the answer.
    let answer = b"HTTP/1.1 200 Connection established\r\n\r\nSSH-2.0";
    let proxy = FakeProxy::answering(answer, 1).await;
    let world = world(behind(&proxy, "")).await;
    let mut near = world.connect(OTHER).await.unwrap();
    let mut read = [0; 7];
    near.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"SSH-2.0");
    let request = proxy.last_request().await;
    assert!(request.starts_with("CONNECT 192.0.2.1:22 "), "{request}");
    assert!(request.contains("proxy-authorization: Basic "), "{request}");
}

#[tokio::test]
async fn proxy_that_refuses_is_named_without_its_password() {
    let proxy = FakeProxy::answering(b"HTTP/1.1 403 Forbidden\r\n\r\n", 1).await;
    let world = world(behind(&proxy, "")).await;
    let refused = world.outbound.connect(&world.identity, OTHER).await;
    let failure = refused.err().unwrap();
    assert_eq!(failure.code, Code::GitProxyUnreachable);
    let (cause, next) = (&failure.cause, failure.next.unwrap_or_default());
    assert!(cause.contains("answered 403"), "{cause}");
    assert!(next.contains("NO_PROXY"), "{next}");
    assert!(!cause.contains("s3cret"), "{cause}");
}

#[tokio::test]
async fn address_of_no_proxy_is_connected_to_directly() {
    let proxy = FakeProxy::answering(b"", 1).await;
    let world = world(behind(&proxy, "127.0.0.1")).await;
    world.connect(&world.target).await.unwrap();
    world.server.accept().await.unwrap();
}

#[tokio::test]
async fn hub_without_a_list_makes_no_connections() {
    let rig = Rig::new().await;
    let modules = rig.control.seam().modules;
    assert!(modules.iter().all(|it| it.outbound().is_none()));
}
