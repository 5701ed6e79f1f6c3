use super::*;

#[test]
fn a_network_contains_exactly_its_addresses() {
    for (network, address, has) in [
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("0.0.0.0/0", "192.0.2.1", true),
        ("192.0.2.7", "192.0.2.7", true),
        ("192.0.2.7", "192.0.2.6", false),
        ("2001:db8::/32", "2001:db8:1::1", true),
        ("::/0", "2001:db9::1", true),
        ("2001:db8::/32", "2001:db9::1", false),
        ("::/0", "192.0.2.1", false),
    ] {
        let network: Network = network.parse().unwrap();
        assert_eq!(
            network.contains(address.parse().unwrap()),
            has,
            "{network:?} {address}"
        );
    }
    for bad in ["", "10.0.0.0/33", "10.0.0.0/", "x/8", "::/129", "10.0.0/8"] {
        assert!(bad.parse::<Network>().is_err(), "{bad:?}");
    }
}

#[test]
fn client_is_the_rightmost_address_without_trust() {
    let proxies = Proxies {
        trusted: ["10.0.0.0/8", "2001:db8:ffff::/48"]
            .map(|it| it.parse().unwrap())
            .to_vec(),
        proxy_protocol: false,
    };
    for (values, client) in [
        (&["192.0.2.7"][..], Some("192.0.2.7:0")),
        (&["1.1.1.1, 192.0.2.7"], Some("192.0.2.7:0")),
        (&["1.1.1.1, 192.0.2.7, 10.0.0.1"], Some("192.0.2.7:0")),
        (
            &["1.1.1.1", "192.0.2.7,10.0.0.1", "10.2.3.4"],
            Some("192.0.2.7:0"),
        ),
        (&["192.0.2.7:4711 "], Some("192.0.2.7:4711")),
        (&["2001:db8::7"], Some("[2001:db8::7]:0")),
        (&["[2001:db8::7]"], Some("[2001:db8::7]:0")),
        (
            &["[2001:db8::7]:4711, 2001:db8:ffff::1"],
            Some("[2001:db8::7]:4711"),
        ),
        (&["::ffff:192.0.2.7"], Some("192.0.2.7:0")),
        (&["10.0.0.1, 10.0.0.2"], Some("10.0.0.1:0")),
        // A forged entry ends the chain at the proxy that received it.
        (&["forged, 10.0.0.2"], Some("10.0.0.2:0")),
        (&["1.1.1.1, , 10.0.0.2"], Some("10.0.0.2:0")),
        (&["unknown"], None),
        (&[""], None),
        (&[], None),
    ] {
        let values_of = values.iter().map(|value| value.as_bytes());
        let expected = client.map(|it| it.parse().unwrap());
        assert_eq!(proxies.forwarded_for(values_of), expected, "{values:?}");
    }
}
