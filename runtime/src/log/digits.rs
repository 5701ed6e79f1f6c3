//! Decimal digits of a number, without the cost of general formatting.

pub(super) struct Digits {
    text: [u8; Self::MAX_DIGITS],
    from: usize,
}

impl Digits {
    /// Digits of `u64::MAX`.
    const MAX_DIGITS: usize = 20;

    pub(super) fn of(mut number: u64) -> Self {
        let mut digits = Digits {
            text: [b'0'; Self::MAX_DIGITS],
            from: Self::MAX_DIGITS,
        };
        for place in digits.text.iter_mut().rev() {
            *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
            digits.from -= 1;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        digits
    }

    pub(super) fn text(&self) -> &str {
        self.at_least(1)
    }

    /// As [`Digits::text`], without a check of its encoding.
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.get(self.from..).unwrap_or_default()
    }

    /// The digits, padded with zeros to this width.
    pub(super) fn at_least(&self, digits: usize) -> &str {
        let from = self.from.min(Self::MAX_DIGITS.saturating_sub(digits));
        let text = self.text.get(from..).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 7, 10, 999, 1_000_000, u64::MAX] {
            assert_eq!(Digits::of(number).text(), number.to_string());
            assert_eq!(Digits::of(number).bytes(), number.to_string().as_bytes());
            assert_eq!(Digits::of(number).at_least(6), format!("{number:06}"));
        }
    }
}
