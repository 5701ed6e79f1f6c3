//! Arguments of the export of traces.

/// Settings of traces, for hub and agent.
#[derive(clap::Args)]
pub(crate) struct TraceArgs {
    /// Address of an OpenTelemetry collector (OTLP over HTTP) that gets the traces of requests, like http://collector:4318;
    /// alternatively OTEL_EXPORTER_OTLP_ENDPOINT [default: none, tracing is off]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// File with headers for the collector, name=value in each line, for its credential; alternatively OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "FILE")]
    otlp_headers_file: Option<String>,
    /// CA of the collector, PEM, in addition to the system's CAs
    #[arg(long, value_name = "FILE")]
    otlp_ca_file: Option<String>,
    /// Share of requests with a trace, 0 to 1; a traceparent of the client decides for its own request [default: 1]
    #[arg(long, value_name = "RATIO")]
    trace_ratio: Option<String>,
}
