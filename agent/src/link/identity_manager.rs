//! Identity of the agent, shared by all links: loaded, enrolled, stored, and replaced after a rejection by the
//! hub or a change of the join string. The old identity serves until the new one exists. Agents of one cluster
//! may share the store; an older identity never replaces a newer one.

use std::{sync::Arc, time::Duration};

use fairlead_api::{ClusterUid, Code, Failure, HubUrl, JoinString, moment::timestamp};
use fairlead_certs::AgentKey;
use tokio::{
    sync::{Mutex, Notify, watch},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{
    adoption::{self, AdoptedFacts},
    dial::HubDialer,
    enrolment::{self, EnrolmentKey, ObsoleteIdentity},
    retry::Retry,
};
use crate::{
    context::AgentContext,
    identity::{
        Identity, JoinFingerprint,
        hubs::StoredHubs,
        store::{IdentityStore, SaveKind, StoredIdentity},
    },
};

/// Retry interval for an identity that could not be stored.
const SAVE_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Retry interval for a new join string, while the previous identity serves.
const JOIN_RETRY_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) struct IdentityManager {
    context: Arc<AgentContext>,
    store: IdentityStore,
    /// Locked during requests to the store or the hub: one link sends them, the others wait for the result.
    managed: Mutex<ManagedIdentity>,
    unsaved: Notify,
    /// Wakes the retry of a new join string.
    join_pending: Notify,
    /// Origin of the identity in use.
    origin: watch::Sender<Option<JoinFingerprint>>,
    /// Identity in use, once it is stored.
    stored: watch::Sender<Option<Arc<Identity>>>,
}

/// Identity in use, with pending work.
#[derive(Default)]
struct ManagedIdentity {
    identity: Option<Arc<Identity>>,
    /// Origin of an identity not yet stored.
    unsaved: Option<SaveKind>,
    join: JoinAttempt,
}

/// Outcome for a join string other than the identity's origin.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum JoinAttempt {
    #[default]
    Untried,
    FailedAt(Instant),
    /// Rejected for good: a retry cannot succeed.
    Refused,
}

/// Reason for a missing identity.
enum ObtainError {
    /// Logged by the dial itself.
    Dial(Code),
    Failed(Failure),
}

impl From<Failure> for ObtainError {
    fn from(failure: Failure) -> Self {
        ObtainError::Failed(failure)
    }
}

impl ObtainError {
    /// Logs the error, and reports a refusal. Returns the retry decision.
    fn report(&self, dialer: &HubDialer) -> Retry {
        if let ObtainError::Failed(failure) = self {
            dialer.report_refusal(failure);
        }
        self.retry()
    }

    /// Logs the error, unless the dial has. Returns the retry decision.
    fn retry(&self) -> Retry {
        let code = match self {
            ObtainError::Dial(code) => *code,
            ObtainError::Failed(failure) => {
                warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), "no identity yet; retrying");
                failure.code
            }
        };
        if enrolment::is_final(code) {
            Retry::Slowly
        } else {
            Retry::Soon
        }
    }
}

impl IdentityManager {
    pub(crate) fn new(context: Arc<AgentContext>, store: IdentityStore) -> Self {
        IdentityManager {
            context,
            store,
            managed: Mutex::default(),
            unsaved: Notify::new(),
            join_pending: Notify::new(),
            origin: watch::Sender::default(),
            stored: watch::Sender::default(),
        }
    }

    /// Identity in use, else the stored one, else a new one.
    ///
    /// # Errors
    ///
    /// Retry decision without an identity. The log has the reason.
    pub(crate) async fn obtain(&self, dialer: &mut HubDialer) -> Result<Arc<Identity>, Retry> {
        let mut managed = self.managed.lock().await;
        if let Some(identity) = managed.identity.clone() {
            return Ok(self
                .enrol_if_superseded(&mut managed, dialer, identity)
                .await);
        }
        let obtained = self.load_or_enrol(&mut managed, dialer).await;
        obtained.map_err(|missing| missing.report(dialer))
    }

