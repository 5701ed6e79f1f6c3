//! One agent between a hub and an API server.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_agent::{Config, DEFAULT_SESSION_MEMORY_BYTES, IdentityLocation, UpgradeRule};
use fairlead_api::{
    Failure, JoinString,
    headers::{DRAINING, PROBE_PATH},
    hello::LinkCount,
};
use fairlead_apiserver::ApiServerConfig;
use fairlead_exchange::{Answer, Body, Exchanges};
use fairlead_runtime::Process;
use http::{Request, Response};
use http_body_util::BodyExt;
use tempfile::TempDir;
use tokio::{net::TcpSocket, task::JoinHandle};

use fairlead_testkit::{
    api_server::ApiServer,
    hub::{ConnectedAgent, FakeHub},
    relay::Relay,
    wait,
};

pub(crate) use fairlead_testkit::{
    body::{empty as nothing, text},
    clock::PausedClock,
    wait::soon,
};

pub(crate) struct Rig {
    pub(crate) hub: FakeHub,
    pub(crate) api: ApiServer,
    pub(crate) dir: TempDir,
}

/// A running agent.
pub(crate) struct Agent {
    pub(crate) process: Process,
    pub(crate) running: JoinHandle<Result<(), Failure>>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.running.abort();
        let process = self.process.clone();
        tokio::spawn(async move { process.finish(Duration::ZERO).await });
    }
}

impl Agent {
    /// Value of a gauge without labels.
    pub(crate) fn gauge(&self, name: &str) -> f64 {
        let families = self.process.registry().gather();
        let family = families.iter().find(|family| family.name() == name);
        family.expect(name).get_metric()[0].get_gauge().get_value()
    }
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig {
            hub: FakeHub::start(&dir.path().join("hub")).await,
            api: ApiServer::start(),
            dir,
        };
        rig.rotate_token("token-1");
        rig
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            join: Some(JoinString {
                hubs: vec![self.hub.url()],
                ca_pins: self.hub.authority.pin().into(),
                token: "bootstrap".into(),
            }),
            adopt: false,
            git_proxy: Default::default(),
            hubs: Vec::new(),
            instance: None,
            links: Some(LinkCount::ONE),
            learn_hubs: true,
            ca_file: None,
            target: ApiServerConfig::InCluster {
                host: "127.0.0.1".to_owned(),
                port: self.api.port(),
                dir: self.account(),
            },
            state: IdentityLocation::Dir(self.state()),
            allow_groups: vec!["ops".to_owned()],
            allow_as: Vec::new(),
            facts_every: Some(Duration::ZERO),
            operator_namespaces: Vec::new(),
            allow_connect: Vec::new(),
            delivery: None,
            upgrades: UpgradeRule::default(),
            session_memory: DEFAULT_SESSION_MEMORY_BYTES,
            https_proxy: None,
            proxy_file: None,
            no_proxy: None,
            traces: None,
            version: "0.0.0-test".to_owned(),
        }
    }

    pub(crate) fn start(&self, config: Config) -> Agent {
        let process = Process::new();
        let running = tokio::spawn(fairlead_agent::run(config, process.clone()));
        Agent { process, running }
    }

    /// An agent with its session.
    pub(crate) async fn connected(&self) -> (Agent, ConnectedAgent) {
        let agent = self.start(self.config());
        (agent, self.hub.next().await)
    }

    /// Another hub with the same CA.
    pub(crate) async fn another_hub(&self) -> FakeHub {
        FakeHub::start(&self.dir.path().join("hub")).await
    }

    /// Another address of the same hub.
    pub(crate) async fn another_address(&self) -> Relay {
        self.hub.another_address().await
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn account(&self) -> PathBuf {
        self.dir.path().join("account")
    }

    /// Rotates the token as the kubelet does: a new directory, and one swapped symlink.
    pub(crate) fn rotate_token(&self, token: &str) {
        let account = self.account();
        fs::create_dir_all(&account).unwrap();
        let data = account.join(format!("..{token}"));
        fs::create_dir(&data).unwrap();
        for (name, text) in [
            ("token", token),
            ("ca.crt", self.api.server.ca_pem()),
            ("namespace", "fairlead-site"),
        ] {
            fs::write(data.join(name), text).unwrap();
            let link = account.join(name);
            if link.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), link).unwrap();
            }
        }
        symlink(&data, account.join("..data_tmp")).unwrap();
        fs::rename(account.join("..data_tmp"), account.join("..data")).unwrap();
    }
}

/// A request as the gateway sends it.
pub(crate) fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "cluster")
        .header("fairlead-user", "fairlead:ann")
        .header("fairlead-group", "fairlead:viewer")
        .header("fairlead-group", "fairlead:tenant:t-acme:viewer")
        .header("audit-id", "r-1")
}

pub(crate) fn get(path: &str) -> Request<Body> {
    request("GET", path).body(nothing()).unwrap()
}

/// Probe of a draining hub.
pub(crate) fn last_probe() -> Request<Body> {
    let probe = request("GET", PROBE_PATH).header(DRAINING, "1");
    probe.body(nothing()).unwrap()
}

/// Answer to a request without an upgrade.
pub(crate) async fn send(exchanges: &Exchanges, request: Request<Body>) -> Response<Body> {
    match soon(exchanges.send(request)).await.unwrap() {
        Answer::Response(response) => response,
        Answer::Upgraded(head, _) => panic!("upgraded: {head:?}"),
    }
}

pub(crate) async fn body(response: Response<Body>) -> String {
    let whole = soon(response.into_body().collect())
        .await
        .unwrap()
        .to_bytes();
    String::from_utf8(whole.to_vec()).unwrap()
}

/// An address without a listener. The bound socket keeps others from listening there.
pub(crate) fn closed() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Waits until the condition holds.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    wait::until(async || holds()).await;
}
