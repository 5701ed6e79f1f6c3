//! Requests whose head is in lines. Probes, traced requests and those that no rule admits take the way of a map.

use fairlead_api::{Failure, headers::PROBE_PATH, streaming::is_streaming};
use fairlead_exchange::{Answer, Body, ReceivedRequest, RequestLines};
use http::Response;
use http_body::Body as _;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    HEAD_DEADLINE, RequestProxy, error_response, headers,
    judged_lines::JudgedLines,
    no_upgrade, outcome_of,
    running::{RunningRequest, count_until_end},
};
use crate::metrics::RequestOutcome;

impl RequestProxy {
    /// Answers one request; failures become answers, too.
    pub(crate) async fn serve(&self, received: ReceivedRequest) -> Response<Body> {
        let (lines, body) = match received {
            ReceivedRequest::Whole(request) => return self.handle(request).await,
            ReceivedRequest::Lines(lines, body) => (lines, body),
        };
        match self.judge(&lines) {
            Some(judged) => self.handle_lines(&lines, &judged, body).await,
            None => self.handle(lines.into_request(body)).await,
        }
    }

    fn judge(&self, lines: &RequestLines) -> Option<JudgedLines> {
        let is_forwarded = !self.context.traces.is_on() && lines.uri().path() != PROBE_PATH;
        is_forwarded.then(|| JudgedLines::of(lines.lines(), &self.rules))?
    }

    async fn handle_lines(
        &self,
        lines: &RequestLines,
        judged: &JudgedLines,
        body: Body,
    ) -> Response<Body> {
        let running = RunningRequest::new(&self.context.requests, &self.requests, None);
        let answered = self.forward_lines(lines, judged, body).await;
        let (id, method) = (
            || headers::request_id_of_lines(lines.lines()),
            lines.method(),
        );
        match answered {
            Ok((response, outcome)) => {
                debug!(request.id = %id(), %method, status = response.status().as_u16(), "request answered");
                self.context.metrics.request(outcome);
                response.map(|body| count_until_end(body, running))
            }
            Err(failure) => {
                info!(request.id = %id(), %method, code = %failure.code, cause = failure.cause, "request rejected");
                self.context.metrics.request(outcome_of(failure.code));
                error_response(&failure)
            }
        }
    }

    async fn forward_lines(
        &self,
        lines: &RequestLines,
        judged: &JudgedLines,
        body: Body,
    ) -> Result<(Response<Body>, RequestOutcome), Failure> {
        let uri = lines.uri();
        self.check_target(judged.is_admin(), lines.method(), uri)?;
        // A request without a body needs no memory, so reads continue over budget.
        if body.size_hint().exact() != Some(0) {
            self.check_memory()?;
        }
        // A followed log is silent until its first line.
        let head = (!is_streaming(uri.path(), uri.query())).then_some(HEAD_DEADLINE);
        let started = Instant::now();
        let renamed = judged.renamed();
        let relayed = judged.relayed(lines, &renamed);
        match (self.context.upstream.relay_lines(&relayed, body, head)).await? {
            Answer::Response(response) => {
                self.answered(response, headers::is_proxied(uri), started)
            }
            Answer::Upgraded(..) => Err(no_upgrade()),
        }
    }
}
