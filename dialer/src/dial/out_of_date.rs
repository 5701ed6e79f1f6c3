//! Certificates outside their validity period: one of two clocks is wrong, or the certificate was
//! not renewed. The hub's clock decides.

use fairlead_api::{Code, moment::unix_timestamp};
use rustls::{CertificateError, Error, pki_types::UnixTime};

use super::error::{DialError, DialStage, OutOfDate};

/// Clocks within this many seconds of each other agree.
const TOLERANCE_SECS: u64 = 60;
const SET_CLOCK: &str = "Set the clock that is wrong (`timedatectl` shows whether NTP runs); no CA and no new join string will help.";
const RENEW: &str =
    "Renew the hub's certificate; the clocks of both machines agree, so neither is at fault.";

impl OutOfDate {
    /// `None` for errors unrelated to time.
    pub(super) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => {
                Some(OutOfDate::Expired {
                    now: *time,
                    not_after: *not_after,
                })
            }
            Error::InvalidCertificate(CertificateError::NotValidYetContext {
                time,
                not_before,
            }) => Some(OutOfDate::NotYet {
                now: *time,
                not_before: *not_before,
            }),
            _ => None,
        }
    }

    /// The failure without knowledge of the hub's clock.
    pub(super) fn error(self, stage: DialStage) -> DialError {
        let (now, validity) = match self {
            OutOfDate::Expired { now, not_after } => {
                (now, format!("expired at {}", date(not_after)))
            }
            OutOfDate::NotYet { now, not_before } => {
                (now, format!("is valid from {}", date(not_before)))
            }
        };
        let cause = format!(
            "the hub's certificate {validity}, and this machine's clock shows {}",
            date(now)
        );
        DialError {
            out_of_date: Some(self),
            ..DialError::new(stage, Code::DialClock, cause)
        }
    }

    /// The failure, given the hub's clock minus the local one in seconds, if known.
    pub(super) fn with_offset(self, stage: DialStage, offset: Option<i64>) -> DialError {
        let error = self.error(stage);
        match offset.map(difference) {
            None => error,
            Some(None) => {
                let cause = format!("{}, and so does the hub's own clock", error.cause);
                DialError::new(stage, Code::DialTls, cause).next(RENEW)
            }
            Some(Some(difference)) => {
                let cause = format!("{difference}: {}", error.cause);
                DialError { cause, ..error }.next(SET_CLOCK)
            }
        }
    }
}

/// Describes the difference of the clocks; `None` if they agree. `offset` is the hub's clock minus
/// the local one.
pub(super) fn difference(offset: i64) -> Option<String> {
    let seconds = offset.unsigned_abs();
    let side = match offset {
        _ if seconds <= TOLERANCE_SECS => return None,
        1.. => "behind",
        _ => "ahead of",
    };
    Some(format!(
        "this machine's clock is {} {side} the hub's",
        span(seconds)
    ))
}

fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0..10) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

fn date(at: UnixTime) -> String {
    unix_timestamp(at.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR_SECS: i64 = 3600;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn clock_difference_is_described() {
        for (offset, words) in [
            (0, None),
            (60, None),
            (-60, None),
            (61, Some("61 s behind")),
            (-1200, Some("20 min ahead of")),
            (5 * HOUR_SECS + 180, Some("5 h 3 min behind")),
            (-50 * HOUR_SECS, Some("2 d 2 h ahead of")),
            (i64::MIN, Some("ahead of")),
        ] {
            let said = difference(offset);
            let found = match words {
                None => said.is_none(),
                Some(words) => said.as_ref().is_some_and(|said| said.contains(words)),
            };
            assert!(found, "{offset}: {said:?}");
        }
    }

    #[test]
    fn expired_certificate_is_judged_by_the_hubs_clock() {
        let expired = OutOfDate::Expired {
            now: at(1_795_000_000),
            not_after: at(1_794_900_000),
        };
        let unknown = expired.with_offset(DialStage::Tls, None);
        assert_eq!((unknown.code, &unknown.next), (Code::DialClock, &None));
        assert!(unknown.cause.contains("Z"), "{unknown}");
        let ahead = expired.with_offset(DialStage::Tls, Some(-30 * HOUR_SECS));
        assert_eq!(ahead.code, Code::DialClock);
        let words = "this machine's clock is 1 d 6 h ahead of the hub's";
        assert!(ahead.cause.starts_with(words), "{ahead}");
        let stale = expired.with_offset(DialStage::Tls, Some(2));
        assert_eq!(stale.code, Code::DialTls);
        assert_eq!(stale.next.as_deref(), Some(RENEW));
    }
}
