//! Input refused by both sides: each row has its reason; nothing of it is processed, and the transport
//! is reset.

use http::Method;

use super::script::{Script, ScriptEnd, answered, kind, served};
use fairlead_dialer::sync::lock;

const HOST: &str = "POST / HTTP/1.1\r\nhost: a\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\n";

fn request(rest: &str) -> String {
    format!("{HOST}{rest}")
}

fn chunked(rest: &str) -> String {
    format!("{HOST}transfer-encoding: chunked\r\n\r\n{rest}")
}

fn answer(rest: &str) -> String {
    format!("{OK}{rest}")
}

fn chunked_answer(rest: &str) -> String {
    format!("{OK}transfer-encoding: chunked\r\n\r\n{rest}")
}

/// Framing that both sides refuse, after a first line.
pub(super) fn framings() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "both Content-Length",
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
            "both Content-Length",
        ),
        (
            "content-length: 1\r\ncontent-length: 2\r\n\r\n",
            "more than one",
        ),
        (
            "content-length: 1\r\ncontent-length: 1\r\n\r\n",
            "more than one",
        ),
        ("content-length: 1, 1\r\n\r\n", "not a number"),
        ("content-length: +1\r\n\r\n", "not a number"),
        ("content-length: -1\r\n\r\n", "not a number"),
        ("content-length: 0x1\r\n\r\n", "not a number"),
        ("content-length: 1 1\r\n\r\n", "not a number"),
        ("content-length: \r\n\r\n", "not a number"),
        (
            "content-length: 99999999999999999999\r\n\r\n",
            "not a number",
        ),
        ("transfer-encoding: gzip\r\n\r\n", "transfer coding chunked"),
        (
            "transfer-encoding: gzip, chunked\r\n\r\n",
            "transfer coding chunked",
        ),
        (
            "transfer-encoding: chunked, identity\r\n\r\n",
            "transfer coding chunked",
        ),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            "transfer coding chunked",
        ),
        (
            "transfer-encoding: xchunked\r\n\r\n",
            "transfer coding chunked",
        ),
        (
            "transfer-encoding: identity\r\n\r\n",
            "transfer coding chunked",
        ),
        (
            "transfer-encoding: \"chunked\"\r\n\r\n",
            "transfer coding chunked",
        ),
        ("transfer-encoding: \r\n\r\n", "transfer coding chunked"),
        ("x: 1\r\n folded\r\n\r\n", "name is invalid"),
        ("x: 1\r\n\tfolded\r\n\r\n", "name is invalid"),
        ("x : 1\r\n\r\n", "name is invalid"),
        ("transfer-encoding : chunked\r\n\r\n", "name is invalid"),
        (" x: 1\r\n\r\n", "name is invalid"),
        (": 1\r\n\r\n", "name is invalid"),
        ("no colon\r\n\r\n", "name is invalid"),
        ("x\0: 1\r\n\r\n", "name is invalid"),
        ("x: a\0b\r\n\r\n", "control character"),
        ("x: a\rb\r\n\r\n", "control character"),
        ("x: a\u{7f}b\r\n\r\n", "control character"),
        ("x: a\x01b\r\n\r\n", "control character"),
        ("x: 1\n\r\n", "does not end with CRLF"),
        ("x: 1\r\n\n", "does not end with CRLF"),
        ("x: 1\n\n", "does not end with CRLF"),
    ]
}

/// Chunks that both sides refuse.
fn chunks() -> Vec<(String, &'static str)> {
    let mut chunks: Vec<(String, &'static str)> = [
        ("1\nx\r\n0\r\n\r\n", "not a number"),
        ("1\r\nx\n0\r\n\r\n", "longer than its size"),
        ("1\r\nxy\r\n0\r\n\r\n", "longer than its size"),
        ("2\r\nx\r\n0\r\n\r\n", "longer than its size"),
        ("1 \r\nx\r\n0\r\n\r\n", "not a number"),
        (" 1\r\nx\r\n0\r\n\r\n", "not a number"),
        ("0x1\r\nx\r\n0\r\n\r\n", "not a number"),
        ("+1\r\nx\r\n0\r\n\r\n", "not a number"),
        ("-1\r\nx\r\n0\r\n\r\n", "not a number"),
        ("\r\n", "not a number"),
        (";x=y\r\n", "not a number"),
        ("g\r\n", "not a number"),
        ("1000000000000000\r\n", "too many digits"),
        ("0000000000000001\r\nx\r\n", "too many digits"),
        ("ffffffffffffffffffff\r\n", "too many digits"),
        ("1;a\nb\r\nx\r\n0\r\n\r\n", "control character"),
        ("1;a\0b\r\nx\r\n0\r\n\r\n", "control character"),
        ("1;a\rb\r\nx\r\n0\r\n\r\n", "does not end with CRLF"),
        ("1\r\rx\r\n0\r\n\r\n", "does not end with CRLF"),
        ("0\r\nx: 1\n\r\n", "does not end with CRLF"),
        ("0\r\n\n", "does not end with CRLF"),
        ("0\r\nno colon\r\n\r\n", "trailers are invalid"),
        ("0\r\nx: 1\r\n folded\r\n\r\n", "trailers are invalid"),
        ("0\r\ncontent-length: 5\r\n\r\n", "contain framing fields"),
        (
            "0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "contain framing fields",
        ),
        ("0\r\nhost: b\r\n\r\n", "contain framing fields"),
    ]
    .map(|(chunks, reason)| (chunks.to_owned(), reason))
    .into();
    let extension = "e".repeat(16 * 1024 + 1);
    chunks.push((
        format!("1;{extension}\r\nx\r\n0\r\n\r\n"),
        "extensions are too long",
    ));
    let many = "1;eeeeeeeeeeeeeee\r\nx\r\n".repeat(1100);
    chunks.push((format!("{many}0\r\n\r\n"), "extensions are too long"));
    let trailer = "t".repeat(16 * 1024);
    chunks.push((format!("0\r\nx: {trailer}\r\n\r\n"), "are too large"));
    let trailers = "x: 1\r\n".repeat(101);
    chunks.push((format!("0\r\n{trailers}\r\n"), "trailers are invalid"));
    chunks
}

