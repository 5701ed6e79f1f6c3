//! Traces of requests: spans with their context (W3C Trace Context), and their export by OTLP over HTTP.
//!
//! Tracing is off by default. It then costs one branch for each request, and no memory. Spans have names of things and numbers:
//! no secret, no query, no content. An export never delays a request: a full queue drops spans, and counts them.

mod client;
mod context;
mod queue;
mod settings;
mod span;

pub use self::{
    settings::{OtlpEndpoint, OtlpHeaders, SampleRatio, TraceSettings},
    span::{RequestSpan, RequestTrace, SpanRole, Traces},
};
