//! The gateway under test with fake modules, and its clients.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use fairlead_audit::{AuditLog, AuditWriter, JournalSettings, OnFull};
use fairlead_certs::Authority;
use fairlead_gateway::{Config, Gateway};
use fairlead_runtime::{Process, listen};
use fairlead_seam::Seam;
use fairlead_testkit::{
    agent::HubAccess,
    collector::FakeCollector,
    raw::{ByteStream, RawClient},
    relay::Relay,
};
use fairlead_traces::{OtlpHeaders, TraceSettings, Traces};
use rustls::{ClientConfig, pki_types::ServerName};
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::modules::{FakeModules, FakeServices};

pub(crate) use fairlead_testkit::{
    clock::{PausedClock, TEST_DEADLINE},
    raw::RawAnswer,
};

pub(crate) const HUB: &str = "hub.test";
pub(crate) const DOMAIN: &str = "clusters.hub.test";
/// Time after its expiry in which an agent's certificate is accepted.
const RENEW_GRACE: Duration = Duration::from_secs(3600);

/// Without other hubs behind a balancer nobody needs the delay.
fn drains_at_once(config: &mut Config) {
    config.limits.drain_delay = Duration::ZERO;
}

pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    /// The front without TLS.
    pub(crate) plain: SocketAddr,
    pub(crate) process: Process,
    pub(crate) authority: Arc<Authority>,
    pub(crate) modules: Arc<FakeModules>,
    pub(crate) audit: AuditLog,
    _writer: AuditWriter,
    _dir: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Rig::with(|_| {})
    }

    /// Starts with a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Rig::build((None, None), None, change)
    }

    /// One of several hubs, with the authority of the others.
    pub(crate) fn of_hub(name: &str, authority: Option<&Arc<Authority>>) -> Self {
        Rig::build((Some(name), authority.cloned()), None, drains_at_once)
    }

    /// As [`Rig::of_hub`] with an authority of its own, and with this drain delay.
    pub(crate) fn with_drain_delay(name: &str, delay: Duration) -> Self {
        Rig::build((Some(name), None), None, |config| {
            config.limits.drain_delay = delay;
        })
    }

    /// As [`Rig::of_hub`], with its traces sent to this collector.
    pub(crate) fn traced(
        name: &str,
        authority: Option<&Arc<Authority>>,
        collector: &FakeCollector,
    ) -> Self {
        let settings = TraceSettings {
            endpoint: collector.url().parse().unwrap(),
            headers: OtlpHeaders::default(),
            ca: None,
            ratio: "0".parse().unwrap(),
            service: name.to_owned(),
        };
        let hub = (Some(name), authority.cloned());
        Rig::build(hub, Some(&settings), drains_at_once)
    }

    fn build(
        (name, authority): (Option<&str>, Option<Arc<Authority>>),
        traces: Option<&TraceSettings>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = authority
            .unwrap_or_else(|| Arc::new(Authority::open_or_create(dir.path() as &Path).unwrap()));
        let now = OffsetDateTime::now_utc();
        let names = [HUB, "*.clusters.hub.test", "localhost", "127.0.0.1"].map(str::to_owned);
        let front = authority.issue_front(&names, now).unwrap();
        let inner = authority.issue_hub(now).unwrap();
        let front_tls = fairlead_certs::front_server(&front).unwrap();
        let session_tls =
            fairlead_certs::session_server(&inner, authority.certificate_pem(), RENEW_GRACE)
                .unwrap();
        let hub_client = authority.issue_hub_client(now).unwrap();
        let hub_tls = fairlead_certs::session_client(authority.pin(), Some(&hub_client)).unwrap();
        let modules = Arc::new(FakeModules::new(now, name));
        let process = Process::new();
        let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut config = Config {
            public_url: format!("https://{HUB}").parse().unwrap(),
            cluster_domain: DOMAIN.to_owned(),
            front_tls: watch::channel(front_tls).1,
            session_tls: watch::channel(session_tls).1,
            hub_tls: watch::channel(hub_tls).1,
            trust_domain: authority.trust_domain().to_owned(),
            limits: fairlead_gateway::GatewayLimits::default(),
            proxies: fairlead_runtime::proxies::Proxies::default(),
            service_listen: Some(Ipv4Addr::LOCALHOST.into()),
        };
        change(&mut config);
        let seam = Seam {
            authenticator: modules.clone(),
            authorizer: modules.clone(),
            directory: modules.clone(),
            modules: vec![modules.clone(), Arc::new(FakeServices(modules.clone()))],
        };
        let plain_listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let plain = plain_listener.local_addr().unwrap();
        let gateway = Gateway::build(config, seam, listener, &process).unwrap();
        let gateway = gateway.with_plain(Some(plain_listener));
        let audit = JournalSettings::of(dir.path().join("audit"), HUB.to_owned());
        let writer = AuditLog::open(audit, OnFull::Refuse).unwrap();
        let gateway = gateway.with_audit(writer.log());
        let traces = Traces::start(traces, HUB, &process).unwrap();
        let gateway = gateway.with_traces(traces);
        let address = gateway.local_addr();
        process.spawn(async move { gateway.serve().await.unwrap() });
        Rig {
            address,
            plain,
            process,
            authority,
            modules,
            audit: writer.log(),
            _writer: writer,
            _dir: dir,
        }
    }

    /// Access for fake agents.
    pub(crate) fn access(&self) -> HubAccess {
        self.access_by(self.address.port())
    }

    /// Access by another port of loopback that leads to the hub.
    pub(crate) fn access_by(&self, port: u16) -> HubAccess {
        HubAccess {
            port,
            outer_tls: self.client_config("http/1.1"),
            authority: self.authority.clone(),
        }
    }

    /// A port that leads to the hub and can break.
    pub(crate) async fn relay(&self) -> Relay {
        Relay::to(self.address).await
    }

    pub(crate) fn client_config(&self, alpn: &str) -> Arc<ClientConfig> {
        let outer = fairlead_certs::outer_client(Some(self.authority.certificate_pem()), None);
        let mut config = (*outer.unwrap()).clone();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        Arc::new(config)
    }

    /// Client of the front; an address instead of a name sends no SNI.
    pub(crate) fn client(&self, sni: &str, alpn: &str) -> RawClient {
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        RawClient::with_tls(self.address, name, self.client_config(alpn))
    }

    /// TLS to the front.
    pub(crate) async fn connect(&self, sni: &str, alpn: &str) -> Box<dyn ByteStream> {
        self.client(sni, alpn).connect().await.unwrap()
    }

    /// Sends these bytes and reads one answer.
    pub(crate) async fn raw(&self, sni: &str, request: &[u8]) -> RawAnswer {
        let sent = self.client(sni, "http/1.1").send(request).await;
        sent.unwrap()
    }

    /// Sends a GET with a valid token and these additional headers.
    pub(crate) async fn get(&self, sni: &str, path: &str, headers: &str) -> RawAnswer {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {sni}\r\nAuthorization: Bearer good\r\n{headers}\r\n"
        );
        self.raw(sni, request.as_bytes()).await
    }

    /// The sum of a metric over all rows with these labels.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let families = self.process.registry().gather();
        let of_name = families.iter().filter(|family| family.name() == name);
        of_name
            .flat_map(|family| family.get_metric())
            .filter(|metric| {
                labels
                    .iter()
                    .all(|label| metric.get_label().iter().any(|pair| pair.value() == *label))
            })
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}
