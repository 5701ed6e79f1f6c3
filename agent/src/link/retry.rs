//! What the end of a session, or of a try to have one, means for what comes next. Pure.

use std::time::Duration;

use fairlead_api::Code;
use fairlead_dialer::{CloseReason, SessionError};

/// How soon to try again.
pub(crate) enum Retry {
    Soon,
    Slowly,
    After(Duration),
    /// The process drains.
    Never,
}

/// What it means for this agent that a session ended this way; None: nothing is wrong.
pub(crate) const fn failure_code(ended: &SessionError) -> Option<Code> {
    Some(match ended {
        SessionError::Peer(reason) => match reason {
            CloseReason::Draining | CloseReason::Done => return None,
            CloseReason::Replaced => Code::DialReplaced,
            CloseReason::Deleted => Code::ClusterDeleted,
            CloseReason::Expired => Code::CertificateExpired,
            CloseReason::Protocol => Code::DialProtocol,
            CloseReason::Cloned => Code::IdentityCloned,
        },
        _ => Code::SessionBroke,
    })
}

/// Whether a dial failed because the hub does not take this identity, which no other try will change.
pub(crate) const fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::DialIdentity
            | Code::CertificateExpired
            | Code::ClusterDeleted
            | Code::ForeignCertificate
            | Code::ForeignCluster
            | Code::IdentityCloned
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_a_session_ended_says_what_to_do_next() {
        for (reason, expected) in [
            (CloseReason::Draining, None),
            (CloseReason::Done, None),
            (CloseReason::Replaced, Some(Code::DialReplaced)),
            (CloseReason::Deleted, Some(Code::ClusterDeleted)),
            (CloseReason::Expired, Some(Code::CertificateExpired)),
            (CloseReason::Protocol, Some(Code::DialProtocol)),
            (CloseReason::Cloned, Some(Code::IdentityCloned)),
        ] {
            assert_eq!(failure_code(&SessionError::Peer(reason)), expected);
        }
        let broken = SessionError::Broken("reset".to_owned());
        assert_eq!(failure_code(&broken), Some(Code::SessionBroke));
    }

    #[test]
    fn only_a_hub_that_takes_the_identity_no_more_makes_it_enrol_again() {
        let refusals = Code::ALL.iter().filter(|&&code| is_refusal(code));
        let numbers: Vec<u16> = refusals.map(|code| code.number()).collect();
        assert_eq!(numbers, [2107, 2108, 2109, 2110, 2112, 3109]);
    }
}
