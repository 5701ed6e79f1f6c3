//! Retry decisions after the end of a session or a failed dial. Pure.

use std::time::Duration;

use fairlead_api::Code;
use fairlead_dialer::{CloseReason, SessionError};

use crate::backoff::between;

/// Delay of the reconnect after this agent lost its place to another one, as minimum and maximum. Agents over the
/// limit of a cluster take turns at this rate.
const REPLACED_DELAYS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// Retry decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// With the back-off for hubs.
    Soon,
    /// With the back-off for causes that only a person, or time, removes.
    Slowly,
    After(Duration),
}

/// Reaction to the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterEnd {
    Retry(Retry),
    /// The hub rejects the identity for good.
    ReplaceIdentity,
}

/// Reaction to an end with this code. None: a planned end. `chance` is in `[0, 1)`.
pub(crate) fn after_end(code: Option<Code>, chance: f64) -> AfterEnd {
    match code {
        Some(Code::DialReplaced) => {
            let (min, max) = REPLACED_DELAYS;
            AfterEnd::Retry(Retry::After(between(min, max, chance)))
        }
        // The hub may still renew it: the next dial decides.
        Some(Code::CertificateExpired) => AfterEnd::Retry(Retry::Soon),
        Some(code) if is_refusal(code) => AfterEnd::ReplaceIdentity,
        _ => AfterEnd::Retry(Retry::Soon),
    }
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
            CloseReason::Revoked => Code::IdentityRevoked,
            CloseReason::Busy => Code::HandshakesFull,
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
            | Code::IdentityCloned
            | Code::IdentityRevoked
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
            (CloseReason::Revoked, Some(Code::IdentityRevoked)),
            (CloseReason::Busy, Some(Code::HandshakesFull)),
        ] {
            assert_eq!(failure_code(&SessionError::Peer(reason)), expected);
        }
        let broken = SessionError::Broken("reset".to_owned());
        assert_eq!(failure_code(&broken), Some(Code::SessionBroke));
    }

    #[test]
    fn end_of_a_session_decides_on_retry_and_identity() {
        let soon = AfterEnd::Retry(Retry::Soon);
        for (code, expected) in [
            (None, soon),
            (Some(Code::SessionBroke), soon),
            (Some(Code::DialProtocol), soon),
            (Some(Code::CertificateExpired), soon),
            (Some(Code::ClusterDeleted), AfterEnd::ReplaceIdentity),
            (Some(Code::IdentityCloned), AfterEnd::ReplaceIdentity),
            (Some(Code::IdentityRevoked), AfterEnd::ReplaceIdentity),
            (
                Some(Code::DialReplaced),
                AfterEnd::Retry(Retry::After(REPLACED_DELAYS.0)),
            ),
        ] {
            assert_eq!(after_end(code, 0.0), expected, "{code:?}");
        }
    }

    #[test]
    fn refusal_codes_are_those_of_a_rejected_identity() {
        let refusals = Code::ALL.iter().filter(|&&code| is_refusal(code));
        let numbers: Vec<u16> = refusals.map(|code| code.number()).collect();
        assert_eq!(numbers, [2107, 2109, 2110, 2112, 2113, 3109]);
    }
}
