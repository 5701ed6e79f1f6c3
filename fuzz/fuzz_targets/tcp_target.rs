//! Any text is rejected as a TCP target, or is the one spelling of its target, which no resolver takes for another
//! address. Any rule survives a round trip, and only a rule with exactly a reserved address allows that one.
//!
//! Input: one text, or a rule, a target and the address of its name, on a line each.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use fairlead_api::tcp::{
    ConnectRule, TcpHost, TcpTarget, is_reserved, joined_ports, split_tcp_path,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    check_target(text);
    check_segment(text);
    check_rule(text);
    let mut lines = text.splitn(3, '\n');
    if let (Some(rule), Some(target), Some(address)) = (lines.next(), lines.next(), lines.next()) {
        check_target(target);
        check_decision(rule, target, address);
    }
});

fn check_target(text: &str) {
    if let Ok(port) = text.len().try_into() {
        if let Ok(input) = TcpTarget::of_input(text, port) {
            assert_eq!(input.to_string().parse(), Ok(input));
        }
    }
    let Ok(target) = text.parse::<TcpTarget>() else {
        return;
    };
    assert_eq!(target.to_string(), text, "a second spelling");
    assert_ne!(target.port(), 0);
    match target.host() {
        TcpHost::Name(name) => {
            let name = name.as_str();
            assert!(name.is_ascii() && !name.ends_with('.'));
            assert_eq!(
                inet_aton(name),
                None,
                "{name} is an address of the C library"
            );
            assert!(name.parse::<IpAddr>().is_err());
        }
        TcpHost::Address(address) => assert_eq!(address.to_canonical(), *address),
    }
    let path = target.path(&"c-a".parse().expect("a cluster"));
    let (_, segment) = split_tcp_path(&path).expect("our own path");
    assert_eq!(TcpTarget::of_segment(segment), Ok(target));
}

/// A segment of a path may only have its brackets and colons encoded.
fn check_segment(text: &str) {
    let Ok(target) = TcpTarget::of_segment(text) else {
        return;
    };
    let mut decoded = text.to_owned();
    for (escape, byte) in [
        ("%3A", ":"),
        ("%3a", ":"),
        ("%5B", "["),
        ("%5b", "["),
        ("%5D", "]"),
        ("%5d", "]"),
    ] {
        decoded = decoded.replace(escape, byte);
    }
    assert_eq!(decoded, target.to_string());
}

fn check_rule(text: &str) {
    let joined = joined_ports(text.split(',').map(str::to_owned));
    assert!(joined.len() <= text.split(',').count());
    let Ok(rule) = text.parse::<ConnectRule>() else {
        return;
    };
    let written = rule.to_string();
    let again: ConnectRule = written.parse().expect("a rule that we wrote");
    assert_eq!(again, rule);
    assert_eq!(again.to_string(), written);
}

/// A reserved address passes by a rule with exactly this address and its ports only.
fn check_decision(rule: &str, target: &str, address: &str) {
    let (Ok(rule), Ok(target), Ok(address)) = (
        rule.parse::<ConnectRule>(),
        target.parse::<TcpTarget>(),
        address.parse::<IpAddr>(),
    ) else {
        return;
    };
    let address = address.to_canonical();
    let is_exact = rule.names_exactly(target.host(), address, target.port());
    if rule.allows_address(address, target.port()) && is_reserved(address) {
        assert!(is_exact, "{rule} allows {address}");
    }
    if is_exact {
        let written = rule.to_string();
        let named = TcpHost::Address(address).to_string();
        assert!(written.starts_with(&format!("{named}:")) || written.starts_with("localhost:"));
        assert!(!written.ends_with(":*"), "{written}");
    }
    // What is decided about an address must not depend on its form.
    if let IpAddr::V4(v4) = address {
        assert_eq!(
            is_reserved(v4.to_ipv6_mapped().into()),
            is_reserved(address)
        );
    }
}

/// The address that `inet_aton` of the C library reads: one to four numbers, decimal, octal or hexadecimal.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text
        .split('.')
        .map(|part| {
            let lower = part.to_ascii_lowercase();
            match lower.strip_prefix("0x") {
                Some("") => Some(0),
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None if lower.len() > 1 && lower.starts_with('0') => {
                    u32::from_str_radix(&lower, 8).ok()
                }
                None => lower.parse().ok(),
            }
        })
        .collect::<Option<Vec<u32>>>()?;
    let last = parts.pop()?;
    if parts.len() > 3 || parts.iter().any(|&it| it > 255) {
        return None;
    }
    let first = parts.iter().fold(0_u32, |sum, &it| sum << 8 | it);
    let bits = 8 * (4 - parts.len() as u32);
    if u64::from(last) >> bits != 0 {
        return None;
    }
    Some(
        first
            .checked_shl(bits)
            .unwrap_or(0)
            .wrapping_add(last)
            .into(),
    )
}
