//! Calls of modules' routes, with a deadline.

use std::{future::Future, time::Duration};

use axum::Router;
use fairlead_api::{Code, Failure};
use fairlead_exchange::{Body, BodyError};
use fairlead_seam::AnswerDeadline;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;

/// Time for the head of a module's answer, the request's body included, unless its handler extends it.
pub(crate) const MODULE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the request to the router of the modules.
///
/// # Errors
/// `FL-1308` if it takes too long.
pub(crate) fn call(
    router: Router,
    mut request: Request<Body>,
) -> impl Future<Output = Result<Response<Body>, Failure>> + Send {
    let deadline = AnswerDeadline::default();
    request.extensions_mut().insert(deadline.clone());
    let answer = router.oneshot(request.map(axum::body::Body::new));
    async move {
        let started = Instant::now();
        let mut answer = std::pin::pin!(answer);
        let mut limit = MODULE_TIMEOUT;
        loop {
            match timeout_at(started + limit, &mut answer).await {
                Ok(Ok(response)) => return Ok(response.map(unsync)),
                Ok(Err(never)) => match never {},
                Err(_) => {
                    let extended = MODULE_TIMEOUT + deadline.extension();
                    if extended <= limit {
                        break;
                    }
                    limit = extended;
                }
            }
        }
        let detail = format_args!("nothing within {} s", limit.as_secs());
        Err(Failure::because(Code::HubTimeout, detail))
    }
}

fn unsync(body: axum::body::Body) -> Body {
    body.map_err(BodyError::from).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use axum::{Extension, routing::get};
    use http::StatusCode;
    use http_body_util::Empty;
    use tokio::time::sleep;

    use super::*;

    const ANSWER_TIME: Duration = Duration::from_secs(50);

    async fn answer(path: &str) -> Result<StatusCode, Code> {
        let extended = async |Extension(deadline): Extension<AnswerDeadline>| {
            sleep(Duration::from_secs(20)).await;
            deadline.extend_by(Duration::from_secs(30));
            deadline.extend_by(Duration::from_secs(1));
            sleep(ANSWER_TIME - Duration::from_secs(20)).await;
        };
        let router = Router::new()
            .route("/plain", get(async || sleep(ANSWER_TIME).await))
            .route("/extended", get(extended))
            .route(
                "/endless",
                get(async |Extension(deadline): Extension<AnswerDeadline>| {
                    deadline.extend_by(ANSWER_TIME);
                    std::future::pending::<()>().await;
                }),
            );
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::get(path).body(body).unwrap();
        let answer = call(router, request).await;
        answer.map(|it| it.status()).map_err(|failure| failure.code)
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_extends_the_deadline_of_its_answer() {
        let started = Instant::now();
        assert_eq!(answer("/plain").await, Err(Code::HubTimeout));
        assert_eq!(started.elapsed(), MODULE_TIMEOUT);
        assert_eq!(answer("/extended").await, Ok(StatusCode::OK));
        let started = Instant::now();
        assert_eq!(answer("/endless").await, Err(Code::HubTimeout));
        assert_eq!(started.elapsed(), MODULE_TIMEOUT + ANSWER_TIME);
    }
}
