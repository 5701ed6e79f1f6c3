//! Retry decisions after the end of a session or a failed dial. Pure.

use std::time::Duration;

use fairlead_api::Code;
use fairlead_dialer::{CloseReason, SessionError};

/// Retry decision.
pub(crate) enum Retry {
    Soon,
    Slowly,
    After(Duration),
    /// The process drains.
    Never,
}

/// Failure code for the end of a session. None for a planned end.
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

/// Whether the hub rejects this identity for good.
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
    fn session_end_maps_to_a_failure_code() {
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
    fn refusal_codes_are_those_of_a_rejected_identity() {
        let refusals = Code::ALL.iter().filter(|&&code| is_refusal(code));
        let numbers: Vec<u16> = refusals.map(|code| code.number()).collect();
        assert_eq!(numbers, [2107, 2108, 2109, 2110, 2112, 3109]);
    }
}
