//! Adoption: an agent without a join string announces its key, shows the code of the hub, and waits for a person.
//!
//! Only the outer TLS proves the hub here. So the agent also logs fingerprint and pin for a comparison, sends nothing
//! secret, and takes a join string of the logged authority only.

use std::time::Duration;

use fairlead_api::{
    CaPin, ClusterUid, Code, Failure, JoinString,
    adoption::{ADOPT_PATH, AdoptAnswer, AdoptRequest, AdoptionCode},
    hex,
    moment::timestamp,
};
use fairlead_certs::{AgentKey, csr_fingerprint, sent_authority};
use fairlead_dialer::{CloseReason, Dialed};
use fairlead_exchange::Exchanges;
use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};
use tracing::info;

use crate::{
    context::{AgentContext, events::AgentEvent},
    hub_request,
};

/// Bounds of the interval that the hub requests.
const POLL_INTERVAL_MIN: Duration = Duration::from_secs(1);
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Interval of the log line with the code.
const CODE_LOG_INTERVAL: Duration = Duration::from_secs(300);

/// Announces the key over `dialed` until a person has decided, and closes the session.
///
/// # Errors
///
/// `FL-2114` and `FL-2115` for good; failures of the session if it broke.
pub(crate) async fn obtain_join(
    context: &AgentContext,
    dialed: Dialed,
    key: &AgentKey,
    facts: AdoptedFacts<'_>,
) -> Result<JoinString, Failure> {
    let session = dialed.session.clone();
    let joined = announce(context, &dialed, key, facts).await;
    session.close(CloseReason::Done);
    joined
}

/// Facts for the person who approves, and the place of the Event.
pub(crate) struct AdoptedFacts<'a> {
    pub(crate) version: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) cluster_uid: Option<ClusterUid>,
}

async fn announce(
    context: &AgentContext,
    dialed: &Dialed,
    key: &AgentKey,
    facts: AdoptedFacts<'_>,
) -> Result<JoinString, Failure> {
    let pin = sent_authority(&dialed.certificates)
        .ok_or_else(|| Failure::because(Code::DialProtocol, "the hub sent no authority"))?;
    let csr = key.csr()?;
    let fingerprint = hex::encode(&csr_fingerprint(&csr)?);
    let request = AdoptRequest {
        csr,
        agent_version: facts.version.to_owned(),
        kubernetes_version: kubernetes_version(context).await,
        cluster_uid: facts.cluster_uid,
    };
    let json = serde_json::to_string(&request).map_err(|_| Failure::from(Code::Internal))?;
    let json = SecretString::from(json);
    let exchanges = Exchanges::new(dialed.session.clone());
    let mut shown: Option<(AdoptionCode, Instant)> = None;
    loop {
        let answer = hub_request::post(&exchanges, ADOPT_PATH, json.clone()).await;
        match answer.map_err(Failure::from)? {
            AdoptAnswer::Approved { join } => return checked(&join, pin),
            AdoptAnswer::Refused => return Err(Code::AdoptionRefused.into()),
            AdoptAnswer::Pending {
                code,
                expires,
                poll_seconds,
            } => {
                let is_new = shown.is_none_or(|(known, _)| known != code);
                if is_new || shown.is_some_and(|(_, at)| at.elapsed() >= CODE_LOG_INTERVAL) {
                    shown = Some((code, Instant::now()));
                    info!(%code, key = fingerprint, hub.pin = %pin, expires = timestamp(expires), "agent waits for its adoption");
                }
                if is_new {
                    let message = message(code, &fingerprint, pin, expires);
                    let event = AgentEvent::normal("WaitsForAdoption", message);
                    context.write_event(facts.namespace, &event).await;
                }
                let wait = Duration::from_secs(poll_seconds.into());
                sleep(wait.clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX)).await;
            }
        }
    }
}

/// The join string of an approval, if it is of the authority in the log.
fn checked(join: &SecretString, pin: CaPin) -> Result<JoinString, Failure> {
    let join: JoinString = join
        .expose_secret()
        .parse()
        .map_err(|error| Failure::because(Code::BadJoinString, error))?;
    if join.ca_pins.contains(pin) {
        return Ok(join);
    }
    let cause = format!("the hub's authority is {pin}, the approval names another one");
    Err(Failure::because(Code::BadJoinString, cause))
}

fn message(code: AdoptionCode, key: &str, pin: CaPin, expires: OffsetDateTime) -> String {
    let until = timestamp(expires);
    format!(
        "Approve this agent with `fairlead adoption approve {code}` until {until}. Compare its key: {key}. The hub's pin: {pin}"
    )
}

async fn kubernetes_version(context: &AgentContext) -> Option<String> {
    let answer = context.upstream.request(Method::GET, "/version", None);
    let (status, body) = answer.await.ok()?;
    let version: Value = serde_json::from_slice(&body).ok()?;
    let version = version.get("gitVersion")?.as_str()?.to_owned();
    status.is_success().then_some(version)
}