    async fn load_or_enrol(
        &self,
        managed: &mut ManagedIdentity,
        dialer: &mut HubDialer,
    ) -> Result<Arc<Identity>, ObtainError> {
        let mut stored = self.store.load().await.map_err(Failure::from)?;
        let Some(identity) = stored.identity.take() else {
            return self
                .enrol(managed, dialer, stored, ObsoleteIdentity::Nothing)
                .await;
        };
        let identity = self.adopt_stored(managed, identity);
        let hubs = stored.hubs.take();
        if let Some(hubs) = hubs.filter(|hubs| hubs.join == identity.origin) {
            self.context.hubs.set_learned(&hubs.hubs);
        }
        Ok(self.enrol_if_superseded(managed, dialer, identity).await)
    }

    /// Enrols if the join string differs from the origin of `identity`. Returns `identity` until that succeeds.
    async fn enrol_if_superseded(
        &self,
        managed: &mut ManagedIdentity,
        dialer: &mut HubDialer,
        identity: Arc<Identity>,
    ) -> Arc<Identity> {
        let due = match managed.join {
            JoinAttempt::Untried => true,
            JoinAttempt::FailedAt(at) => at.elapsed() >= JOIN_RETRY_INTERVAL,
            JoinAttempt::Refused => false,
        };
        let Some(join) = dialer.join().filter(|_| due) else {
            return identity;
        };
        let origin = JoinFingerprint::of(join);
        if identity.origin == origin {
            return identity;
        }
        info!(cluster = %identity.cluster, "join string differs from the stored identity's; enrolment started");
        let obsolete = ObsoleteIdentity::Superseded(&origin);
        let enrolled = match self.store.load().await.map_err(Failure::from) {
            Ok(stored) => self.enrol(managed, dialer, stored, obsolete).await,
            Err(failure) => Err(failure.into()),
        };
        match enrolled {
            Ok(enrolled) => {
                info!(old.cluster = %identity.cluster, old.pin = %identity.pins, cluster = %enrolled.cluster, pin = %enrolled.pins,
                    "identity replaced");
                enrolled
            }
            Err(missing) => {
                managed.join = match missing.report(dialer) {
                    Retry::Slowly => JoinAttempt::Refused,
                    _ => JoinAttempt::FailedAt(Instant::now()),
                };
                self.join_pending.notify_one();
                warn!(cluster = %identity.cluster, tries_again = managed.join != JoinAttempt::Refused,
                    "join string cannot be used; stored identity stays in use");
                identity
            }
        }
    }

    /// Identity in use, once it is stored.
    pub(crate) fn stored(&self) -> watch::Receiver<Option<Arc<Identity>>> {
        self.stored.subscribe()
    }

    /// Completes when an identity of another origin is in use.
    pub(crate) async fn wait_until_replaced(&self, identity: &Identity) {
        let mut origin = self.origin.subscribe();
        let other =
            |now: &Option<JoinFingerprint>| now.as_ref().is_some_and(|now| *now != identity.origin);
        // The sender is in `self`.
        let _ = origin.wait_for(other).await;
    }

    fn adopt_stored(&self, managed: &mut ManagedIdentity, identity: Identity) -> Arc<Identity> {
        info!(cluster = %identity.cluster, tenant = %identity.tenant, not_after = timestamp(identity.not_after),
            "stored identity loaded");
        managed.unsaved = None;
        self.adopt(managed, identity)
    }

    fn adopt(&self, managed: &mut ManagedIdentity, identity: Identity) -> Arc<Identity> {
        self.context.metrics.expires(identity.not_after);
        let identity = Arc::new(identity);
        let is_other = |origin: &JoinFingerprint| *origin != identity.origin;
        if self.origin.borrow().as_ref().is_some_and(is_other) {
            // The hubs of another join string.
            self.context.hubs.set_learned(&[]);
        }
        managed.identity = Some(identity.clone());
        if managed.unsaved.is_none() {
            self.stored.send_replace(Some(identity.clone()));
        }
        self.origin.send_replace(Some(identity.origin.clone()));
        identity
    }

