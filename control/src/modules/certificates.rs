//! The hub's own certificates: the leaf of the inner TLS and, unless one is configured, the
//! front's.
//!
//! They are issued on start and renewed at two thirds of their lifetime. A configured certificate is read again each
//! minute. Listeners receive the new certificate through a watch.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::{Code, Failure, moment::timestamp};
use fairlead_certs::{Leaf, front_server, renew_at, session_client, session_server};
use fairlead_routes::ApiModule;
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::Clock;
use prometheus::{IntGaugeVec, Opts};
use rustls::{ClientConfig, ServerConfig};
use time::OffsetDateTime;
use tokio::{sync::watch, task::spawn_blocking};
use tracing::{info, warn};

use crate::{
    authorities::{CaSet, TrustedAuthorities},
    front_files::FrontFiles,
};

/// Interval of wall-clock checks: a 16-hour timer would not advance while the machine is suspended.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// A configured certificate that expires sooner causes a warning.
const EXPIRY_WARNING: time::Duration = time::Duration::days(7);

/// Expiry of the hub's certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Certificate of the front.
    pub front: OffsetDateTime,
    /// Leaf of the inner TLS.
    pub hub: OffsetDateTime,
    /// Certificate of the hub's authority.
    pub ca: OffsetDateTime,
}

/// Source of the front's certificate.
pub(crate) enum FrontCertificate {
    /// Configured and renewed by the platform operator.
    Given(Leaf),
    /// Issued by the hub's own authority for these names.
    Own(Vec<String>),
}

pub(crate) struct Certificates {
    authorities: Arc<TrustedAuthorities>,
    /// `None` if the front's certificate is configured.
    names: Option<Vec<String>>,
    /// Time after its expiry within which an agent's certificate is accepted for renewal.
    renew_grace: Duration,
    leaves: RwLock<Leaves>,
    front: watch::Sender<Arc<ServerConfig>>,
    session: watch::Sender<Arc<ServerConfig>>,
    /// The hub's end of sessions that it opens at other hubs.
    between_hubs: watch::Sender<Arc<ClientConfig>>,
}

struct Leaves {
    front: Leaf,
    hub: Leaf,
}

impl Certificates {
    pub(crate) fn new(
        authorities: Arc<TrustedAuthorities>,
        front: FrontCertificate,
        renew_grace: Duration,
        now: OffsetDateTime,
    ) -> Result<Self, Failure> {
        let set = authorities.set();
        let (front, names) = match front {
            FrontCertificate::Given(leaf) => {
                if leaf.not_after() < now + EXPIRY_WARNING {
                    warn!(
                        ends = timestamp(leaf.not_after()),
                        "front certificate expires soon or has expired"
                    );
                }
                (leaf, None)
            }
            FrontCertificate::Own(names) => (set.current.issue_front(&names, now)?, Some(names)),
        };
        let hub = set.current.issue_hub(now)?;
        let session = session_server(&hub, &set.bundle_pem(), renew_grace)?;
        let between_hubs = client_between_hubs(&set, now)?;
        Ok(Certificates {
            front: watch::Sender::new(front_server(&front)?),
            session: watch::Sender::new(session),
            between_hubs: watch::Sender::new(between_hubs),
            leaves: RwLock::new(Leaves { front, hub }),
            authorities,
            names,
            renew_grace,
        })
    }

    pub(crate) fn front(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.front.subscribe()
    }

    pub(crate) fn session(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.session.subscribe()
    }

    pub(crate) fn between_hubs(&self) -> watch::Receiver<Arc<ClientConfig>> {
        self.between_hubs.subscribe()
    }

    /// True if the front's certificate covers cluster names under `domain`.
    pub(crate) fn covers(&self, domain: &str) -> bool {
        let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
        leaves.front.covers(&format!("c-any.{domain}"))
    }

    pub(crate) fn expiry(&self) -> CertificateExpiry {
        let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
        CertificateExpiry {
            front: leaves.front.not_after(),
            hub: leaves.hub.not_after(),
            ca: self.authorities.set().current.not_after(),
        }
    }

    /// Renews certificates that are due.
    ///
    /// # Errors
    /// The previous certificates remain in use.
    pub(crate) fn renew_due(&self, now: OffsetDateTime) -> Result<(), Failure> {
        let due = |leaf: &Leaf| now >= renew_at(leaf.not_before(), leaf.not_after());
        let (hub_due, front_due) = {
            let leaves = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
            (due(&leaves.hub), due(&leaves.front))
        };
        if hub_due {
            let ends = self.renew_hub(now)?;
            info!(kind = "hub", ends = timestamp(ends), "certificate renewed");
        }
        if front_due && let Some(ends) = self.renew_front(now)? {
            info!(
                kind = "front",
                ends = timestamp(ends),
                "certificate renewed"
            );
        }
        Ok(())
    }

