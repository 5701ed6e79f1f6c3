//! `metav1.Status`, the failure format of Kubernetes clients: as JSON, or as Kubernetes protobuf for clients that accept it
//! (client-go does for typed resources).
//!
//! Protobuf uses the envelope of apimachinery: `k8s\0`, then `runtime.Unknown { typeMeta, raw }` with the message of
//! `generated.proto` as `raw`. Two dozen fields do not justify a code generator.

use serde_json::json;

use crate::{Code, Failure};

/// Media type of [`Encoding::Protobuf`].
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";
/// Part of client-go's `Accept` header for API discovery. Discovery reads responses raw: it shows the body of a failure only
/// if it is text, and only with some statuses. It shows a `Status` as "unknown".
const DISCOVERY: &str = "g=apidiscovery.k8s.io";

/// Encoding of a [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `Status` as JSON.
    Json,
    /// `Status` as Kubernetes protobuf.
    Protobuf,
    /// The sentence alone, for API discovery.
    Text,
}

impl Encoding {
    /// First supported encoding of an `Accept` header; JSON if there is none, like the API server. A table request
    /// (`application/json;as=Table`) gets JSON, because a failure is never a table.
    #[must_use]
    pub fn accepted_by(accept: &str) -> Self {
        if accept.contains(DISCOVERY) {
            return Encoding::Text;
        }
        for entry in accept.split(',') {
            match entry.split(';').next().unwrap_or_default().trim() {
                PROTOBUF => return Encoding::Protobuf,
                JSON | "application/*" | "*/*" => return Encoding::Json,
                _ => {}
            }
        }
        Encoding::Json
    }

    /// Media type of the encoding.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => JSON,
            Encoding::Protobuf => PROTOBUF,
            Encoding::Text => "text/plain; charset=utf-8",
        }
    }

    /// HTTP status of the response for a failure of `http_status`, chosen so that the client shows the sentence.
    #[must_use]
    pub const fn status(self, http_status: u16) -> u16 {
        match (self, http_status) {
            // Clients decide by these statuses whether to log in again or to wait.
            (Encoding::Text, 401 | 403 | 429) => http_status,
            (Encoding::Text, _) => 502,
            _ => http_status,
        }
    }

    /// Response body for `failure` with `http_status`.
    #[must_use]
    pub fn encode(self, failure: &Failure, http_status: u16) -> Vec<u8> {
        match self {
            Encoding::Json => to_json(failure, http_status),
            Encoding::Protobuf => to_protobuf(failure, http_status),
            Encoding::Text => sentence(failure).into_bytes(),
        }
    }
}

/// Last event of a watch that ends with a failure: `ERROR` with a `Status`, framed as the API server frames events of this
/// content type. `None` for content types that cannot be framed here.
#[must_use]
pub fn watch_error(content_type: &str, failure: &Failure) -> Option<Vec<u8>> {
    let http_status = http_status(failure.code);
    match content_type.split(';').next()?.trim() {
        JSON => {
            let mut event = br#"{"type":"ERROR","object":"#.to_vec();
            event.extend_from_slice(&to_json(failure, http_status));
            event.extend_from_slice(b"}\n");
            Some(event)
        }
        // `metav1.WatchEvent` without envelope, after its length; its object is a `runtime.RawExtension`.
        PROTOBUF => {
            let object = Message::new().bytes(1, &to_protobuf(failure, http_status));
            let event = Message::new().text(1, "ERROR").message(2, &object);
            let mut framed = u32::try_from(event.0.len()).ok()?.to_be_bytes().to_vec();
            framed.extend_from_slice(&event.0);
            Some(framed)
        }
        _ => None,
    }
}

/// `Status` of a failure as JSON, for the error channel of an exec.
#[must_use]
pub fn status_json(failure: &Failure) -> Vec<u8> {
    to_json(failure, http_status(failure.code))
}

/// Text of a failure for people: cause, next step, code.
#[must_use]
pub fn sentence(failure: &Failure) -> String {
    format!(
        "{}. {} ({})",
        failure.cause,
        failure.next_step(),
        failure.code
    )
}

/// `StatusReason` of apimachinery for an HTTP status; empty (`StatusReasonUnknown`) if there is none.
#[must_use]
pub const fn reason(http_status: u16) -> &'static str {
    match http_status {
        400 | 421 | 431 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        502 | 503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

fn to_json(failure: &Failure, http_status: u16) -> Vec<u8> {
    let mut details = json!({ "causes": [{ "reason": failure.code, "message": failure.cause }] });
    if let (Some(seconds), Some(details)) = (retry_after(failure.code), details.as_object_mut()) {
        details.insert("retryAfterSeconds".to_owned(), seconds.into());
    }
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": sentence(failure),
        "reason": reason(http_status),
        "details": details,
        "code": http_status,
    });
    body.to_string().into_bytes()
}

fn to_protobuf(failure: &Failure, http_status: u16) -> Vec<u8> {
    let code = failure.code.to_string();
    let cause = Message::new().text(1, &code).text(2, &failure.cause);
    let mut details = Message::new().message(4, &cause);
    if let Some(seconds) = retry_after(failure.code) {
        details = details.number(5, u64::from(seconds));
    }
    let status = Message::new()
        .message(1, &Message::new())
        .text(2, "Failure")
        .text(3, &sentence(failure))
        .text(4, reason(http_status))
        .message(5, &details)
        .number(6, u64::from(http_status));
    let type_meta = Message::new().text(1, "v1").text(2, "Status");
    let unknown = Message::new()
        .message(1, &type_meta)
        .message(2, &status)
        .text(3, "")
        .text(4, "");
    let mut out = b"k8s\0".to_vec();
    out.extend_from_slice(&unknown.0);
    out
}

