//! Probe of the hub: a real `/readyz` on the API server with the agent's own credential. The probe's headers
//! carry the reconnect spread, the list of hubs, the revision of the desired configuration and the ETag of the desired deliveries. Every answer, also one of a failed
//! probe, carries the revision of the applied configuration.

use std::time::Duration;

use fairlead_api::{
    Code, Failure,
    config::{APPLIED_REVISION_HEADER, DESIRED_REVISION_HEADER},
    delivery::DESIRED_DELIVERY_HEADER,
    headers::{HUBS, SPREAD},
};
use fairlead_apiserver::Upstream;
use fairlead_exchange::{Body, body};
use http::{HeaderMap, Method, Response, StatusCode};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::headers::towards_hub;
use crate::context::AgentContext;

/// Deadline of a check; the hub ignores answers after 5 s.
const PROBE_DEADLINE: Duration = Duration::from_millis(4500);
/// Maximum length of the quoted answer of an unready API server, in bytes.
const MAX_CAUSE_BYTES: usize = 512;

/// Adds the revision of the applied configuration to an answer.
pub(crate) fn report_configuration(context: &AgentContext, headers: &mut HeaderMap) {
    if let Some(revision) = context.configuration.applied() {
        headers.insert(APPLIED_REVISION_HEADER, revision);
    }
}

/// Answers a probe.
///
/// # Errors
///
/// `FL-1502` with the cause, if the API server is not ready or unreachable; `FL-1504` if it does not answer in
/// time.
pub(crate) async fn answer(
    context: &AgentContext,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    if let Some(millis) = headers
        .get(SPREAD)
        .and_then(|value| value.to_str().ok()?.parse().ok())
    {
        context.reconnect_spread.set(Duration::from_millis(millis));
    }
    if let Some(list) = headers.get(HUBS) {
        match list.to_str().unwrap_or_default().parse() {
            Ok(list) => context.hubs.report(&list, Instant::now()),
            Err(error) => debug!(%error, "list of hubs ignored"),
        }
    }
    if let Some(desired) = headers
        .get(DESIRED_REVISION_HEADER)
        .and_then(|value| value.to_str().ok())
    {
        context.configuration.set_desired(desired);
    }
    if let Some(desired) = headers
        .get(DESIRED_DELIVERY_HEADER)
        .and_then(|value| value.to_str().ok())
    {
        context.deliveries.set(desired);
    }
    let started = Instant::now();
    check_ready(&context.upstream).await?;
    let mut response = Response::new(body::full("ok"));
    towards_hub(response.headers_mut(), None, Some(started.elapsed()));
    Ok(response)
}

/// Checks that the API server is ready.
///
/// # Errors
///
/// As for [`answer`].
pub(crate) async fn check_ready(upstream: &Upstream) -> Result<(), Failure> {
    let checked = timeout(
        PROBE_DEADLINE,
        upstream.request(Method::GET, "/readyz", None),
    )
    .await;
    let late = |_| Failure::because(Code::ApiTimeout, "/readyz did not answer");
    let (status, body) = checked.map_err(late)?.map_err(Failure::from)?;
    match status {
        // Forbidden: the API server runs, knows the agent, and restricts `/readyz`.
        StatusCode::FORBIDDEN => Ok(()),
        status if status.is_success() => Ok(()),
        StatusCode::UNAUTHORIZED => Err(Failure::because(
            Code::ApiUnreachable,
            "it rejects the agent's own credential",
        )),
        status => {
            let cause = String::from_utf8_lossy(
                body.get(..MAX_CAUSE_BYTES.min(body.len()))
                    .unwrap_or_default(),
            )
            .into_owned();
            let status = status.as_u16();
            Err(Failure::because(
                Code::ApiUnreachable,
                format_args!("/readyz answered {status}: {cause}"),
            ))
        }
    }
}