    /// Issues all certificates again, after a change of the authorities. Running sessions keep theirs.
    ///
    /// # Errors
    /// The previous certificates remain in use.
    pub(crate) fn reissue(&self, now: OffsetDateTime) -> Result<(), Failure> {
        self.renew_hub(now)?;
        self.renew_front(now)?;
        Ok(())
    }

    fn renew_hub(&self, now: OffsetDateTime) -> Result<OffsetDateTime, Failure> {
        let set = self.authorities.set();
        let leaf = set.current.issue_hub(now)?;
        let config = session_server(&leaf, &set.bundle_pem(), self.renew_grace)?;
        let between_hubs = client_between_hubs(&set, now)?;
        let ends = leaf.not_after();
        self.write().hub = leaf;
        self.session.send_replace(config);
        self.between_hubs.send_replace(between_hubs);
        Ok(ends)
    }

    /// Serves this configured certificate from now on; `None` if the front has it already.
    fn replace_front(&self, leaf: Leaf) -> Result<Option<OffsetDateTime>, Failure> {
        let served = self.leaves.read().unwrap_or_else(PoisonError::into_inner);
        if served.front.chain() == leaf.chain() {
            return Ok(None);
        }
        drop(served);
        let config = front_server(&leaf)?;
        let ends = leaf.not_after();
        self.write().front = leaf;
        self.front.send_replace(config);
        Ok(Some(ends))
    }

    /// `None` if the front's certificate is configured.
    fn renew_front(&self, now: OffsetDateTime) -> Result<Option<OffsetDateTime>, Failure> {
        let Some(names) = &self.names else {
            return Ok(None);
        };
        let leaf = self.authorities.set().current.issue_front(names, now)?;
        let config = front_server(&leaf)?;
        let ends = leaf.not_after();
        self.write().front = leaf;
        self.front.send_replace(config);
        Ok(Some(ends))
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Leaves> {
        self.leaves.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// TLS inside of sessions to other hubs, with a certificate of its own: that of the inner TLS proves a server only.
fn client_between_hubs(set: &CaSet, now: OffsetDateTime) -> Result<Arc<ClientConfig>, Failure> {
    let leaf = set.current.issue_hub_client(now)?;
    Ok(session_client(set.pins(), Some(&leaf))?)
}

pub(crate) struct CertificatesModule {
    certificates: Arc<Certificates>,
    /// `None` if the hub makes the front's certificate.
    front_files: Option<FrontFiles>,
    clock: Clock,
    /// `None` if the metric could not be created.
    expiry: Option<IntGaugeVec>,
}

impl CertificatesModule {
    pub(crate) fn new(
        certificates: Arc<Certificates>,
        front_files: Option<FrontFiles>,
        clock: Clock,
    ) -> Self {
        CertificatesModule {
            certificates,
            front_files,
            clock,
            expiry: expiry_gauge(),
        }
    }

    /// Serves a certificate that was renewed in its files.
    ///
    /// Both files may be read around a renewal, and then do not belong together: the next check has them right.
    async fn read_front(&self, files: FrontFiles) -> Result<(), Failure> {
        let read = spawn_blocking(move || files.read()).await;
        let leaf = read.map_err(|error| Failure::because(Code::Internal, error))??;
        if let Some(ends) = self.certificates.replace_front(leaf)? {
            info!(ends = timestamp(ends), "front certificate read again");
        }
        Ok(())
    }
}

impl ApiModule for CertificatesModule {}

#[async_trait]
impl Module for CertificatesModule {
    fn name(&self) -> &'static str {
        "certificates"
    }

    async fn run(&self, process: Process) {
        let gauge = self.expiry.as_ref();
        if let Some(Err(error)) = gauge.map(|gauge| process.measure(gauge.clone())) {
            warn!(%error, "metric not registered");
        }
        loop {
            if let Err(error) = self.certificates.renew_due(self.clock.now()) {
                warn!(code = %error.code, cause = error.cause, "hub certificates not renewed");
            }
            if let Some(files) = self.front_files.clone()
                && let Err(error) = self.read_front(files).await
            {
                warn!(code = %error.code, cause = error.cause, "front certificate not read again");
            }
            if let Some(gauge) = gauge {
                show(gauge, self.certificates.expiry());
            }
            tokio::select! {
                () = process.draining() => return,
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
        }
    }
}

fn expiry_gauge() -> Option<IntGaugeVec> {
    let opts = Opts::new(
        "fairlead_certificate_expiry_timestamp_seconds",
        "Expiry of the hub's certificates, in seconds since 1970.",
    );
    IntGaugeVec::new(opts, &["kind"])
        .inspect_err(|error| warn!(%error, "metric not registered"))
        .ok()
}

fn show(gauge: &IntGaugeVec, ends: CertificateExpiry) {
    for (kind, at) in [("front", ends.front), ("hub", ends.hub), ("ca", ends.ca)] {
        gauge.with_label_values(&[kind]).set(at.unix_timestamp());
    }
}
