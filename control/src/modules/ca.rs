//! Rotation of the hub's CA: `rotate` announces a new authority, agents take it over, `retire` ends the trust in the
//! old one.
//!
//! Agents learn the pins from their configuration, and renew their identity, which brings the new CA. They report
//! the trust that they have stored. No session ends.

mod progress;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{Json, Router, extract::State, routing::post};
use fairlead_api::{
    Code,
    enroll::{CA_PATH, MAX_ENROLL_BODY_BYTES, StoredCa, StoredCaResponse},
    resources::{CaStatus, RetireCa, Role},
};
use fairlead_registry::{admit, allow, by};
use fairlead_routes::{
    ApiModule, ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Peer, finish},
};
use fairlead_runtime::Process;
use fairlead_seam::{AgentPeer, Caller, Module};
use fairlead_store::{
    Actor, Clock, Draft, Revision, Store, StoreError,
    model::{AgentCa, Authorities, RetiredCa},
    whole_millis,
};
use http::StatusCode;
use serde_json::json;
use tokio::time::sleep;
use tracing::{info, warn};

use super::certificates::Certificates;
use crate::{authorities::TrustedAuthorities, ca_error::CaError, epoch};

const ROTATE_CA: Right = Right::new("rotating the CA", &[Role::Admin]).on_all_tenants();
const CONFIRM_RESTORE: Right = Right::new("confirming a restore", &[Role::Admin]).on_all_tenants();
/// Pause before another attempt to read keys of another hub.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Needs of the module.
pub(crate) struct CaParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) authorities: Arc<TrustedAuthorities>,
    pub(crate) certificates: Arc<Certificates>,
}

pub(crate) struct CaModule(Arc<CaParts>);

impl CaModule {
    pub(crate) fn new(parts: CaParts) -> Self {
        CaModule(Arc::new(parts))
    }
}

#[async_trait]
impl Module for CaModule {
    fn name(&self) -> &'static str {
        "ca"
    }

    fn agent_routes(&self) -> Router {
        let router = Router::new().route(CA_PATH, post(report));
        finish(router.with_state(Arc::clone(&self.0)))
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = self.0.follow_changes() => {}
            () = process.draining() => {}
        }
    }
}

impl ApiModule for CaModule {
    fn api_routes(&self) -> ApiRoutes {
        const TAG: Tag = Tag::SYSTEM;
        ApiRoutes::new()
            .route(
                RouteSpec::get(TAG, "/v1/ca", "getCa", "Get the hub's CA and its rotation")
                    .needs(&[ROTATE_CA])
                    .gives::<CaStatus>(200),
                show,
            )
            .route(
                RouteSpec::post(
                    TAG,
                    "/v1/ca/rotation",
                    "rotateCa",
                    "Begin a rotation: create a new CA and announce it to the agents",
                )
                .needs(&[ROTATE_CA])
                .gives::<CaStatus>(201),
                rotate,
            )
            .route(
                RouteSpec::post(
                    TAG,
                    "/v1/ca/retirement",
                    "retireCa",
                    "End a rotation: trust the old CA no longer, and delete its key",
                )
                .needs(&[ROTATE_CA])
                .takes::<RetireCa>()
                .example(json!({ "force": false }))
                .gives::<CaStatus>(200),
                retire,
            )
            .route(
                RouteSpec::post(
                    TAG,
                    "/v1/restore/confirmation",
                    "confirmRestore",
                    "Admit identities and tokens from before the last restore again",
                )
                .needs(&[CONFIRM_RESTORE])
                .gives_nothing(204),
                confirm_restore,
            )
            .with_state(Arc::clone(&self.0))
    }
}

async fn confirm_restore(
    State(ca): State<Arc<CaParts>>,
    Authenticated(caller): Authenticated,
) -> Answer<StatusCode> {
    allow(&caller, CONFIRM_RESTORE)?;
    epoch::confirm(&ca.store, by(&caller)).await?;
    info!(caller = caller.name, "restore confirmed");
    Ok(StatusCode::NO_CONTENT)
}