    async fn enrol(
        &self,
        managed: &mut ManagedIdentity,
        dialer: &mut HubDialer,
        stored: StoredIdentity,
        obsolete: ObsoleteIdentity<'_>,
    ) -> Result<Arc<Identity>, ObtainError> {
        let known = dialer.join().cloned();
        if known.is_none() && dialer.adoption().is_none() {
            return Err(Failure::new(Code::NotEnrolled).into());
        }
        let key = match enrolment::obtain_key(&self.store, stored, obsolete).await? {
            EnrolmentKey::Key(key) => key,
            EnrolmentKey::Enrolled(identity) => return Ok(self.adopt_stored(managed, *identity)),
        };
        let uid = self.context.cluster_uid().await;
        let join = match known {
            Some(join) => join,
            None => self.adopted(dialer, &key, uid.clone()).await?,
        };
        let dialed = dialer
            .dial_for_enrolment(&join)
            .await
            .map_err(|error| ObtainError::Dial(error.code))?;
        let issued =
            enrolment::request_certificate(dialed.session, &join, &key, dialer.version(), uid)
                .await?;
        let identity = Identity::new(key, issued, join.hubs.clone(), JoinFingerprint::of(&join))?;
        info!(cluster = %identity.cluster, tenant = %identity.tenant, not_after = timestamp(identity.not_after), "enrolled");
        self.save(managed, &identity, SaveKind::Enrolled).await;
        Ok(self.adopt(managed, identity))
    }

    /// Join string from an adoption. Waits until a person has decided.
    async fn adopted(
        &self,
        dialer: &mut HubDialer,
        key: &AgentKey,
        cluster_uid: Option<ClusterUid>,
    ) -> Result<JoinString, ObtainError> {
        let dialed = dialer.dial_for_adoption().await;
        let dialed = dialed.map_err(|error| ObtainError::Dial(error.code))?;
        let facts = AdoptedFacts {
            version: dialer.version(),
            namespace: dialer.adoption().unwrap_or_default(),
            cluster_uid,
        };
        Ok(adoption::obtain_join(&self.context, dialed, key, facts).await?)
    }

    /// Replaces an identity that the hub rejected for good: by a newer one in the store, or by enrolment with a
    /// new join string.
    pub(crate) async fn replace_refused(
        &self,
        identity: &Arc<Identity>,
        dialer: &mut HubDialer,
    ) -> Retry {
        let mut managed = self.managed.lock().await;
        let in_use = managed.identity.as_ref();
        if in_use.is_some_and(|in_use| !in_use.same_certificate(identity)) {
            // Another link had the same rejection and has replaced the identity.
            return Retry::Soon;
        }
        let Ok(stored) = self.store.load().await else {
            return Retry::Slowly;
        };
        match &stored.identity {
            Some(other) if !other.same_certificate(identity) && managed.unsaved.is_none() => {
                info!("newer stored identity adopted");
                managed.identity = None;
                return Retry::Soon;
            }
            _ if dialer.join().is_none() && dialer.adoption().is_none() => return Retry::Slowly,
            _ => {}
        }
        let obsolete = ObsoleteIdentity::Refused(identity);
        match self.enrol(&mut managed, dialer, stored, obsolete).await {
            Ok(_) => Retry::Soon,
            Err(missing) => {
                missing.report(dialer);
                Retry::Slowly
            }
        }
    }

