//! Context of a trace in the headers of a request (W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{Context, propagation::TextMapPropagator, trace::SpanContext};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Context that the sender of a request has set; an empty one without a valid header.
pub(crate) fn extract(headers: &HeaderMap) -> Context {
    let mut parents = headers.get_all(&TRACEPARENT).iter();
    // With several, none is the parent (W3C Trace Context, section 3.2).
    match (parents.next(), parents.next()) {
        (Some(_), None) => {
            let propagator = TraceContextPropagator::new();
            propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers))
        }
        _ => Context::new(),
    }
}

/// Replaces the context in the headers of a request.
pub(crate) fn inject(context: &SpanContext, headers: &mut HeaderMap) {
    headers.remove(&TRACEPARENT);
    headers.remove(&TRACESTATE);
    let parent = format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        u8::from(context.is_sampled())
    );
    let Ok(parent) = HeaderValue::try_from(parent) else {
        return;
    };
    headers.insert(&TRACEPARENT, parent);
    let state = context.trace_state().header();
    match HeaderValue::try_from(state) {
        Ok(state) if !state.is_empty() => drop(headers.insert(&TRACESTATE, state)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceContextExt;

    use super::*;

    fn span_context(context: &Context) -> SpanContext {
        context.span().span_context().clone()
    }

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn context_passes_unchanged() {
        let given = headers(&[("traceparent", PARENT), ("tracestate", "a=1,b=2")]);
        let context = span_context(&extract(&given));
        assert!(context.is_valid() && context.is_remote() && context.is_sampled());
        let mut sent = headers(&[("traceparent", "other"), ("tracestate", "c=3")]);
        inject(&context, &mut sent);
        assert_eq!(sent, given);
    }

    #[test]
    fn without_a_state_no_header_of_it_is_sent() {
        let context = span_context(&extract(&headers(&[("traceparent", PARENT)])));
        let mut sent = headers(&[("tracestate", "c=3")]);
        inject(&context, &mut sent);
        assert_eq!(sent, headers(&[("traceparent", PARENT)]));
    }

    #[test]
    fn invalid_and_repeated_parents_are_none() {
        let zero = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        for wrong in [
            "",
            "00",
            zero,
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            let mut given = HeaderMap::new();
            given.insert("traceparent", HeaderValue::from_str(wrong).unwrap());
            assert!(!span_context(&extract(&given)).is_valid(), "{wrong}");
        }
        let twice = headers(&[("traceparent", PARENT), ("traceparent", PARENT)]);
        assert!(!span_context(&extract(&twice)).is_valid());
    }
}
