//! Reports the stored authorities to the hub while it rotates its CA, so that it knows which agents an end of the old
//! authority would cut off.

use std::{sync::Arc, time::Duration};

use fairlead_api::{
    CaPin, Code, Failure,
    enroll::{CA_PATH, StoredCa, StoredCaResponse},
};
use tokio::time::sleep;
use tracing::{info, warn};

use super::identity_manager::IdentityManager;
use crate::{
    backoff::{Backoff, chance},
    context::AgentContext,
    hub_request,
    identity::Identity,
};

const REPORT_BACKOFF_MIN: Duration = Duration::from_secs(1);
const REPORT_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Reports each stored identity with the authorities that the configuration names, until the process drains.
pub(crate) async fn run(context: Arc<AgentContext>, identities: Arc<IdentityManager>) {
    let process = context.process.clone();
    tokio::select! {
        () = report_all(&context, &identities) => {}
        () = process.draining() => {}
    }
}

async fn report_all(context: &AgentContext, identities: &IdentityManager) {
    let mut stored = identities.stored();
    let mut configuration = context.configuration.document();
    let mut backoff = Backoff::new(REPORT_BACKOFF_MIN, REPORT_BACKOFF_MAX);
    let mut reported: Option<Arc<Identity>> = None;
    loop {
        let ca = configuration.borrow_and_update().ca.clone();
        let due = stored.borrow_and_update().clone();
        let due = due.filter(|identity| is_due(identity, reported.as_deref(), &ca));
        let Some(identity) = due else {
            let changed = tokio::select! {
                changed = stored.changed() => changed,
                changed = configuration.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            continue;
        };
        match report(context, &identity).await {
            Ok(()) => {
                info!(pins = %identity.pins, "stored CA reported");
                backoff.reset();
                reported = Some(identity);
            }
            Err(failure) => {
                warn!(code = %failure.code, cause = failure.cause, "stored CA not reported; retrying");
                sleep(backoff.next(chance()).max(REPORT_BACKOFF_MIN)).await;
            }
        }
    }
}

fn is_due(identity: &Identity, reported: Option<&Identity>, ca: &[CaPin]) -> bool {
    let is_reported = reported.is_some_and(|reported| reported.same_certificate(identity));
    !ca.is_empty() && identity.has_authorities(ca) && !is_reported
}

async fn report(context: &AgentContext, identity: &Identity) -> Result<(), Failure> {
    let Some(issuer) = identity.issuer else {
        return Ok(());
    };
    let stored = StoredCa {
        pins: identity.pins.iter().collect(),
        issuer,
    };
    let json = serde_json::to_string(&stored).map_err(|_| Failure::from(Code::Internal))?;
    let exchanges = context.sessions.any().await;
    let StoredCaResponse {} = hub_request::post(&exchanges, CA_PATH, json.into()).await?;
    Ok(())
}
