//! Host keys of an SSH server, read as `ssh-keyscan` reads them: by the start of a key exchange
//! (RFC 4253, RFC 8731). They are as true as the path to the server, so a person confirms them.

mod wire;

use std::{io, time::Duration};

use aws_lc_rs::{
    agreement::{EphemeralPrivateKey, X25519},
    rand::SystemRandom,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use wire::{Parts, put_list, put_string, read_packet, read_version, write_packet};

/// Deadline for one type of keys.
const SCAN_DEADLINE: Duration = Duration::from_secs(10);
/// Signature algorithms, one for each type of keys.
const ALGORITHMS: [&str; 3] = ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"];
const KEY_EXCHANGES: [&str; 2] = ["curve25519-sha256", "curve25519-sha256@libssh.org"];
/// Limit of messages before an expected one.
const MAX_OTHER_MESSAGES: usize = 8;

// Message numbers (RFC 4250, section 4.1.2; RFC 5656, section 7.1).
const IGNORE_MESSAGE: u8 = 2;
const UNIMPLEMENTED_MESSAGE: u8 = 3;
const DEBUG_MESSAGE: u8 = 4;
const KEXINIT_MESSAGE: u8 = 20;
const KEX_ECDH_INIT_MESSAGE: u8 = 30;
const KEX_ECDH_REPLY_MESSAGE: u8 = 31;

/// Host keys that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it did not answer within {} s", SCAN_DEADLINE.as_secs())]
    Silent,
    #[error("it sent an invalid message of SSH")]
    Invalid,
    #[error("it has no key exchange with Curve25519")]
    NoKeyExchange,
    #[error("it has no host key of a known type")]
    NoKey,
    #[error("no random numbers")]
    Random,
}

/// Reads all host keys of a server; lines of `known_hosts`.
///
/// # Errors
/// [`ScanError`] if no key could be read.
pub(crate) async fn scan(host: &str, port: u16) -> Result<String, ScanError> {
    let name = match port {
        22 => host.to_owned(),
        port => format!("[{host}]:{port}"),
    };
    let mut lines = String::new();
    for algorithm in ALGORITHMS {
        let read = async {
            let stream = TcpStream::connect((host, port)).await?;
            host_key(stream, algorithm).await
        };
        let read = timeout(SCAN_DEADLINE, read).await;
        if let Some(key) = read.map_err(|_| ScanError::Silent)?? {
            let kind = Parts(&key).string().ok_or(ScanError::Invalid)?;
            let kind = std::str::from_utf8(kind).map_err(|_| ScanError::Invalid)?;
            lines.push_str(&format!("{name} {kind} {}\n", STANDARD.encode(&key)));
        }
    }
    match lines.is_empty() {
        true => Err(ScanError::NoKey),
        false => Ok(lines),
    }
}

/// The key for one signature algorithm; `None` if the server has none.
async fn host_key<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    algorithm: &str,
) -> Result<Option<Vec<u8>>, ScanError> {
    stream.write_all(b"SSH-2.0-fairlead\r\n").await?;
    read_version(&mut stream).await?;
    write_packet(&mut stream, &key_exchange_init(algorithm)?).await?;
    let offer = read_message(&mut stream, KEXINIT_MESSAGE).await?;
    let lists = offer.get(17..).ok_or(ScanError::Invalid)?;
    let mut lists = Parts(lists);
    let exchanges = lists.list().ok_or(ScanError::Invalid)?;
    let algorithms = lists.list().ok_or(ScanError::Invalid)?;
    if !exchanges.iter().any(|it| KEY_EXCHANGES.contains(it)) {
        return Err(ScanError::NoKeyExchange);
    }
    if !algorithms.contains(&algorithm) {
        return Ok(None);
    }
    let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
    let own = own.and_then(|key| key.compute_public_key());
    let own = own.map_err(|_| ScanError::Random)?;
    let mut init = vec![KEX_ECDH_INIT_MESSAGE];
    put_string(&mut init, own.as_ref());
    write_packet(&mut stream, &init).await?;
    let reply = read_message(&mut stream, KEX_ECDH_REPLY_MESSAGE).await?;
    let key = reply.get(1..).and_then(|rest| Parts(rest).string());
    let key = key.filter(|key| is_of(key, algorithm));
    key.map(|key| Some(key.to_vec())).ok_or(ScanError::Invalid)
}

