//! Large bodies of requests, read piece by piece.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody},
    extract::{FromRequest, Request},
};
use bytes::Bytes;
use fairlead_api::{Code, Failure};
use fairlead_seam::AnswerDeadline;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::rejected::{Answer, Rejected};

/// Time for a whole body.
const BODY_TIME_MAX: Duration = Duration::from_secs(600);
/// Time for the next piece of a body.
const PIECE_DEADLINE: Duration = Duration::from_secs(30);

/// A body in pieces, for routes with bodies of megabytes. The handler authenticates its caller first.
///
/// The time of the body does not count as time of the answer.
pub struct BodyStream {
    body: Body,
    left: u64,
    max: u64,
    until: Instant,
}

impl<S: Sync> FromRequest<S> for BodyStream {
    type Rejection = Rejected;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        if let Some(deadline) = request.extensions().get::<AnswerDeadline>() {
            deadline.extend_by(BODY_TIME_MAX);
        }
        Ok(BodyStream {
            body: request.into_body(),
            left: 0,
            max: 0,
            until: Instant::now() + BODY_TIME_MAX,
        })
    }
}

impl BodyStream {
    /// The body, of at most `max` bytes.
    ///
    /// # Errors
    /// `FL-1304` for a longer one, if its length is known.
    pub fn within(self, max: u64) -> Answer<Self> {
        if self.body.size_hint().lower() > max {
            return Err(too_long(max));
        }
        Ok(BodyStream {
            left: max,
            max,
            ..self
        })
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `FL-1304` if the body is cut off, late, or too long.
    pub async fn next_piece(&mut self) -> Answer<Option<Bytes>> {
        loop {
            let until = self.until.min(Instant::now() + PIECE_DEADLINE);
            let frame = timeout_at(until, self.body.frame()).await;
            let late = |_| Rejected::because(Code::BadRequest, "the body did not arrive in time");
            let Some(frame) = frame.map_err(late)? else {
                return Ok(None);
            };
            let cut = |_| Rejected::because(Code::BadRequest, "the body was cut off");
            let Ok(piece) = frame.map_err(cut)?.into_data() else {
                continue;
            };
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or_else(|| too_long(self.max))?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }
}

fn too_long(max: u64) -> Rejected {
    let detail = format!("the body is longer than {} MiB", max >> 20);
    Rejected::because(Code::BadRequest, detail)
}

/// Checks the content type of a request against a list. A missing type is accepted.
///
/// # Errors
/// `FL-1309`
pub fn check_content_type(headers: &HeaderMap, accepted: &[&str]) -> Result<(), Failure> {
    let mut sent = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(first) = sent.next() else {
        return Ok(());
    };
    let text = first.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_accepted = accepted.iter().any(|it| essence.eq_ignore_ascii_case(it));
    if is_accepted && sent.next().is_none() {
        return Ok(());
    }
    let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
    let next = format!("Send one of these content types: {}.", accepted.join(", "));
    Err(Failure::because(Code::WrongContentType, format_args!("{shown:?}")).next(next))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn of(body: Body) -> (BodyStream, AnswerDeadline) {
        let deadline = AnswerDeadline::default();
        let mut request = Request::new(body);
        request.extensions_mut().insert(deadline.clone());
        (
            BodyStream::from_request(request, &()).await.unwrap(),
            deadline,
        )
    }

    fn pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|it| Ok::<_, std::io::Error>(*it))
            .collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_arrives_in_pieces_up_to_its_limit() {
        let (stream, deadline) = of(pieces(&["ab", "", "cd"])).await;
        assert_eq!(deadline.extension(), BODY_TIME_MAX);
        let mut stream = stream.within(4).unwrap();
        assert_eq!(stream.next_piece().await.unwrap().unwrap(), "ab");
        assert_eq!(stream.next_piece().await.unwrap().unwrap(), "cd");
        assert!(stream.next_piece().await.unwrap().is_none());

        let (stream, _) = of(pieces(&["ab", "cd"])).await;
        let mut stream = stream.within(3).unwrap();
        stream.next_piece().await.unwrap();
        let failure = stream.next_piece().await.unwrap_err().into_failure();
        assert_eq!(failure.code, Code::BadRequest);
        let (stream, _) = of(Body::from("abcd")).await;
        assert!(
            stream.within(3).is_err(),
            "its length is known from the start"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_body_ends_after_thirty_seconds() {
        let silent = stream::pending::<Result<&str, std::io::Error>>();
        let (stream, _) = of(Body::from_stream(silent)).await;
        let started = Instant::now();
        let failure = stream.within(1).unwrap().next_piece().await.unwrap_err();
        assert_eq!(failure.into_failure().code, Code::BadRequest);
        assert_eq!(started.elapsed(), PIECE_DEADLINE);
    }

    #[test]
    fn content_types_are_compared_without_parameters() {
        let headers = |types: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for it in types {
                headers.append(header::CONTENT_TYPE, it.parse().unwrap());
            }
            headers
        };
        let check = |types: &[&'static str]| check_content_type(&headers(types), &["text/a"]);
        assert!(check(&[]).is_ok());
        assert!(check(&["Text/A; charset=x"]).is_ok());
        assert_eq!(check(&["text/b"]).unwrap_err().code, Code::WrongContentType);
        assert!(check(&["text/a", "text/a"]).is_err());
    }
}
