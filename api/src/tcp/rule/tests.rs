//! Tests of rules.

use super::*;

fn allows(rule: &str, target: &str) -> bool {
    let rule: ConnectRule = rule.parse().unwrap();
    let target: TcpTarget = target.parse().unwrap();
    match target.host() {
        TcpHost::Name(name) => rule.allows_name(name, target.port()),
        TcpHost::Address(address) => rule.allows_address(*address, target.port()),
    }
}

#[test]
fn rule_allows_its_hosts_and_ports_only() {
    for (rule, yes, no) in [
        ("db:5432", "db:5432", "db:5433"),
        ("db:5432", "db:5432", "db.shop:5432"),
        ("DB.shop.:*", "db.shop:1", "x.db.shop:1"),
        ("*.shop.svc:80", "db.shop.svc:80", "shop.svc:80"),
        ("*.shop.svc:80", "a.b.shop.svc:80", "xshop.svc:80"),
        ("db:80,443", "db:443", "db:444"),
        ("db:80,8000-8002", "db:8002", "db:8003"),
        ("10.0.0.0/8:*", "10.255.0.1:1", "11.0.0.1:1"),
        ("10.0.0.0/8:22", "10.0.0.1:22", "10.0.0.1:23"),
        ("0.0.0.0/0:*", "8.8.8.8:1", "[2001:db8::1]:1"),
        ("0.0.0.0/0:*", "8.8.8.8:1", "169.254.169.254:80"),
        ("0.0.0.0/0:*", "8.8.8.8:1", "127.0.0.1:80"),
        ("[::]/0:*", "[fd00::1]:1", "[::1]:1"),
        ("[fd00::]/8:*", "[fdff::1]:1", "[fe00::1]:1"),
        ("[fd00::1]:443", "[fd00::1]:443", "[fd00::2]:443"),
        ("127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1:8081"),
        ("10.1.2.3/32:1", "10.1.2.3:1", "10.1.2.2:1"),
    ] {
        assert!(allows(rule, yes), "{rule} {yes}");
        assert!(!allows(rule, no), "{rule} {no}");
    }
    // A loopback address needs its ports, too.
    assert!(!allows("127.0.0.1:*", "127.0.0.1:8080"));
    assert!(!allows("169.254.169.254:*", "169.254.169.254:80"));
}

#[test]
fn reserved_address_is_allowed_by_its_exact_name_only() {
    let exact = |rule: &str, host: &str, address: &str, port| {
        let rule: ConnectRule = rule.parse().unwrap();
        rule.names_exactly(&host.parse().unwrap(), address.parse().unwrap(), port)
    };
    assert!(exact("127.0.0.1:80", "127.0.0.1", "127.0.0.1", 80));
    assert!(exact("127.0.0.1:80", "db", "127.0.0.1", 80));
    assert!(exact("localhost:80", "localhost", "127.0.0.1", 80));
    assert!(exact("localhost:80", "localhost", "::1", 80));
    assert!(!exact("localhost:*", "localhost", "127.0.0.1", 80));
    assert!(!exact("localhost:80", "localhost", "169.254.169.254", 80));
    assert!(!exact("db:80", "db", "127.0.0.1", 80));
    assert!(!exact("127.0.0.1:*", "127.0.0.1", "127.0.0.1", 80));
    assert!(!exact("127.0.0.0/8:80", "127.0.0.1", "127.0.0.1", 80));
}

#[test]
fn rules_are_written_in_one_spelling() {
    for (text, written) in [
        ("DB.:80", "db:80"),
        ("*.SHOP:80-80,90-91", "*.shop:80,90-91"),
        ("10.0.0.0/8:*", "10.0.0.0/8:*"),
        ("[fd00::]/8:443", "[fd00::]/8:443"),
        ("[::1]:1", "[::1]:1"),
    ] {
        let rule: ConnectRule = text.parse().unwrap();
        assert_eq!(rule.to_string(), written);
        assert_eq!(written.parse(), Ok(rule));
    }
}

#[test]
fn unclear_rules_are_refused() {
    let long = format!("db:{}", "1,".repeat(300));
    for text in [
        "",
        "db",
        "db:",
        ":80",
        "*:80",
        "*.:80",
        "*:*",
        "**.a:80",
        "a.*:80",
        "*a:80",
        "db:0",
        "db:65536",
        "db:80,",
        "db:,80",
        "db:90-80",
        "db:80-",
        "db:-80",
        "db:1-2-3",
        "db:*,80",
        "db:080",
        "10.0.0.1/8:80",
        "10.0.0.0/33:80",
        "10.0.0.0/:80",
        "10.0.0.0/08:80",
        "10.0.0.0/-1:80",
        "fd00::/8:80",
        "[10.0.0.0]/8:80",
        "[fd00::]/129:80",
        "[fd00::1]/8:80",
        "[::ffff:10.0.0.1]:80",
        "user@db:80",
        "http://db:80",
        "db/8:80",
        "127.1:80",
        "d b:80",
        "db%41:80",
        "[fe80::1%1]:80",
        long.as_str(),
    ] {
        assert!(text.parse::<ConnectRule>().is_err(), "{text:?}");
    }
}

#[test]
fn ports_behind_a_comma_belong_to_the_rule_before_them() {
    let parts = ["db:80", "443", "8000-8100", "web:1", "", "9"].map(str::to_owned);
    assert_eq!(joined_ports(parts), ["db:80,443,8000-8100", "web:1", ",9"]);
    assert_eq!(joined_ports(["80".to_owned()]), ["80"]);
}