/// True if a key is of the type for this signature algorithm.
fn is_of(key: &[u8], algorithm: &str) -> bool {
    let kind = match algorithm {
        "rsa-sha2-512" => "ssh-rsa",
        other => other,
    };
    Parts(key).string() == Some(kind.as_bytes())
}

fn key_exchange_init(algorithm: &str) -> Result<Vec<u8>, ScanError> {
    let mut cookie = [0; 16];
    aws_lc_rs::rand::fill(&mut cookie).map_err(|_| ScanError::Random)?;
    let mut message = vec![KEXINIT_MESSAGE];
    message.extend(cookie);
    put_list(&mut message, &KEY_EXCHANGES);
    put_list(&mut message, &[algorithm]);
    for _ in 0..2 {
        put_list(&mut message, &["aes128-ctr", "aes256-gcm@openssh.com"]);
    }
    for _ in 0..2 {
        put_list(&mut message, &["hmac-sha2-256"]);
    }
    for _ in 0..2 {
        put_list(&mut message, &["none"]);
    }
    // Languages, no guessed packet, and a reserved number.
    put_list(&mut message, &[]);
    put_list(&mut message, &[]);
    message.extend([0; 5]);
    Ok(message)
}

/// Reads messages until one with this number.
async fn read_message<S: AsyncRead + Unpin>(
    stream: &mut S,
    number: u8,
) -> Result<Vec<u8>, ScanError> {
    for _ in 0..MAX_OTHER_MESSAGES {
        let message = read_packet(stream).await?;
        match message.first() {
            Some(&found) if found == number => return Ok(message),
            Some(&(IGNORE_MESSAGE | UNIMPLEMENTED_MESSAGE | DEBUG_MESSAGE)) => {}
            _ => return Err(ScanError::Invalid),
        }
    }
    Err(ScanError::Invalid)
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// A server that offers these host key algorithms and answers with this key.
    async fn serve(mut stream: tokio::io::DuplexStream, algorithms: &[&str], key: &[u8]) {
        stream
            .write_all(b"welcome\r\nSSH-2.0-test\r\n")
            .await
            .unwrap();
        read_version(&mut stream).await.unwrap();
        let mut offer = vec![KEXINIT_MESSAGE];
        offer.extend([1; 16]);
        put_list(&mut offer, &["other", "curve25519-sha256"]);
        put_list(&mut offer, algorithms);
        write_packet(&mut stream, &[IGNORE_MESSAGE, 0, 0, 0, 0])
            .await
            .unwrap();
        write_packet(&mut stream, &offer).await.unwrap();
        read_packet(&mut stream).await.unwrap();
        let Ok(init) = read_packet(&mut stream).await else {
            return;
        };
        assert_eq!(Parts(&init[1..]).string().unwrap().len(), 32);
        let mut reply = vec![KEX_ECDH_REPLY_MESSAGE];
        put_string(&mut reply, key);
        write_packet(&mut stream, &reply).await.unwrap();
    }

    fn key_of(kind: &str) -> Vec<u8> {
        let mut key = Vec::new();
        put_string(&mut key, kind.as_bytes());
        put_string(&mut key, b"0123");
        key
    }

    async fn scanned(
        offered: &'static [&'static str],
        key: Vec<u8>,
        algorithm: &str,
    ) -> Result<Option<Vec<u8>>, ScanError> {
        let (client, server) = duplex(64 * 1024);
        let served = tokio::spawn(async move { serve(server, offered, &key).await });
        let result = host_key(client, algorithm).await;
        served.await.unwrap();
        result
    }

    #[tokio::test]
    async fn the_key_of_the_reply_is_read() {
        let key = key_of("ssh-rsa");
        let read = scanned(&["rsa-sha2-512"], key.clone(), "rsa-sha2-512").await;
        assert_eq!(read.unwrap(), Some(key));
        let read = scanned(&["ssh-ed25519"], key_of("ssh-ed25519"), "rsa-sha2-512").await;
        assert_eq!(read.unwrap(), None, "it has no key of that type");
        let read = scanned(&["ssh-ed25519"], key_of("ssh-rsa"), "ssh-ed25519").await;
        assert!(matches!(read, Err(ScanError::Invalid)), "{read:?}");
    }

    #[tokio::test]
    async fn a_server_of_another_protocol_is_refused() {
        let (client, mut server) = duplex(64 * 1024);
        let written =
            tokio::spawn(
                async move { server.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await },
            );
        let read = host_key(client, "ssh-ed25519").await;
        assert!(read.is_err(), "{read:?}");
        written.await.unwrap().unwrap();
    }
}
