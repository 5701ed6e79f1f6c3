//! The ways in which a path breaks, as rules of nft at corp's device `wan`: what is forwarded, and what a proxy on corp itself sends and
//! receives.

use anyhow::Context;
use fairlead_e2e::link::Toward;

/// What happens to the path between site and hub. What else may happen is done to the process it happens to: `Process::kill_9` to a
/// proxy, `SIGSTOP` to an agent, [`Haproxy::end_sessions`](crate::Haproxy::end_sessions) for an orderly end by a box between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// A firewall that throws TCP away without a word.
    Drop,
    /// A firewall that answers with a reset, to both sides.
    Reset,
    /// This share of packets is lost at random, on top of what the link loses.
    Loss(f64),
    /// The NAT forgets its connections and takes other ports: whoever is behind it looks like a stranger.
    NatLoss,
    /// The link itself passes nothing, not even an error, one way or both.
    Silence(Toward),
}

/// Takes a table away whether it is there or not, in one transaction with what follows.
const NO_FAULT: &str = "table inet fault {}\ndelete table inet fault\n";

/// No fault.
pub(crate) const NONE: &str = NO_FAULT;

/// The site gets out by a proxy only.
pub(crate) const WALL: &str = r#"
table inet wall {
    chain forward {
        type filter hook forward priority 0; policy accept;
        iifname "site" oifname "wan" drop
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
    /// The rules in place of those of any fault before.
    pub(crate) fn rules(self) -> String {
        let what = match self {
            Self::Drop => "meta l4proto tcp counter name hits drop".to_owned(),
            // A reset is never answered with one, or the rule would meet its own.
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

/// Out of what nft prints of a counter.
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
    fn a_counter_is_read() {
        let listed = "table inet fault {\n\tcounter hits {\n\t\tpackets 12 bytes 560\n\t}\n}";
        assert_eq!(packets(listed).unwrap(), 12);
        assert!(packets("").is_err());
    }
}
