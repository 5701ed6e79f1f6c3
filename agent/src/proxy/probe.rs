//! The hub's probe: a real `/readyz` on the API server with the agent's own credential. On it the hub also says how
//! wide its agents should spread when they dial again, and which configuration there is.

use std::time::Duration;

use fairlead_api::{Code, Failure, config::DESIRED_REVISION_HEADER, headers::SPREAD};
use fairlead_dialer::Body;
use http::{HeaderMap, Method, Response, StatusCode};
use tokio::time::{Instant, timeout};

use super::headers::towards_hub;
use crate::{body::text, context::AgentContext};

/// The hub asks every 5 s; an answer that comes later than that is no answer.
const PROBE_DEADLINE: Duration = Duration::from_millis(4500);
/// What of an unready API server's words is passed on, in bytes.
const MAX_CAUSE_BYTES: usize = 512;

/// # Errors
/// `FL-1502` with the cause, if the API server is not ready or cannot be asked; `FL-1504` if it does not answer.
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
    if let Some(desired) = headers
        .get(DESIRED_REVISION_HEADER)
        .and_then(|value| value.to_str().ok())
    {
        context.configuration.set_desired(desired);
    }
    let started = Instant::now();
    let checked = timeout(
        PROBE_DEADLINE,
        context.upstream.request(Method::GET, "/readyz", None),
    )
    .await;
    let late = |_| Failure::because(Code::ApiTimeout, "/readyz did not answer");
    let (status, body) = checked.map_err(late)?.map_err(Failure::from)?;
    match status {
        // Forbidden: it is up, knows the agent, and does not let it ask for more.
        StatusCode::FORBIDDEN => {}
        status if status.is_success() => {}
        StatusCode::UNAUTHORIZED => {
            return Err(Failure::because(
                Code::ApiUnreachable,
                "it refuses the agent's own credential",
            ));
        }
        status => {
            let cause = String::from_utf8_lossy(
                body.get(..MAX_CAUSE_BYTES.min(body.len()))
                    .unwrap_or_default(),
            )
            .into_owned();
            let status = status.as_u16();
            return Err(Failure::because(
                Code::ApiUnreachable,
                format_args!("/readyz answered {status}: {cause}"),
            ));
        }
    }
    let mut response = Response::new(text("ok"));
    towards_hub(response.headers_mut(), None, Some(started.elapsed()));
    Ok(response)
}