async fn show(
    State(ca): State<Arc<CaParts>>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<CaStatus>> {
    allow(&caller, ROTATE_CA)?;
    Ok(Json(ca.status()?))
}

async fn rotate(
    State(ca): State<Arc<CaParts>>,
    Authenticated(caller): Authenticated,
) -> Answer<(StatusCode, Json<CaStatus>)> {
    allow(&caller, ROTATE_CA)?;
    ca.authorities.rotate(&ca.store, by(&caller)).await?;
    ca.certificates.reissue(ca.clock.now())?;
    Ok((StatusCode::CREATED, Json(ca.status()?)))
}

async fn retire(
    State(ca): State<Arc<CaParts>>,
    Authenticated(caller): Authenticated,
    JsonBody(asked): JsonBody<RetireCa>,
) -> Answer<Json<CaStatus>> {
    allow(&caller, ROTATE_CA)?;
    ca.retire(&caller, asked).await?;
    Ok(Json(ca.status()?))
}

impl CaParts {
    fn status(&self) -> Result<CaStatus, CaError> {
        progress::status(&self.store, &self.authorities.set())
    }

    /// Ends the trust in the old authority. The store's change is the decision; all else follows from it.
    async fn retire(&self, caller: &Caller, asked: RetireCa) -> Result<(), CaError> {
        let at = whole_millis(self.clock.now());
        let decide = move |draft: &mut Draft| {
            let hub = draft.authorities().map(|hub| hub.value.clone());
            let next = hub.as_ref().and_then(|hub| hub.next.clone());
            let (Some(hub), Some(next)) = (hub, next) else {
                return Err(CaError::NoRotation);
            };
            let behind = progress::behind(draft, next.pin);
            if !behind.is_empty() && !asked.force {
                return Err(CaError::behind(&behind));
            }
            let left_behind = behind.len();
            let old = hub.current.as_ref().map(|old| RetiredCa {
                pin: old.pin,
                at,
                left_behind,
            });
            draft.amend_authorities(|hub| {
                hub.current = hub.next.take();
                hub.retired.extend(old);
                let surplus = hub.retired.len().saturating_sub(Authorities::MAX_RETIRED);
                hub.retired.drain(..surplus);
            });
            Ok((next.pin, left_behind))
        };
        let (pin, left_behind) = self.store.change(by(caller), decide).await?.value;
        if left_behind > 0 {
            warn!(%pin, left_behind, caller = caller.name, "old CA retired by force");
        } else {
            info!(%pin, caller = caller.name, "old CA retired");
        }
        self.authorities.follow(&self.store).await?;
        self.certificates.reissue(self.clock.now())?;
        Ok(())
    }

    /// Follows the authorities that other hubs change, until the store closes.
    async fn follow_changes(&self) {
        let mut revisions = self.store.watch();
        let mut applied: Option<Revision> = None;
        loop {
            let view = self.store.view();
            let latest = view.authorities().map(|hub| hub.revision);
            if latest != applied {
                match self.apply().await {
                    Ok(true) => applied = latest,
                    Ok(false) => {}
                    Err(error) => {
                        let failure = fairlead_api::Failure::from(error);
                        warn!(code = %failure.code, cause = failure.cause, "authorities not updated; retrying");
                    }
                }
            }
            let pause = async {
                match latest == applied {
                    true => std::future::pending().await,
                    false => sleep(RETRY_INTERVAL).await,
                }
            };
            tokio::select! {
                changed = revisions.changed() => if changed.is_err() { return },
                () = pause => {}
            }
        }
    }

    async fn apply(&self) -> Result<bool, CaError> {
        let before = self.authorities.set().pins();
        let is_complete = self.authorities.follow(&self.store).await?;
        if self.authorities.set().pins() != before {
            self.certificates.reissue(self.clock.now())?;
        }
        Ok(is_complete)
    }
}

/// `POST /agent/v1/ca`: the trust that an agent has stored.
async fn report(
    State(ca): State<Arc<CaParts>>,
    Peer(peer): Peer,
    JsonBody(stored): JsonBody<StoredCa, MAX_ENROLL_BODY_BYTES>,
) -> Answer<Json<StoredCaResponse>> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    let cluster = admit(&ca.store, &identity)?;
    let Some(trusted) = stored.pins.last().copied() else {
        return Err(Code::BadRequest.into());
    };
    let reported = AgentCa {
        trusted,
        issuer: stored.issuer,
    };
    if cluster.value.binding.ca.as_ref() != Some(&reported) {
        let (id, key) = (
            identity.cluster.clone(),
            cluster.value.binding.agent_key.clone(),
        );
        let decide = move |draft: &mut Draft| {
            let current = draft.cluster(&id).ok_or(StoreError::Missing)?;
            // Another key may have enrolled meanwhile, whose trust is not known.
            if current.value.binding.agent_key == key {
                draft.amend_cluster(&id, |it| it.binding.ca = Some(reported.clone()))?;
            }
            Ok::<_, StoreError>(())
        };
        let actor = Actor::Agent(identity.cluster.clone());
        ca.store
            .change(actor, decide)
            .await
            .map_err(CaError::from)?;
        info!(cluster = %identity.cluster, %trusted, issuer = %stored.issuer, "agent stored the CA");
    }
    Ok(Json(StoredCaResponse {}))
}