fn requests() -> Vec<(String, &'static str)> {
    let plain = "host: a\r\n\r\n";
    let mut rows: Vec<(String, &'static str)> = [
        ("GET / HTTP/1.0\r\n", "line is not HTTP/1.1"),
        ("GET / HTTP/1.2\r\n", "not HTTP/1"),
        ("GET / HTTP/2.0\r\n", "not HTTP/1"),
        ("GET / http/1.1\r\n", "not HTTP/1"),
        ("GET /\r\n", ""),
        ("GET  / HTTP/1.1\r\n", ""),
        ("GET /  HTTP/1.1\r\n", ""),
        ("GET / HTTP/1.1 \r\n", ""),
        (" GET / HTTP/1.1\r\n", ""),
        ("GET\t/\tHTTP/1.1\r\n", ""),
        ("G@T / HTTP/1.1\r\n", ""),
        ("GET /a b HTTP/1.1\r\n", ""),
        ("GET /a\0 HTTP/1.1\r\n", ""),
        ("GET /a#b HTTP/1.1\r\n", "not in origin form"),
        ("GET http://b/ HTTP/1.1\r\n", "not in origin form"),
        ("GET b HTTP/1.1\r\n", "not in origin form"),
        ("OPTIONS * HTTP/1.1\r\n", "not in origin form"),
        ("CONNECT / HTTP/1.1\r\n", "not in origin form"),
        ("CONNECT b HTTP/1.1\r\n", "not a host and port"),
        ("CONNECT http://b:1/ HTTP/1.1\r\n", "not a host and port"),
        ("\r\nGET / HTTP/1.1\r\n", "empty line precedes"),
        ("\nGET / HTTP/1.1\r\n", "does not end with CRLF"),
        ("GET / HTTP/1.1\n", "does not end with CRLF"),
        ("GET / HTTP/1.1\r\nhost: b\r\n", "exactly one Host"),
        ("GET / HTTP/1.1\r\nhost: a\r\n", "exactly one Host"),
        ("\u{16}\u{3}\u{1}\r\n", ""),
    ]
    .map(|(line, reason)| (format!("{line}{plain}"), reason))
    .into();
    rows.push(("GET / HTTP/1.1\r\n\r\n".to_owned(), "exactly one Host"));
    rows.extend(connects());
    let framings = framings();
    rows.extend(
        framings
            .into_iter()
            .map(|(head, reason)| (request(head), reason)),
    );
    rows.extend(
        chunks()
            .into_iter()
            .map(|(body, reason)| (chunked(&body), reason)),
    );
    rows
}

/// Requests for a tunnel, which has neither a body nor another Host than its target (RFC 9110, section 9.3.6).
fn connects() -> Vec<(String, &'static str)> {
    [
        ("host: b:1\r\ncontent-length: 5\r\n\r\nhello", "has a body"),
        ("host: b:1\r\ncontent-length: 0\r\n\r\n", "has a body"),
        (
            "host: b:1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "has a body",
        ),
        ("host: b\r\n\r\n", "Host differs"),
        ("host: b:2\r\n\r\n", "Host differs"),
        ("host: a:1\r\n\r\n", "Host differs"),
        ("host: B:1\r\n\r\n", "Host differs"),
        ("host: \r\n\r\n", "Host differs"),
        ("host: b:1\r\nhost: b:1\r\n\r\n", "exactly one Host"),
    ]
    .map(|(rest, reason)| (format!("CONNECT b:1 HTTP/1.1\r\n{rest}"), reason))
    .into()
}

