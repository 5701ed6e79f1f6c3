//! Stream numbers that the peer has skipped and may still use, because streams may begin out of
//! order. Kept as ranges, so that frames that skip many numbers cost no more memory than others.

use std::collections::BTreeMap;

/// Limit of skipped numbers.
const MAX_SKIPPED: u32 = 1024;
/// Each side assigns every other number.
const NUMBER_STEP: u32 = 2;

/// Keeps the highest [`MAX_SKIPPED`] numbers.
#[derive(Default)]
pub(super) struct Skipped {
    /// First number of each range, and the number after the range.
    ranges: BTreeMap<u32, u32>,
    numbers: u32,
}

impl Skipped {
    /// Adds the numbers from `first` up to `given`, which is above all known ones.
    pub(super) fn pass_over(&mut self, first: u32, given: u32) {
        let first = first.max(given.saturating_sub(NUMBER_STEP * MAX_SKIPPED));
        if first < given {
            self.ranges.insert(first, given);
            self.numbers += numbers(first, given);
        }
        while self.numbers > MAX_SKIPPED
            && let Some((first, end)) = self.ranges.pop_first()
        {
            let excess = self.numbers - MAX_SKIPPED;
            self.numbers -= excess.min(numbers(first, end));
            let kept = first.saturating_add(NUMBER_STEP.saturating_mul(excess));
            if kept < end {
                self.ranges.insert(kept, end);
            }
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.range_of(number).is_some()
    }

    /// False if the number is not among them.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let Some((first, end)) = self.range_of(number) else {
            return false;
        };
        self.ranges.remove(&first);
        if first < number {
            self.ranges.insert(first, number);
        }
        if number + NUMBER_STEP < end {
            self.ranges.insert(number + NUMBER_STEP, end);
        }
        self.numbers -= 1;
        true
    }

    fn range_of(&self, number: u32) -> Option<(u32, u32)> {
        let (first, end) = self.ranges.range(..=number).next_back()?;
        (number < *end).then_some((*first, *end))
    }

    #[cfg(test)]
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

const fn numbers(first: u32, end: u32) -> u32 {
    (end - first).div_ceil(NUMBER_STEP)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Reference implementation, number by number.
    #[derive(Default)]
    struct SkippedModel(BTreeSet<u32>);

    impl SkippedModel {
        fn pass_over(&mut self, first: u32, given: u32) {
            self.0.extend((first..given).step_by(NUMBER_STEP as usize));
            while self.0.len() > MAX_SKIPPED as usize {
                self.0.pop_first();
            }
        }
    }

    proptest! {
        #[test]
        fn ranges_match_single_numbers(
            side in 1..=2_u32,
            steps in prop::collection::vec((prop_oneof![0..4_u32, 0..1500_u32], any::<prop::sample::Index>()), 1..200),
        ) {
            let (mut skipped, mut model) = (Skipped::default(), SkippedModel::default());
            let mut next = side;
            for (jump, late) in steps {
                let given = next + NUMBER_STEP * jump;
                skipped.pass_over(next, given);
                model.pass_over(next, given);
                next = given + NUMBER_STEP;
                let late = side + NUMBER_STEP * late.index((next / NUMBER_STEP) as usize) as u32;
                prop_assert_eq!(skipped.contains(late), model.0.contains(&late));
                prop_assert_eq!(skipped.remove(late), model.0.remove(&late));
                prop_assert_eq!(skipped.numbers as usize, model.0.len());
            }
        }
    }

    #[test]
    fn highest_number_does_not_overflow() {
        let mut skipped = Skipped::default();
        skipped.pass_over(1, u32::MAX);
        assert!(skipped.contains(u32::MAX - 2) && !skipped.contains(u32::MAX));
        assert!(skipped.remove(u32::MAX - 2) && !skipped.remove(u32::MAX - 2));
        assert!(skipped.remove(u32::MAX - 2 * MAX_SKIPPED) && !skipped.contains(1));
    }
}