    /// Stores a renewed identity; the next dial uses it.
    pub(crate) async fn store_renewed(&self, renewed: Identity) -> Arc<Identity> {
        let mut managed = self.managed.lock().await;
        let ca = self.context.configuration.document().borrow().ca.clone();
        if let Some(in_use) = &managed.identity
            && in_use.origin == renewed.origin
            && in_use.has_authorities(&ca)
            && !renewed.has_authorities(&ca)
        {
            // Another hub, which has not learned of the rotation yet, has signed it.
            return in_use.clone();
        }
        // Of the same second: a rotation may follow an enrolment at once.
        let newer = managed.identity.as_ref().is_none_or(|in_use| {
            in_use.origin == renewed.origin && in_use.not_after <= renewed.not_after
        });
        if !newer {
            // Another link has a later certificate, or another identity is in use by now.
            return Arc::new(renewed);
        }
        self.save(&mut managed, &renewed, SaveKind::Renewed).await;
        self.adopt(&mut managed, renewed)
    }

    /// Stores an identity. After a failure it is used all the same: the token is spent.
    async fn save(&self, managed: &mut ManagedIdentity, identity: &Identity, kind: SaveKind) {
        let kind = match managed.unsaved {
            Some(SaveKind::Enrolled) => SaveKind::Enrolled,
            _ => kind,
        };
        let saved = self.store.save(identity, kind).await;
        managed.unsaved = saved.is_err().then_some(kind);
        if let Err(error) = saved {
            let failure = Failure::from(error);
            warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(),
                "identity not stored; retrying");
            self.unsaved.notify_one();
        }
    }

    /// Stores each changed list of hubs.
    async fn save_hubs(&self) {
        let mut learned = self.context.hubs.learned_changes();
        while learned.changed().await.is_ok() {
            loop {
                let hubs = learned.borrow_and_update().to_vec();
                // The offset of this process is no part of the list.
                let hubs = sorted(hubs);
                let origin = self.origin.borrow().clone();
                let Some(join) = origin else { break };
                let saved = self.store.save_hubs(&StoredHubs { join, hubs }).await;
                let Err(error) = saved else { break };
                let failure = Failure::from(error);
                warn!(code = %failure.code, cause = failure.cause, next = failure.next_step(), "list of hubs not stored; retrying");
                sleep(SAVE_RETRY_INTERVAL).await;
            }
        }
    }

    /// Retries failed stores and failed join strings, and stores lists of hubs, until the process drains.
    pub(crate) async fn run(self: Arc<Self>, mut dialer: HubDialer) {
        let process = self.context.process.clone();
        let saving = async {
            loop {
                self.unsaved.notified().await;
                sleep(SAVE_RETRY_INTERVAL).await;
                let mut managed = self.managed.lock().await;
                if let (Some(identity), Some(kind)) = (managed.identity.clone(), managed.unsaved) {
                    self.save(&mut managed, &identity, kind).await;
                    if managed.unsaved.is_none() {
                        self.stored.send_replace(Some(identity));
                    }
                }
            }
        };
        let joining = async {
            loop {
                self.join_pending.notified().await;
                sleep(JOIN_RETRY_INTERVAL).await;
                let mut managed = self.managed.lock().await;
                if let Some(identity) = managed.identity.clone() {
                    self.enrol_if_superseded(&mut managed, &mut dialer, identity)
                        .await;
                }
            }
        };
        tokio::select! {
            () = saving => {}
            () = joining => {}
            () = self.save_hubs() => {}
            () = process.draining() => {}
        }
    }
}

fn sorted(mut hubs: Vec<HubUrl>) -> Vec<HubUrl> {
    hubs.sort_by_key(ToString::to_string);
    hubs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_rejected_for_good_is_retried_slowly() {
        for (code, slowly) in [
            (Code::BootstrapSpent, true),
            (Code::BootstrapExpired, true),
            (Code::NotEnrolled, true),
            (Code::Store, false),
            (Code::DialTcp, false),
        ] {
            assert_eq!(
                matches!(ObtainError::Dial(code).retry(), Retry::Slowly),
                slowly
            );
        }
    }
}
