//! HTTP CONNECT (RFC 9110, section 9.3.6), server side, for programs that use an HTTP proxy.

use fairlead_api::{Code, Failure};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{
    proxy::{ProxyForm, ProxyRefusal, ProxyRequest},
    target_of,
};

/// Limit of a head in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// The answer to a program that has its connection.
pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Reads a request whose first byte was `first`.
pub(super) async fn read_request<IO>(io: &mut IO, first: u8) -> Result<ProxyRequest, ProxyRefusal>
where
    IO: AsyncRead + Unpin,
{
    let mut bytes = vec![first];
    let end = loop {
        let found = bytes
            .windows(END_OF_HEAD.len())
            .position(|it| it == END_OF_HEAD);
        if let Some(at) = found {
            break at + END_OF_HEAD.len();
        }
        if bytes.len() >= MAX_HEAD_BYTES {
            return Err(refused(431, "the head of its request is too long"));
        }
        if io.read_buf(&mut bytes).await? == 0 {
            return Err(ProxyRefusal::Gone);
        }
    };
    let early = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes);
    let line = head.lines().next().unwrap_or_default();
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = *parts.as_slice() else {
        return Err(refused(400, "its request is not one of HTTP/1.1"));
    };
    if method != "CONNECT" {
        let cause = "its request is no CONNECT; use socks5h:// for plain HTTP";
        return Err(refused(405, cause));
    }
    let target = target_of(target)
        .map_err(|error| refused(400, &format!("the target {target:?}: {error}")))?;
    Ok(ProxyRequest {
        target,
        early,
        form: ProxyForm::HttpConnect,
    })
}

fn refused(status: u16, cause: &str) -> ProxyRefusal {
    let failure = Failure::because(Code::ProxyRequest, cause);
    ProxyRefusal::Answered(answer(status, &failure), cause.to_owned())
}

/// The answer to a failure of the hub or the agent.
pub(super) fn refusal(failure: &Failure) -> Vec<u8> {
    let status = match failure.code.http_status() {
        // A program takes these for its own request to the target, or for a proxy that wants a password.
        401 | 404 | 407 => 403,
        0 => 502,
        status => status,
    };
    answer(status, failure)
}

fn answer(status: u16, failure: &Failure) -> Vec<u8> {
    let text = format!("{failure}. {}\n", failure.next_step());
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status} fairlead\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head, text].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str) -> Result<(String, Vec<u8>), u16> {
        let (first, mut rest) = text.as_bytes().split_first().unwrap();
        match read_request(&mut rest, *first).await {
            Ok(request) => Ok((request.target.to_string(), request.early)),
            Err(ProxyRefusal::Gone) => Err(0),
            Err(ProxyRefusal::Answered(answer, _)) => {
                let answer = String::from_utf8(answer).unwrap();
                Err(answer.split(' ').nth(1).unwrap().parse().unwrap())
            }
        }
    }

    #[tokio::test]
    async fn target_and_early_bytes_are_read() {
        let read = |text| async move { read(text).await.unwrap() };
        let text = "CONNECT db.shop:5432 HTTP/1.1\r\nHost: db.shop:5432\r\n\r\nearly";
        assert_eq!(
            read(text).await,
            ("db.shop:5432".to_owned(), b"early".to_vec())
        );
        let text = "CONNECT [fd00::1]:22 HTTP/1.0\r\n\r\n";
        assert_eq!(read(text).await, ("[fd00::1]:22".to_owned(), Vec::new()));
    }

    #[tokio::test]
    async fn other_requests_are_refused_with_their_status() {
        for (text, status) in [
            ("GET http://db/ HTTP/1.1\r\n\r\n", 405),
            ("connect db:80 HTTP/1.1\r\n\r\n", 405),
            ("CONNECT db:80\r\n\r\n", 400),
            ("CONNECT db:80 HTTP/2\r\n\r\n", 400),
            ("CONNECT db:80 x HTTP/1.1\r\n\r\n", 400),
            ("CONNECT  db:80 HTTP/1.1\r\n\r\n", 400),
            ("CONNECT db HTTP/1.1\r\n\r\n", 400),
            ("CONNECT db:0 HTTP/1.1\r\n\r\n", 400),
            ("CONNECT user@db:80 HTTP/1.1\r\n\r\n", 400),
            ("CONNECT http://db:80 HTTP/1.1\r\n\r\n", 400),
            ("CONNECT db:80 HTTP/1.1\r\nHost: x", 0),
            ("CONNECT", 0),
        ] {
            assert_eq!(read(text).await.unwrap_err(), status, "{text}");
        }
        let long = format!(
            "CONNECT db:80 HTTP/1.1\r\nx: {}",
            "a".repeat(MAX_HEAD_BYTES)
        );
        assert_eq!(read(&long).await.unwrap_err(), 431);
    }

    #[test]
    fn refusal_has_code_and_next_step() {
        let text = String::from_utf8(refusal(&Failure::new(Code::TargetRefused))).unwrap();
        assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
        assert!(
            text.contains("FL-1503") && text.contains("--allow-connect"),
            "{text}"
        );
        let text = String::from_utf8(refusal(&Failure::new(Code::NoToken))).unwrap();
        assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
    }
}
