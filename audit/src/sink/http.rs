//! Delivery over HTTP: lines of JSON to a webhook, or log records of OTLP in JSON to a collector.

use std::{path::PathBuf, time::Duration};

use reqwest::{Client, Url, redirect};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{config::HttpConfig, event::AuditEvent};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// `INFO` of OpenTelemetry.
const SEVERITY_NUMBER: u8 = 9;

#[derive(Clone, Copy)]
pub(super) enum HttpFormat {
    Lines,
    Otlp,
}

pub(super) struct HttpSink {
    http: Client,
    url: Url,
    token_file: Option<PathBuf>,
    hub: String,
    format: HttpFormat,
}

impl HttpSink {
    pub(super) fn new(
        config: &HttpConfig,
        ca: Option<&str>,
        hub: &str,
        format: HttpFormat,
    ) -> Result<Self, String> {
        let tls = fairlead_certs::outer_client(ca, None).map_err(|error| error.to_string())?;
        let http = Client::builder()
            .tls_backend_preconfigured((*tls).clone())
            .redirect(redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT)
            .build();
        let sink = HttpSink {
            http: http.map_err(|error| error.to_string())?,
            url: config.url.0.0.clone(),
            token_file: config.token_file.clone(),
            hub: hub.to_owned(),
            format,
        };
        sink.token()?;
        Ok(sink)
    }

    fn token(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.token_file else {
            return Ok(None);
        };
        let token = std::fs::read_to_string(file);
        let token = token.map_err(|error| format!("token-file {}: {error}", file.display()))?;
        Ok(Some(token.trim().to_owned()))
    }

    pub(super) async fn send(&self, lines: &[String]) -> Result<(), String> {
        let (kind, body) = match self.format {
            HttpFormat::Lines => ("application/x-ndjson", lines.join("\n") + "\n"),
            HttpFormat::Otlp => ("application/json", otlp(&self.hub, lines).to_string()),
        };
        let request = self.http.post(self.url.clone()).body(body);
        let mut request = request
            .header("content-type", kind)
            .header("fairlead-hub", &self.hub);
        if let Some(token) = self.token()? {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.map_err(|error| {
            let error = error.without_url();
            fairlead_api::error_chain(&error)
        })?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(format!("it answered {}", answer.status())),
        }
    }
}

/// `ExportLogsServiceRequest` in the JSON form of OTLP.
fn otlp(hub: &str, lines: &[String]) -> Value {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let records: Vec<Value> = lines
        .iter()
        .map(|line| {
            let event: AuditEvent = serde_json::from_str(line).unwrap_or_default();
            let at = OffsetDateTime::parse(&event.at, &Rfc3339).ok();
            let caller = event.caller.as_ref().map(|caller| caller.name.clone());
            let attributes: Vec<Value> = [
                ("fairlead.request.id", &event.id),
                ("fairlead.cluster", &event.cluster),
                ("fairlead.tenant", &event.tenant),
                ("fairlead.verb", &event.verb),
                ("user.name", &caller),
            ]
            .into_iter()
            .filter_map(|(key, value)| Some(text(key, value.as_deref()?)))
            .collect();
            json!({
                "timeUnixNano": at.map_or(0, OffsetDateTime::unix_timestamp_nanos).to_string(),
                "severityNumber": SEVERITY_NUMBER,
                "severityText": "INFO",
                "body": { "stringValue": line },
                "attributes": attributes,
            })
        })
        .collect();
    json!({ "resourceLogs": [{
        "resource": { "attributes": [text("service.name", "fairlead"), text("service.instance.id", hub)] },
        "scopeLogs": [{ "scope": { "name": "fairlead.audit" }, "logRecords": records }],
    }] })
}
