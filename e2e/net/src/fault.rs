//! Faults of the path, as nft rules at corp's device `wan`. They match forwarded packets and those that a
//! proxy on corp sends and receives.

use anyhow::Context;
use fairlead_e2e::link::Toward;

/// A fault of the path between site and hub.
///
/// Faults of a process are not here: `Process::kill_9` for a proxy, `SIGSTOP` for an agent,
/// [`Haproxy::end_sessions`](crate::Haproxy::end_sessions) for an orderly end by a load balancer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// A firewall that silently drops TCP.
    Drop,
    /// A firewall that resets TCP in both directions.
    Reset,
    /// Random loss of this share of packets, in addition to that of the link.
    Loss(f64),
    /// The NAT forgets its connections and uses other ports.
    NatLoss,
    /// The link itself passes nothing, in one direction or both.
    Silence(Toward),
}

/// Deletes a table whether it exists or not, in one transaction with the rules that follow.
const NO_FAULT: &str = "table inet fault {}\ndelete table inet fault\n";

/// Rules without a fault.
pub(crate) const NO_FAULT_RULES: &str = NO_FAULT;

/// Rules that let the site out only through a proxy.
pub(crate) const PROXY_ONLY_RULES: &str = r#"
table inet wall {
    chain forward {
        type filter hook forward priority 0; policy accept;
        iifname "site" oifname "wan" drop
    }
}
"#;

/// Rules that drop IPv6 on the link.
pub(crate) const NO_IPV6_RULES: &str = r#"
table ip6 wall {
    chain forward {
        type filter hook forward priority 0; policy accept;
        oifname "wan" drop
    }
    chain output {
        type filter hook output priority 0; policy accept;
        oifname "wan" drop
    }
}
"#;

/// Source NAT for all TCP that leaves by the link.
pub(crate) fn nat(ports: &str) -> String {
    format!(
        r#"
table ip nat {{}}
delete table ip nat
table ip nat {{
    chain leave {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname "wan" meta l4proto tcp masquerade to :{ports}
    }}
}}
"#
    )
}

impl Fault {
    /// Rules that replace those of the previous fault.
    pub(crate) fn rules(self) -> String {
        let what = match self {
            Self::Drop => "meta l4proto tcp counter name hits drop".to_owned(),
            // A reset must not match its own rule, so the rule excludes resets.
            Self::Reset => {
                "tcp flags & rst == 0 counter name hits reject with tcp reset".to_owned()
            }
            Self::Loss(share) => {
                let share = (share.clamp(0.0, 0.999_999) * 1e6).round() as u64;
                format!("numgen random mod 1000000 < {share} counter name hits drop")
            }
            Self::NatLoss | Self::Silence(_) => return NO_FAULT.to_owned(),
        };
        format!(
            r#"{NO_FAULT}
table inet fault {{
    counter hits {{}}
    chain forward {{
        type filter hook forward priority -10; policy accept;
        iifname "wan" {what}
        oifname "wan" {what}
    }}
    chain input {{
        type filter hook input priority -10; policy accept;
        iifname "wan" {what}
    }}
    chain output {{
        type filter hook output priority -10; policy accept;
        oifname "wan" {what}
    }}
}}
"#
        )
    }
}

/// Parses the packet count of a counter listed by nft.
pub(crate) fn packets(listed: &str) -> anyhow::Result<u64> {
    let (_, rest) = listed.split_once("packets ").context("no counter")?;
    let number = rest.split_whitespace().next().context("no number")?;
    Ok(number.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_takes_the_place_of_the_one_before() {
        for fault in [Fault::Drop, Fault::Reset, Fault::Loss(0.01)] {
            let rules = fault.rules();
            assert!(rules.starts_with(NO_FAULT), "{rules}");
            assert_eq!(rules.matches("counter name hits").count(), 4, "{rules}");
        }
        assert!(Fault::Loss(0.005).rules().contains("mod 1000000 < 5000 "));
    }

    #[test]
    fn counter_is_read() {
        let listed = "table inet fault {\n\tcounter hits {\n\t\tpackets 12 bytes 560\n\t}\n}";
        assert_eq!(packets(listed).unwrap(), 12);
        assert!(packets("").is_err());
    }
}
