//! Time of a certificate's renewal.

use time::OffsetDateTime;

/// Two thirds into the lifetime: of 24 hours, eight are left for a hub that is down.
#[must_use]
pub fn renew_at(not_before: OffsetDateTime, not_after: OffsetDateTime) -> OffsetDateTime {
    not_before + (not_after - not_before) * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;

    #[test]
    fn renewal_leaves_a_third_of_the_lifetime() {
        let from = OffsetDateTime::UNIX_EPOCH;
        let at = renew_at(from, from + Duration::hours(24));
        assert_eq!(at, from + Duration::hours(16));
        assert_eq!(renew_at(from, from), from);
    }
}
