//! Bodies of requests to modules: bounded in size, time and memory.
//!
//! The sender's credential is checked first. Memory is taken from the sender's share before it is used: for the bytes,
//! and for the values that a JSON parser makes of them.

use axum::{
    body::{Body, HttpBody},
    extract::Request,
};
use bytes::{Bytes, BytesMut};
use fairlead_api::Code;
use fairlead_seam::{BodyTerms, Principal, SharedBodyTerms};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::rejected::{Answer, Rejected, as_lieutenant};

/// Memory of an object with one key in `serde_json`: a node of its tree has capacity for eleven.
const OBJECT_BYTES: usize = 640;
/// Memory of another value, or of a further key with a short name.
const VALUE_BYTES: usize = 96;

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// `FL-1304`, `FL-1310`, and the sender's authentication error if only a caller may send that much.
pub(crate) async fn read(request: Request, max: usize) -> Answer<Bytes> {
    read_from(request, (max, Sender::Known)).await
}

/// Like [`read`], and a sender without a credential may send as much. The bytes are not parsed as JSON.
///
/// # Errors
/// `FL-1304`, `FL-1310`
pub(crate) async fn read_open(request: Request, max: usize) -> Answer<Bytes> {
    read_from(request, (max, Sender::Anybody)).await
}

/// Senders of bodies above the limit of strangers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Known,
    Anybody,
}

async fn read_from(request: Request, (max, sender): (usize, Sender)) -> Answer<Bytes> {
    let principal = request.extensions().get::<Principal>().cloned();
    let shared = request.extensions().get::<SharedBodyTerms>().cloned();
    let body = request.into_body();
    let mut terms = match (&principal, &shared) {
        _ if body.is_end_stream() => BodyTerms::unlimited(),
        (Some(principal), _) => principal.body_terms().await,
        (None, Some(shared)) => shared.terms(),
        (None, None) => BodyTerms::unlimited(),
    };
    let collecting = timeout(terms.deadline(), collect(body, (max, sender), &mut terms));
    let read = collecting
        .await
        .map_err(|_| Rejected::because(Code::BadRequest, "the body did not arrive in time"))??;
    if sender == Sender::Known {
        terms.take(parsed_bytes(&read))?;
    }
    match (principal, shared) {
        (Some(principal), _) => principal.keep_memory(terms),
        (None, Some(shared)) => shared.keep_memory(terms),
        (None, None) => {}
    }
    Ok(read)
}

async fn collect(
    mut body: Body,
    (max, sender): (usize, Sender),
    terms: &mut BodyTerms,
) -> Answer<Bytes> {
    let invalid = || {
        let detail = format!("the body was cut off, or is longer than {max} bytes");
        Rejected::because(Code::BadRequest, detail)
    };
    let check = |terms: &BodyTerms, length: u64| match sender {
        Sender::Known => check(terms, length),
        Sender::Anybody => Ok(()),
    };
    check(terms, body.size_hint().lower())?;
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| invalid())?.into_data() else {
            continue;
        };
        let length = whole.len() + data.len();
        check(terms, length as u64)?;
        if length > max {
            return Err(invalid());
        }
        // The buffer doubles as it grows.
        terms.take(2 * data.len())?;
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

fn check(terms: &BodyTerms, length: u64) -> Answer<()> {
    match terms.refusal(length) {
        Some(refusal) => Err(as_lieutenant(refusal.clone())),
        None => Ok(()),
    }
}

/// Estimated memory of the values in a JSON document, from above.
fn parsed_bytes(json: &[u8]) -> usize {
    let (mut bytes, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in json {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'{') => bytes = bytes.saturating_add(OBJECT_BYTES),
            (false, b'[' | b',') => bytes = bytes.saturating_add(VALUE_BYTES),
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::{any::Any, net::IpAddr};

    use fairlead_seam::{AuthenticateError, Caller, Identify, TooManyWrongTokens};

    use super::*;

    /// A sender without a token.
    struct Stranger;

    #[async_trait::async_trait]
    impl Identify for Stranger {
        async fn caller(&self) -> Result<Caller, AuthenticateError> {
            Err(AuthenticateError::NoToken)
        }

        async fn body_terms(&self) -> BodyTerms {
            BodyTerms::within(Vec::new(), Some(AuthenticateError::NoToken))
        }

        fn keep(&self, _: Box<dyn Any + Send>) {}

        fn request_id(&self) -> &str {
            ""
        }

        fn from(&self) -> IpAddr {
            [127, 0, 0, 1].into()
        }

        fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_stranger_sends_large_bodies_to_open_routes_only() {
        const MAX_BYTES: usize = 200_000;
        let request = |bytes: usize| {
            let mut request = Request::new(Body::from(vec![b'{'; bytes]));
            request.extensions_mut().insert(Principal::new(Stranger));
            request
        };
        assert!(read(request(70_000), MAX_BYTES).await.is_err());
        let open = read_open(request(MAX_BYTES), MAX_BYTES).await;
        assert_eq!(open.map(|it| it.len()).ok(), Some(MAX_BYTES));
        assert!(read_open(request(MAX_BYTES + 1), MAX_BYTES).await.is_err());
    }

    #[test]
    fn parsed_size_counts_values_outside_of_texts() {
        assert_eq!(parsed_bytes(br#""{[,\"{[,""#), 0);
        assert_eq!(
            parsed_bytes(br#"{"a": [1, 2, "x,y"]}"#),
            OBJECT_BYTES + 3 * VALUE_BYTES
        );
        assert_eq!(parsed_bytes(b"[[[["), 4 * VALUE_BYTES);
    }
}
