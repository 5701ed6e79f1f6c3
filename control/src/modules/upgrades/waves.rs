//! Waves of an upgrade: one cluster, then up to a tenth, a quarter, a half, and all.

/// Share of all clusters that is upgraded after each wave behind the first, in percent.
const SHARES_PERCENT: [usize; 4] = [10, 25, 50, 100];

/// Cuts a list into waves, in its order. No wave is empty.
pub(super) fn cut<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    let mut ends = vec![1];
    ends.extend(SHARES_PERCENT.map(|share| (all.len() * share).div_ceil(100)));
    let mut waves = Vec::new();
    let mut start = 0;
    for end in ends {
        let wave = all.get(start..end.min(all.len())).unwrap_or_default();
        if !wave.is_empty() {
            waves.push(wave.to_vec());
            start += wave.len();
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(count: usize) -> Vec<usize> {
        let all: Vec<usize> = (0..count).collect();
        let waves = cut(&all);
        assert_eq!(waves.concat(), all, "each cluster once, in order");
        waves.iter().map(Vec::len).collect()
    }

    #[test]
    fn waves_grow_from_one_cluster_to_all() {
        assert_eq!(sizes(30), [1, 2, 5, 7, 15]);
        assert_eq!(sizes(1000), [1, 99, 150, 250, 500]);
    }

    #[test]
    fn small_fleets_have_fewer_waves() {
        assert_eq!(sizes(0), [0; 0]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(2), [1, 1]);
        assert_eq!(sizes(5), [1, 1, 1, 2]);
    }
}
