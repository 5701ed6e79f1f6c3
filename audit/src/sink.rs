//! Receivers of the log: syslog, webhooks, collectors of OpenTelemetry.

mod http;
mod syslog;
#[cfg(test)]
mod tests;

use std::{fs, path::Path};

use crate::config::{AuditConfig, HttpConfig};
use http::{HttpFormat, HttpSink};
use syslog::SyslogSink;

/// Events per write to a syslog server.
const SYSLOG_BATCH: usize = 500;

/// A configured receiver.
pub(crate) struct Sink {
    name: String,
    batch: usize,
    kind: SinkKind,
}

enum SinkKind {
    Syslog(SyslogSink),
    Http(HttpSink),
}

/// All receivers of a configuration.
pub struct Sinks(pub(crate) Vec<Sink>);

impl Sinks {
    /// Prepares all receivers; files that the configuration names are read.
    ///
    /// # Errors
    /// The name of the sink, and the mistake.
    pub fn open(config: &AuditConfig, hub: &str) -> Result<Self, String> {
        let mut sinks = Vec::new();
        for (name, config) in &config.syslog {
            let ca = ca("syslog", &name.0, config.ca_file.as_deref())?;
            let sink = SyslogSink::new(&config.address.0, ca.as_deref(), hub);
            sinks.push(Sink {
                name: format!("syslog-{}", name.0),
                batch: SYSLOG_BATCH,
                kind: SinkKind::Syslog(sink.map_err(|e| format!("[syslog.{}] {e}", name.0))?),
            });
        }
        let of = |table: &'static str, format: HttpFormat, name: &str, config: &HttpConfig| {
            let ca = ca(table, name, config.ca_file.as_deref())?;
            let sink = HttpSink::new(config, ca.as_deref(), hub, format);
            Ok::<_, String>(Sink {
                name: format!("{table}-{name}"),
                batch: config.batch.0.0,
                kind: SinkKind::Http(sink.map_err(|error| format!("[{table}.{name}] {error}"))?),
            })
        };
        for (name, config) in &config.webhook {
            sinks.push(of("webhook", HttpFormat::Lines, &name.0, config)?);
        }
        for (name, config) in &config.otlp {
            sinks.push(of("otlp", HttpFormat::Otlp, &name.0, config)?);
        }
        Ok(Sinks(sinks))
    }
}

fn ca(table: &str, name: &str, file: Option<&Path>) -> Result<Option<String>, String> {
    let read = |file: &Path| {
        let place = file.display();
        fs::read_to_string(file)
            .map_err(|error| format!("[{table}.{name}] ca-file {place}: {error}"))
    };
    file.map(read).transpose()
}

impl Sink {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// Sends lines; an error means that some may be missing there.
    pub(crate) async fn send(&mut self, lines: &[String]) -> Result<(), String> {
        match &mut self.kind {
            SinkKind::Syslog(sink) => sink.send(lines).await,
            SinkKind::Http(sink) => sink.send(lines).await,
        }
    }
}
