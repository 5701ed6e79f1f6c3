//! Requests of somebody else whose head is in lines.

use std::{sync::Arc, time::Duration};

use fairlead_exchange::{
    Answer, Body, LineSet, LinesAnswer, PreparedRequest, RequestLines, WrittenLines,
};
use http::{HeaderValue, StatusCode, Uri, header};
use tokio::time::timeout;

use super::{Upstream, UpstreamError, address, client, failed, redirect};
use crate::credentials::{ApiAccess, endpoint::Endpoint};

/// Name in lower case.
const LOCATION: &str = "location";

/// Head in lines on its way to the API server.
pub struct RelayedLines<'a> {
    /// The received head.
    pub request: &'a RequestLines,
    /// Fields of the sender, besides the credential.
    pub added: &'a [(&'static str, &'static str)],
    /// Received fields that are sent under another name.
    pub renamed: &'a [(&'static str, LineSet)],
    /// Received fields that are sent. Neither host nor credential is among them.
    pub kept: LineSet,
}

impl RelayedLines<'_> {
    /// Encodes the head with host and credential.
    fn prepare(
        &self,
        body: Body,
        target: &Uri,
        endpoint: &Endpoint,
        authorization: Option<&HeaderValue>,
    ) -> Result<PreparedRequest, UpstreamError> {
        let credential_bytes = authorization.map_or(0, HeaderValue::len);
        let bytes = endpoint.host.len() + credential_bytes;
        let mut written = WrittenLines::begin(self.request, target, self.kept, bytes);
        written.add(header::HOST.as_str(), endpoint.host.as_bytes());
        if let Some(authorization) = authorization {
            written.add(header::AUTHORIZATION.as_str(), authorization.as_bytes());
        }
        for (name, value) in self.added {
            written.add(name, value.as_bytes());
        }
        for (name, lines) in self.renamed {
            written.rename(*lines, name);
        }
        PreparedRequest::of_lines(written, body)
            .map_err(|error| UpstreamError::Broken(error.into()))
    }
}

impl Upstream {
    /// Sends a request in lines, as [`Upstream::relay`].
    ///
    /// # Errors
    ///
    /// [`UpstreamError`]; an answer of any status is no error.
    pub async fn relay_lines(
        &self,
        lines: &RelayedLines<'_>,
        body: Body,
        head: Option<Duration>,
    ) -> Result<LinesAnswer, UpstreamError> {
        let answering = async {
            let access = self.credentials.access().await?;
            self.exchange_lines(lines, body, &access).await
        };
        match head {
            None => answering.await,
            Some(limit) => timeout(limit, answering)
                .await
                .map_err(|_| UpstreamError::Timeout(limit))?,
        }
    }

    async fn exchange_lines(
        &self,
        lines: &RelayedLines<'_>,
        body: Body,
        access: &Arc<ApiAccess>,
    ) -> Result<LinesAnswer, UpstreamError> {
        let endpoint = &access.endpoint;
        let whole = address(lines.request.uri(), endpoint)?;
        let target = whole.as_ref().unwrap_or(lines.request.uri());
        let request = lines.prepare(body, target, endpoint, access.authorization.as_ref())?;
        let connect = || self.connector.connect(endpoint);
        let sent = client(&self.client, endpoint)
            .send_for_lines(request, connect)
            .await;
        let answer = sent.map_err(|error| failed(error, endpoint))?;
        let answer = localized(answer, endpoint, target)?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.credentials.report_unauthorized(access).await;
        }
        Ok(answer)
    }
}

/// The answer with a target at this API server only. Redirects, and answers with a target, are in a map.
fn localized(
    answer: LinesAnswer,
    endpoint: &Endpoint,
    requested: &Uri,
) -> Result<LinesAnswer, UpstreamError> {
    let mut response = match answer {
        LinesAnswer::Lines(head, body)
            if head.status().is_redirection() || head.lines().find(LOCATION).is_some() =>
        {
            head.into_map(body)
        }
        LinesAnswer::Map(Answer::Response(response)) => response,
        other => return Ok(other),
    };
    redirect::localize(&mut response, endpoint, requested)?;
    Ok(LinesAnswer::Map(Answer::Response(response)))
}
