//! Tests of targets.

use proptest::prelude::*;

use super::*;

#[test]
fn usual_targets_are_read_and_written_unchanged() {
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}:1", "b".repeat(61));
    for text in [
        "db:5432",
        "db.shop.svc.cluster.local:5432",
        "my_db-1:65535",
        "10.0.0.1:22",
        "[fd00::1]:443",
        "[::1]:80",
        "1a.2b:1",
        "0x7g:1",
        long.as_str(),
    ] {
        let target: TcpTarget = text.parse().unwrap();
        assert_eq!(target.to_string(), text);
        let path = target.path(&"c-a".parse().unwrap());
        let (cluster, segment) = split_tcp_path(&path).unwrap();
        assert_eq!(cluster, "c-a");
        assert_eq!(TcpTarget::of_segment(segment), Ok(target), "{path}");
    }
}

/// Texts that another parser could take for a target.
const HOSTILE: &[&str] = &[
    "",
    ":",
    ":80",
    "db",
    "db:",
    "db:0",
    "db:00",
    "db:080",
    "db:65536",
    "db:99999999999",
    "db:-1",
    "db:+80",
    "db:8 0",
    "db: 80",
    "db:80 ",
    " db:80",
    "d b:80",
    "db :80",
    "db:80\r\n",
    "db\r\nx:80",
    "db\0:80",
    "db:80\0",
    "db\t:80",
    "db:80:80",
    "a:b:80",
    "::1:80",
    "fd00::1:80",
    "user@db:80",
    "user:pass@db:80",
    "@db:80",
    "db@:80",
    "http://db:80",
    "https://db:80/",
    "//db:80",
    "/db:80",
    "db:80/",
    "db/x:80",
    "db:80?x",
    "db:80#x",
    "../db:80",
    "..:80",
    ".:80",
    "db.:80",
    ".db:80",
    "a..b:80",
    "DB:80",
    "Db.shop:80",
    "-db:80",
    "db-:80",
    "a.-b:80",
    "db%2e:80",
    "%64b:80",
    "d%b:80",
    "db%00:80",
    "127.1:80",
    "2130706433:80",
    "0177.0.0.1:80",
    "0x7f.0.0.1:80",
    "0x7f000001:80",
    "1.2.3.4.5:80",
    "256.0.0.1:80",
    "1.2.3:80",
    "[::1:80",
    "::1]:80",
    "[]:80",
    "[127.0.0.1]:80",
    "[fe80::1%eth0]:80",
    "[0:0:0:0:0:0:0:1]:80",
    "[::FFFF]:80",
    "[::ffff:127.0.0.1]:80",
    "bücher.example:80",
];

#[test]
fn other_spellings_are_refused() {
    for text in HOSTILE {
        assert!(text.parse::<TcpTarget>().is_err(), "{text:?}");
        assert!(TcpTarget::of_segment(text).is_err(), "{text:?}");
    }
    let long = format!("{}:80", "a.".repeat(127) + "b");
    assert!(long.parse::<TcpTarget>().is_err());
    assert!(
        format!("{}:80", "a".repeat(64))
            .parse::<TcpTarget>()
            .is_err()
    );
}

#[test]
fn only_brackets_and_colons_of_a_segment_are_decoded() {
    let read = |text: &str| TcpTarget::of_segment(text).map(|it| it.to_string());
    assert_eq!(read("%5Bfd00%3A%3a1%5d%3A80").unwrap(), "[fd00::1]:80");
    for text in [
        "db%2D1:80",
        "db%3",
        "db%",
        "db%253A80",
        "%",
        "db%3A80%00",
        "db%40x:80",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn input_of_people_is_brought_into_the_usual_spelling() {
    let input = |host: &str, port| TcpTarget::of_input(host, port).map(|it| it.to_string());
    for (host, target) in [
        ("DB.Shop.", "db.shop:80"),
        ("::1", "[::1]:80"),
        ("[0:0::1]", "[::1]:80"),
        ("::ffff:10.0.0.1", "10.0.0.1:80"),
        ("10.0.0.1", "10.0.0.1:80"),
    ] {
        assert_eq!(input(host, 80).unwrap(), target);
    }
    for host in [
        "",
        ".",
        "a b",
        "[10.0.0.1]",
        "[db]",
        "fe80::1%eth0",
        "a/b",
        "user@db",
        "127.1",
    ] {
        assert!(input(host, 80).is_err(), "{host}");
    }
    assert_eq!(input("db", 0), Err(TcpTargetError::Port));
}

#[test]
fn path_of_a_connection_is_distinguished_from_others() {
    for path in [
        "/v1/clusters",
        "/v1/clusters/c-a",
        "/v1/clusters/c-a/tcp",
        "/v1/clusters/c-a/udp/db:1",
        "/clusters/c-a/tcp/db:1",
    ] {
        assert_eq!(split_tcp_path(path), None, "{path}");
    }
    assert_eq!(
        split_tcp_path("/v1/clusters/c-a/tcp/a/b"),
        Some(("c-a", "a/b"))
    );
}

proptest! {
    #[test]
    fn accepted_text_is_its_own_spelling(text in "[a-z0-9A-Z.:@%\\[\\]/ _-]{1,24}:[0-9]{1,6}") {
        if let Ok(target) = text.parse::<TcpTarget>() {
            prop_assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC{0,40}") {
        let _ = text.parse::<TcpTarget>();
        let _ = TcpTarget::of_segment(&text);
        let _ = text.parse::<ConnectRule>();
        let _ = TcpTarget::of_input(&text, 80);
    }

    #[test]
    fn address_is_written_as_it_is_read(bits: u128, port in 1_u16..) {
        let target = TcpTarget::of_input(&Ipv6Addr::from_bits(bits).to_string(), port).unwrap();
        prop_assert_eq!(target.to_string().parse(), Ok(target));
    }
}