fn answers() -> Vec<(String, &'static str)> {
    let mut rows: Vec<(String, &'static str)> = [
        ("HTTP/1.1 20 OK\r\n\r\n", ""),
        ("HTTP/1.1 2000 OK\r\n\r\n", ""),
        ("HTTP/1.1 099 OK\r\n\r\n", ""),
        ("HTTP/1.1 -20 OK\r\n\r\n", ""),
        ("HTTP/1.1  200 OK\r\n\r\n", ""),
        ("HTTP/2.0 200 OK\r\n\r\n", "not HTTP/1"),
        ("ICY 200 OK\r\n\r\n", ""),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "empty line precedes"),
        ("HTTP/1.1 200 O\0K\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\rx: 1\r\n\r\n", ""),
        (
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "not allowed in HTTP/1.0",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "unrequested protocol",
        ),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", ""),
    ]
    .map(|(answer, reason)| (answer.to_owned(), reason))
    .into();
    rows.push((
        "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(17),
        "too many informational responses",
    ));
    let large = "v".repeat(65_536);
    rows.push((answer(&format!("x: {large}\r\n\r\n")), "is too large"));
    let many = "x: 1\r\n".repeat(101);
    rows.push((answer(&format!("{many}\r\n")), "is too large"));
    let framings = framings();
    rows.extend(
        framings
            .into_iter()
            .map(|(head, reason)| (answer(head), reason)),
    );
    let chunks = chunks();
    rows.extend(
        chunks
            .into_iter()
            .map(|(body, reason)| (chunked_answer(&body), reason)),
    );
    rows
}

#[tokio::test(start_paused = true)]
async fn hostile_request_is_refused_with_its_reason_and_reset() {
    let rows = requests();
    assert!(rows.len() >= 80);
    for (sent, reason) in rows {
        // Whole, and cut at some positions.
        for at in [sent.len(), sent.len() / 2, 1] {
            let (first, second) = sent.as_bytes().split_at(at);
            let (script, tape) = Script::new(&[first, second], ScriptEnd::Silence);
            let (seen, outcome) = served(script).await;
            let error = outcome.expect_err(&sent).to_string();
            assert!(error.contains(reason), "{sent:?}: {error}");
            assert!(seen.iter().all(|seen| seen.body.is_none()), "{sent:?}");
            let tape = lock(&tape);
            assert!(tape.dropped && !tape.finished, "{sent:?} was not reset");
            assert!(tape.written.is_empty(), "{sent:?} was answered");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_response_is_refused_with_its_reason_and_reset() {
    let rows = answers();
    assert!(rows.len() >= 70);
    for (sent, reason) in rows {
        for at in [sent.len(), sent.len() / 2, 1] {
            let (first, second) = sent.as_bytes().split_at(at);
            let (script, tape) = Script::new(&[first, second], ScriptEnd::Silence);
            let error = answered(kind(Method::GET), script).await.expect_err(&sent);
            let error = error.to_string();
            assert!(error.contains(reason), "{sent:?}: {error}");
            let tape = lock(&tape);
            assert!(tape.dropped && !tape.finished, "{sent:?} was not reset");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_head_gets_a_431() {
    let many = request(&format!("{}\r\n", "x: 1\r\n".repeat(100)));
    let large = request(&format!("x: {}\r\n\r\n", "v".repeat(65_536)));
    let endless = request(&format!("x: {}", "v".repeat(65_536)));
    for sent in [many, large, endless] {
        let (script, tape) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        let (seen, outcome) = served(script).await;
        assert!(outcome.is_ok() && seen.is_empty());
        let tape = lock(&tape);
        let told = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n";
        assert!(tape.written.starts_with(told) && tape.finished);
        let answer = String::from_utf8_lossy(&tape.written);
        assert!(
            answer.contains("\r\nfairlead-code: FL-1306\r\n"),
            "{answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = format!("\r\ncontent-length: {}", body.len());
        assert!(head.contains(&length), "{answer}");
        assert!(body.contains("\"code\":\"FL-1306\",\"next\":"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_head_times_out() {
    let (script, tape) = Script::new(&[b"GET / HTTP/1.1\r\nhost:"], ScriptEnd::Silence);
    let (seen, outcome) = served(script).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("not complete in time") && seen.is_empty());
    assert!(lock(&tape).dropped);
}

#[tokio::test(start_paused = true)]
async fn data_between_a_request_and_its_response_is_refused() {
    for first in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "CONNECT b:1 HTTP/1.1\r\nhost: b:1\r\n\r\n",
    ] {
        let sent = format!("{first}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
        let (script, tape) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        let (seen, outcome) = served(script).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("after the request"), "{error}");
        assert!(seen.iter().all(|seen| !seen.line.contains("smuggled")));
        assert!(lock(&tape).dropped);
    }
}

#[tokio::test(start_paused = true)]
async fn data_after_a_response_drops_the_transport() {
    for (method, sent) in [
        (
            Method::GET,
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
        ),
        (
            Method::GET,
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok\n",
        ),
        (
            Method::GET,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx",
        ),
        (
            Method::HEAD,
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ),
        (
            Method::GET,
            "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok",
        ),
        (
            Method::GET,
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\nok",
        ),
        (
            Method::GET,
            "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ] {
        let (script, _) = Script::new(&[sent.as_bytes()], ScriptEnd::Silence);
        let (message, pooled) = answered(kind(method), script).await.unwrap();
        assert!(!pooled, "{sent:?}");
        let (body, _) = message.body.unwrap();
        assert!(body.is_empty() || body == "ok", "{sent:?}");
    }
}
