use tokio::{io::AsyncWriteExt, net::TcpListener};

use super::*;

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = V2_SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    header.extend(rest);
    header
}

const IPV4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0x1f, 0x90, 1, 187];

fn ipv6() -> Vec<u8> {
    let source: Ipv6Addr = "2001:db8::7".parse().unwrap();
    [&source.octets()[..], &[0; 16], &[0x1f, 0x90, 1, 187]].concat()
}

#[test]
fn header_names_the_client_in_both_versions() {
    let v4 = Some("192.0.2.7:8080".parse().unwrap());
    let v6 = Some("[2001:db8::7]:8080".parse().unwrap());
    let with_fields = [&IPV4[..], &[0x05, 0, 3, 1, 2, 3]].concat();
    for (header, client) in [
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 8080 443\r\n".to_vec(), v4),
        (b"PROXY TCP6 2001:db8::7 ::1 8080 443\r\n".to_vec(), v6),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ::1 ::1 1 2\r\n".to_vec(), None),
        (v2(0x21, 0x11, &IPV4), v4),
        (v2(0x21, 0x11, &with_fields), v4),
        (v2(0x21, 0x21, &ipv6()), v6),
        (v2(0x21, 0x00, &[]), None),
        (v2(0x20, 0x00, &[]), None),
        // A health check: its addresses have no meaning.
        (v2(0x20, 0x11, &IPV4), None),
    ] {
        let all = [&header[..], b"\x16\x03\x01 first bytes of the client"].concat();
        assert_eq!(parse(&all), Ok(Progress::Complete(header.len(), client)));
        for length in 0..header.len() {
            assert_eq!(parse(&all[..length]), Ok(Progress::Incomplete), "{length}");
        }
    }
}

#[test]
fn malformed_header_is_refused() {
    let long = format!("PROXY UNKNOWN {}", "x".repeat(MAX_V1_BYTES));
    for line in [
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080 443\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080 443 1\r\n",
        "PROXY TCP4  192.0.2.7 10.0.0.1 8080 443\r\n",
        "PROXY TCP4 192.0.2.07 10.0.0.1 8080 443\r\n",
        "PROXY TCP4 2001:db8::7 ::1 8080 443\r\n",
        "PROXY TCP6 192.0.2.7 10.0.0.1 8080 443\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 8080 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 +8080 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 08080 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080 x\r\n",
        "PROXY TCP4 192.0.2.7 nowhere 8080 443\r\n",
        "PROXY UDP4 192.0.2.7 10.0.0.1 8080 443\r\n",
        "PROXY tcp4 192.0.2.7 10.0.0.1 8080 443\r\n",
        "PROXY \r\n",
        &long,
    ] {
        let refused = parse(line.as_bytes());
        assert!(
            matches!(refused, Err(ProxyHeaderError::Malformed(_))),
            "{line:?}"
        );
    }
    let is_malformed = |header: &[u8]| matches!(parse(header), Err(ProxyHeaderError::Malformed(_)));
    assert!(is_malformed(b"PROXY TCP4 \xff 10.0.0.1 1 2\r\n"));
    for header in [
        v2(0x11, 0x11, &IPV4),       // version 1
        v2(0x22, 0x11, &IPV4),       // no such command
        v2(0x21, 0x12, &IPV4),       // UDP
        v2(0x21, 0x31, &[0; 216]),   // a Unix socket
        v2(0x21, 0x11, &IPV4[..11]), // too short
        v2(0x21, 0x21, &IPV4),
        v2(0x21, 0x11, &[0; MAX_V2_BYTES]),
    ] {
        assert!(is_malformed(&header), "{header:?}");
    }
    for other in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"GET / HTTP/1.1\r\n",
        b"PROXZ ",
        b"\r\n\r\n\0\r\nQUIX",
    ] {
        assert_eq!(parse(other), Err(ProxyHeaderError::Missing), "{other:?}");
    }
}

#[test]
fn no_bytes_cause_a_panic() {
    let mut seed: u64 = 7;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from(seed >> 56).unwrap()
    };
    for round in 0..20_000 {
        let mut bytes = match round % 3 {
            0 => V1_PREFIX.to_vec(),
            1 => V2_SIGNATURE.to_vec(),
            _ => v2(0x21, 0x11, &IPV4),
        };
        for _ in 0..usize::from(next() % 40) {
            let at = usize::from(next()) % (bytes.len() + 1);
            bytes.insert(at, next());
        }
        if let Ok(Progress::Complete(length, _)) = parse(&bytes) {
            assert!(length <= bytes.len());
        }
    }
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

const PROXY: &str = "10.0.0.9:1";

#[tokio::test]
async fn header_in_pieces_is_read_and_nothing_after_it() {
    for header in [
        v2(0x21, 0x11, &IPV4),
        b"PROXY TCP4 192.0.2.7 10.0.0.1 8080 443\r\n".to_vec(),
    ] {
        let (mut client, mut server) = sockets().await;
        client.set_nodelay(true).unwrap();
        let sending = async {
            for byte in &header {
                client.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.write_all(b"after").await.unwrap();
        };
        let reading = read(&mut server, PROXY.parse().unwrap());
        let ((), address) = tokio::join!(sending, reading);
        assert_eq!(address, Ok("192.0.2.7:8080".parse().unwrap()));
        let mut after = [0; 5];
        server.read_exact(&mut after).await.unwrap();
        assert_eq!(&after, b"after");
    }
}

#[tokio::test]
async fn own_connection_of_a_proxy_keeps_its_address() {
    let (mut client, mut server) = sockets().await;
    client.write_all(&v2(0x20, 0, &[])).await.unwrap();
    let address = read(&mut server, PROXY.parse().unwrap()).await;
    assert_eq!(address, Ok(PROXY.parse().unwrap()));
}

#[tokio::test]
async fn connection_without_a_byte_is_no_malformed_header() {
    for (bytes, error) in [
        (&b""[..], ProxyHeaderError::Closed),
        (b"PROXY TCP4 ", ProxyHeaderError::Malformed("it is cut off")),
    ] {
        let (mut client, mut server) = sockets().await;
        client.write_all(bytes).await.unwrap();
        drop(client);
        let refused = read(&mut server, PROXY.parse().unwrap()).await;
        assert_eq!(refused, Err(error));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_header_is_given_up() {
    let (mut client, mut server) = sockets().await;
    client.write_all(b"PROXY TCP4 192.0").await.unwrap();
    let refused = read(&mut server, PROXY.parse().unwrap()).await;
    assert_eq!(refused, Err(ProxyHeaderError::Timeout));
}

#[tokio::test]
async fn header_of_a_stranger_is_refused() {
    for (first, refused) in [
        (v2(0x21, 0x11, &IPV4), true),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), true),
        (b"PUT / HTTP/1.1\r\n".to_vec(), false),
        (b"\x16\x03\x01\x02\x00\x01".to_vec(), false),
    ] {
        let (mut client, server) = sockets().await;
        client.write_all(&first).await.unwrap();
        assert_eq!(refuse(&server).await.is_err(), refused, "{first:?}");
    }
}