/// Builder of a protobuf message with wire types 0 and 2.
struct Message(Vec<u8>);

impl Message {
    const fn new() -> Self {
        Message(Vec::new())
    }

    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u64, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }
}

/// HTTP status of a failure for a Kubernetes client; 500 for codes without one.
#[must_use]
pub const fn http_status(code: Code) -> u16 {
    match code.http_status() {
        0 => 500,
        status => status,
    }
}

/// Seconds after which a retry can succeed; `None` if waiting does not help. Most responses do not repeat this in a
/// `Retry-After` header: client-go would retry by itself before it shows the failure.
#[must_use]
pub const fn retry_after(code: Code) -> Option<u32> {
    match code {
        Code::Lost | Code::Draining => Some(2),
        Code::IssuerDown | Code::StoreAway | Code::InfluxAway => Some(5),
        _ if code.http_status() == 429 => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_first_choice_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(Encoding::accepted_by(table), Encoding::Json);
        assert_eq!(
            Encoding::accepted_by("application/vnd.kubernetes.protobuf,application/json"),
            Encoding::Protobuf
        );
        assert_eq!(
            Encoding::accepted_by("application/json, application/vnd.kubernetes.protobuf"),
            Encoding::Json
        );
        assert_eq!(Encoding::accepted_by("application/cbor"), Encoding::Json);
        assert_eq!(Encoding::accepted_by(""), Encoding::Json);
    }

    #[test]
    fn watch_ends_with_an_event_in_its_own_framing() {
        let failure = Failure::new(Code::RequestEnded);
        let json = watch_error("application/json;stream=watch", &failure).unwrap();
        assert_eq!(json.last(), Some(&b'\n'));
        let event: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(event["type"], "ERROR");
        assert_eq!(event["object"]["code"], 403);

        let framed = watch_error("application/vnd.kubernetes.protobuf;stream=watch", &failure);
        let framed = framed.unwrap();
        let (length, event) = framed.split_at(4);
        assert_eq!(length, u32::try_from(event.len()).unwrap().to_be_bytes());
        assert!(event.starts_with(b"\x0a\x05ERROR\x12"));
        assert!(event.windows(4).any(|it| it == b"k8s\0"));
        assert_eq!(watch_error("application/cbor-seq", &failure), None);
    }

    #[test]
    fn a_discovering_client_gets_a_text_with_a_status_that_makes_it_show_the_text() {
        let accept =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let encoding = Encoding::accepted_by(accept);
        assert_eq!(encoding, Encoding::Text);
        let body = encoding.encode(&Code::NeverConnected.into(), 503);
        let text = String::from_utf8(body).unwrap();
        assert!(
            text.starts_with("the cluster has never connected. Run ")
                && text.ends_with("(FL-1401)")
        );
        for (status, told) in [(401, 401), (403, 403), (404, 502), (429, 429), (503, 502)] {
            assert_eq!(encoding.status(status), told);
            assert_eq!(Encoding::Json.status(status), status);
        }
    }

    #[test]
    fn json_is_what_client_go_reads() {
        let failure = Failure::because(Code::Lost, "since 2026-11-21T10:00:00Z");
        let body: serde_json::Value =
            serde_json::from_slice(&Encoding::Json.encode(&failure, 503)).unwrap();
        assert_eq!(body["kind"], "Status");
        assert_eq!(body["reason"], "ServiceUnavailable");
        assert_eq!(body["code"], 503);
        assert_eq!(body["details"]["causes"][0]["reason"], "FL-1402");
        assert_eq!(body["details"]["retryAfterSeconds"], 2);
        assert!(
            body["message"]
                .as_str()
                .unwrap()
                .contains("since 2026-11-21")
        );
    }

    #[test]
    fn protobuf_has_the_envelope_and_the_fields() {
        let failure = Failure::with_cause(Code::NotAllowed, "no".repeat(200));
        let body = Encoding::Protobuf.encode(&failure, 403);
        assert_eq!(body.get(..4).unwrap(), b"k8s\0");
        // Field 1 of Unknown is TypeMeta { "v1", "Status" }.
        assert_eq!(
            body.get(4..18).unwrap(),
            b"\x0a\x0c\x0a\x02v1\x12\x06Status"
        );
        // Field 6 of Status is the code, a varint: 403.
        assert!(body.windows(3).any(|w| w == [0x30, 0x93, 0x03]));
    }

    #[test]
    fn who_should_ask_again_is_told_after_how_many_seconds() {
        for (code, seconds) in [
            (Code::Lost, Some(2)),
            (Code::AgentFull, Some(1)),
            (Code::StoreAway, Some(5)),
            (Code::NeverConnected, None),
            (Code::NotAllowed, None),
        ] {
            let status = http_status(code);
            let json = Encoding::Json.encode(&code.into(), status);
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            let told = json["details"].get("retryAfterSeconds").cloned();
            assert_eq!(told, seconds.map(Into::into), "{code}");
            // Field 5 of the details, the last one in them, and the code of the Status behind it.
            let protobuf = Encoding::Protobuf.encode(&code.into(), status);
            let end = |seconds: u32| [0x28, seconds as u8, 0x30];
            let has = |end: [u8; 3]| protobuf.windows(3).any(|found| found == end);
            assert_eq!((1..=9).find(|&n| has(end(n))), seconds, "{code}");
        }
    }
}
