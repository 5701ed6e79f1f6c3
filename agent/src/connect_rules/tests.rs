//! Tests of rules against targets and their addresses.

use super::*;

pub(crate) fn parsed(texts: &[&str]) -> Vec<ConnectRule> {
    rules(&texts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
}

/// Code of the refusal of a target with this address; `None` if it is allowed.
fn code(own: &[&str], desired: Option<&[&str]>, target: &str, address: &str) -> Option<u16> {
    let own = parsed(own);
    let desired: Option<Vec<String>> =
        desired.map(|it| it.iter().map(ToString::to_string).collect());
    let rules = ConnectRules::new(&own, desired.as_deref());
    let target: TcpTarget = target.parse().unwrap();
    let address = SocketAddr::new(address.parse().unwrap(), target.port());
    let checked = rules
        .check_target(&target)
        .and_then(|()| rules.check_address(&target, address));
    checked.err().map(|failure| failure.code.number())
}

#[test]
fn address_decides_unless_a_rule_names_the_host() {
    for (own, target, address, expected) in [
        // A name in a rule may be anywhere but at reserved addresses.
        ("db:5432", "db:5432", "10.0.0.1", None),
        ("db:5432", "db:5432", "8.8.8.8", None),
        ("db:5432", "db:5432", "127.0.0.1", Some(1523)),
        ("db:5432", "db:5432", "169.254.169.254", Some(1523)),
        ("db:5432", "db:5432", "::1", Some(1523)),
        ("db:5432", "db:5433", "10.0.0.1", Some(1503)),
        ("*.shop:*", "db.shop:1", "169.254.169.254", Some(1523)),
        // Rebinding: a name that resolves outside of the network.
        ("10.0.0.0/8:*", "db:5432", "10.0.0.1", None),
        ("10.0.0.0/8:*", "db:5432", "8.8.8.8", Some(1503)),
        ("10.0.0.0/8:*", "db:5432", "127.0.0.1", Some(1523)),
        ("10.0.0.0/8:*", "db:5432", "::ffff:10.0.0.1", None),
        ("0.0.0.0/0:*", "db:80", "169.254.169.254", Some(1523)),
        (
            "0.0.0.0/0:*",
            "169.254.169.254:80",
            "169.254.169.254",
            Some(1523),
        ),
        ("0.0.0.0/0:*", "127.0.0.1:8080", "127.0.0.1", Some(1523)),
        ("[::]/0:*", "[::1]:80", "::1", Some(1523)),
        ("[::]/0:*", "db:80", "64:ff9b::a9fe:a9fe", Some(1523)),
        ("127.0.0.1:*", "127.0.0.1:8080", "127.0.0.1", Some(1523)),
        // Exact names.
        ("127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", None),
        ("127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1", Some(1523)),
        (
            "169.254.169.254:80",
            "169.254.169.254:80",
            "169.254.169.254",
            None,
        ),
        ("localhost:80", "localhost:80", "127.0.0.1", None),
        (
            "localhost:80",
            "localhost:80",
            "169.254.169.254",
            Some(1523),
        ),
    ] {
        assert_eq!(
            code(&[own], None, target, address),
            expected,
            "{own}: {target} is {address}"
        );
    }
    assert_eq!(
        code(&[], None, "db:5432", "10.0.0.1"),
        Some(1503),
        "closed by default"
    );
}

#[test]
fn hub_narrows_and_never_widens() {
    let own = &["db:*", "10.0.0.0/8:*"];
    for (desired, target, expected) in [
        (None, "db:1", None),
        (Some(&["db:1"][..]), "db:1", None),
        (Some(&["db:1"][..]), "db:2", Some(1503)),
        (Some(&["10.1.0.0/16:*"][..]), "10.1.0.1:2", None),
        (Some(&["10.1.0.0/16:*"][..]), "10.2.0.1:2", Some(1503)),
        (Some(&["web:1"][..]), "db:1", Some(1503)),
        (Some(&[][..]), "db:1", Some(1503)),
        (Some(&["not a rule"][..]), "db:1", Some(1503)),
    ] {
        let address = target
            .split(':')
            .next()
            .filter(|it| it.contains('.'))
            .unwrap_or("10.1.0.9");
        assert_eq!(
            code(own, desired, target, address),
            expected,
            "{desired:?} {target}"
        );
    }
}

#[test]
fn unreadable_rule_is_named() {
    let failure = rules(&["db:1".to_owned(), "db".to_owned()]).unwrap_err();
    assert_eq!(failure.code, Code::BadConfig);
    assert!(failure.cause.contains("\"db\""), "{failure}");
}
