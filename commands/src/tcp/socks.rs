//! SOCKS5 (RFC 1928), server side: CONNECT without authentication, with names and addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use fairlead_api::{Code, Failure, tcp::TcpTarget};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::proxy::{ProxyForm, ProxyRefusal, ProxyRequest};

pub(super) const SOCKS_VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const COMMAND_CONNECT: u8 = 1;
/// Types of addresses.
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;
/// Replies.
pub(super) const REPLY_SUCCEEDED: u8 = 0;
const GENERAL_FAILURE: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Reads a request after its first byte, and answers the negotiation of methods.
pub(super) async fn read_request<IO>(io: &mut IO) -> Result<ProxyRequest, ProxyRefusal>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut methods = vec![0; io.read_u8().await?.into()];
    io.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        return Err(ProxyRefusal::Answered(
            vec![SOCKS_VERSION, NO_ACCEPTABLE_METHOD],
            "the program insists on a password".to_owned(),
        ));
    }
    io.write_all(&[SOCKS_VERSION, NO_AUTHENTICATION]).await?;
    io.flush().await?;
    let refused = |code, cause: String| ProxyRefusal::Answered(reply(code).to_vec(), cause);
    let mut head = [0; 4];
    io.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != SOCKS_VERSION {
        return Err(refused(
            GENERAL_FAILURE,
            format!("version {version} of SOCKS"),
        ));
    }
    let host = match kind {
        ADDRESS_IPV4 => Ipv4Addr::from_bits(io.read_u32().await?).to_string(),
        ADDRESS_IPV6 => Ipv6Addr::from_bits(io.read_u128().await?).to_string(),
        ADDRESS_NAME => {
            let mut name = vec![0; io.read_u8().await?.into()];
            io.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        other => {
            return Err(refused(
                ADDRESS_NOT_SUPPORTED,
                format!("type {other} of address"),
            ));
        }
    };
    let port = io.read_u16().await?;
    if command != COMMAND_CONNECT {
        let cause = format!("command {command} of SOCKS; only CONNECT is supported");
        return Err(refused(COMMAND_NOT_SUPPORTED, cause));
    }
    let target = TcpTarget::of_input(&host, port)
        .map_err(|error| refused(GENERAL_FAILURE, format!("{host:?}: {error}")))?;
    Ok(ProxyRequest {
        target,
        early: Vec::new(),
        form: ProxyForm::Socks5,
    })
}

/// A reply. Its address is not that of a socket here, so it is zero.
pub(super) const fn reply(code: u8) -> [u8; 10] {
    [SOCKS_VERSION, code, 0, ADDRESS_IPV4, 0, 0, 0, 0, 0, 0]
}

/// The reply to a failure.
pub(super) const fn code_of(failure: &Failure) -> u8 {
    match failure.code {
        Code::TargetRefused
        | Code::TargetReserved
        | Code::TcpNotAllowed
        | Code::NotAllowed
        | Code::Locked => NOT_ALLOWED,
        Code::TargetUnreachable => HOST_UNREACHABLE,
        _ => GENERAL_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// Result of a request after its first byte, and the bytes of the answer.
    async fn answered(bytes: &[u8]) -> (Result<String, Vec<u8>>, Vec<u8>) {
        let (mut program, mut io) = duplex(1024);
        program.write_all(bytes).await.unwrap();
        program.shutdown().await.unwrap();
        let request = read_request(&mut io).await;
        drop(io);
        let mut answer = Vec::new();
        program.read_to_end(&mut answer).await.unwrap();
        let result = match request {
            Ok(request) => Ok(request.target.to_string()),
            Err(ProxyRefusal::Answered(refusal, _)) => Err(refusal),
            Err(ProxyRefusal::Gone) => Err(Vec::new()),
        };
        (result, answer)
    }

    #[tokio::test]
    async fn names_and_addresses_are_read() {
        for (request, target) in [
            (&b"\x01\x00\x05\x01\x00\x03\x02db\x15\x38"[..], "db:5432"),
            (
                b"\x02\x02\x00\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x16",
                "10.0.0.1:22",
            ),
            (
                b"\x01\x00\x05\x01\x00\x04\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16",
                "[fd00::1]:22",
            ),
            (b"\x01\x00\x05\x01\x00\x03\x03DB.\x00\x50", "db:80"),
        ] {
            let (result, answer) = answered(request).await;
            assert_eq!(result.as_deref(), Ok(target));
            assert_eq!(answer, [5, 0]);
        }
    }

    #[tokio::test]
    async fn other_requests_are_refused_with_their_reply() {
        for (request, refusal) in [
            (&b"\x01\x02"[..], vec![5, 0xff]),
            (b"\x00", vec![5, 0xff]),
            (
                b"\x01\x00\x04\x01\x00\x01\x0a\x00\x00\x01\x00\x16",
                reply(1).to_vec(),
            ),
            (
                b"\x01\x00\x05\x02\x00\x01\x0a\x00\x00\x01\x00\x16",
                reply(7).to_vec(),
            ),
            (
                b"\x01\x00\x05\x03\x00\x01\x0a\x00\x00\x01\x00\x16",
                reply(7).to_vec(),
            ),
            (b"\x01\x00\x05\x01\x00\x02", reply(8).to_vec()),
            (b"\x01\x00\x05\x01\x00\x03\x02db\x00\x00", reply(1).to_vec()),
            (b"\x01\x00\x05\x01\x00\x03\x00\x00\x50", reply(1).to_vec()),
            (
                b"\x01\x00\x05\x01\x00\x03\x04a\0b\n\x00\x50",
                reply(1).to_vec(),
            ),
            // Cut in the middle.
            (b"\x02\x00", Vec::new()),
            (b"\x01\x00\x05\x01\x00\x03\x05db", Vec::new()),
        ] {
            assert_eq!(answered(request).await.0, Err(refusal), "{request:?}");
        }
    }
}
