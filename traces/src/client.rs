//! HTTP client of exports, with the TLS of this program.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::{Code, Failure, error_chain};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::{Client, redirect};

/// Deadline of one export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of an answer, in bytes. A collector answers with a short message.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Client of a collector. It keeps the cause of the last failure, which the exporter does not report.
#[derive(Debug, Clone)]
pub(crate) struct CollectorClient {
    http: Client,
    cause: Arc<Mutex<Option<String>>>,
}

impl CollectorClient {
    /// # Errors
    /// `FL-4101` if `ca` has no certificate, `FL-3105` without any trusted authority.
    pub(crate) fn new(ca: Option<&str>) -> Result<Self, Failure> {
        let tls = fairlead_certs::outer_client(ca, None)?;
        let http = Client::builder()
            .tls_backend_preconfigured((*tls).clone())
            .redirect(redirect::Policy::none())
            .timeout(EXPORT_TIMEOUT)
            .build();
        Ok(CollectorClient {
            http: http.map_err(|error| Failure::because(Code::Internal, error))?,
            cause: Arc::default(),
        })
    }

    /// Cause of the last failure, without an address.
    pub(crate) fn take_cause(&self) -> Option<String> {
        let cause = self.cause.lock();
        cause.unwrap_or_else(PoisonError::into_inner).take()
    }

    fn failed(&self, cause: String) -> HttpError {
        let mut last = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(cause.clone());
        cause.into()
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let url = head.uri.to_string();
        let sending = self.http.request(head.method, url).headers(head.headers);
        let answer = sending.body(body).send().await;
        let answer = answer.map_err(|error| self.failed(error_chain(&error.without_url())))?;
        if !answer.status().is_success() {
            return Err(self.failed(format!("it answered {}", answer.status())));
        }
        if answer
            .content_length()
            .is_none_or(|it| it > MAX_ANSWER_BYTES)
        {
            // Its message is not needed.
            return Ok(Response::new(Bytes::new()));
        }
        let body = answer.bytes().await;
        let body = body.map_err(|error| self.failed(error_chain(&error.without_url())))?;
        Ok(Response::new(body))
    }
}
