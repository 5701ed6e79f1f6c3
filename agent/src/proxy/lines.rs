//! Requests whose head is in lines. Probes, traced requests and those that no rule admits take the way of a map.

use fairlead_api::{
    Failure,
    headers::{PROBE_PATH, UPSTREAM_MICROS},
    streaming::is_streaming,
};
use fairlead_exchange::{
    Answer, Body, LinesAnswer, ReceivedRequest, RelayedResponse, Reply, RequestLines,
};
use http_body::Body as _;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    HEAD_DEADLINE, RequestProxy, check_credential, error_response, headers,
    judged_lines::JudgedLines, no_upgrade, outcome_of, running::RunningRequest,
};
use crate::metrics::RequestOutcome;

/// Answer in lines with the guard of its request. In a map, the body has the guard.
type GuardedReply = (Reply, Option<RunningRequest>);

impl RequestProxy {
    /// Answers one request; failures become answers, too. The guard lives until the body of the answer has ended.
    pub(crate) async fn serve(&self, received: ReceivedRequest) -> GuardedReply {
        let (lines, body) = match received {
            ReceivedRequest::Whole(request) => {
                return (Reply::Map(self.handle(request).await), None);
            }
            ReceivedRequest::Lines(lines, body) => (lines, body),
        };
        match self.judge(&lines) {
            Some(judged) => self.handle_lines(&lines, &judged, body).await,
            None => (
                Reply::Map(self.handle(lines.into_request(body)).await),
                None,
            ),
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
    ) -> GuardedReply {
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
                (response, Some(running))
            }
            Err(failure) => {
                info!(request.id = %id(), %method, code = %failure.code, cause = failure.cause, "request rejected");
                self.context.metrics.request(outcome_of(failure.code));
                (Reply::Map(error_response(&failure)), None)
            }
        }
    }

    async fn forward_lines(
        &self,
        lines: &RequestLines,
        judged: &JudgedLines,
        body: Body,
    ) -> Result<(Reply, RequestOutcome), Failure> {
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
        let answer = self.context.upstream.relay_lines(&relayed, body, head);
        match answer.await? {
            LinesAnswer::Lines(head, body) => {
                check_credential(head.status(), uri)?;
                let took = started.elapsed();
                self.context.metrics.api_answered(took);
                let kept = headers::kept_for_hub(head.lines());
                let relayed = RelayedResponse::new(head, kept)
                    .with_number(UPSTREAM_MICROS, headers::micros(took));
                Ok((Reply::Lines(relayed, body), RequestOutcome::Answered))
            }
            LinesAnswer::Map(Answer::Response(response)) => {
                check_credential(response.status(), uri)?;
                let (response, outcome) = self.answered(response, started);
                Ok((Reply::Map(response), outcome))
            }
            LinesAnswer::Map(Answer::Upgraded(..)) => Err(no_upgrade()),
        }
    }
}
