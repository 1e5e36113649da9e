//! Paired ratios: their median with its interval, and the random order of variants in a turn.

/// A median and its 95 % confidence interval.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Median {
    /// The median.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Median {
    /// Returns the median ratio of values measured in the same turn.
    pub fn of(first: &[f64], second: &[f64]) -> Self {
        let mut ratios: Vec<f64> = first.iter().zip(second).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        // The median lies between the sorted values that are 0.98 times the square root of n places
        // from the middle one, for any distribution (binomial, 1.96 standard deviations).
        let middle = ratios.len() / 2;
        let mut reach = 0;
        while reach * reach * 25 < 24 * ratios.len() {
            reach += 1;
        }
        let last = ratios.len().saturating_sub(1);
        let at = |index: usize| ratios.get(index.min(last)).copied().unwrap_or(f64::NAN);
        Self {
            value: at(middle),
            low: at(middle.saturating_sub(reach)),
            high: at(middle + reach),
        }
    }

    /// Returns the difference from 1 in percent, with the interval.
    pub fn percent(&self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        format!(
            "{:+.1} ({:+.1} to {:+.1})",
            percent(self.value),
            percent(self.low),
            percent(self.high)
        )
    }
}

/// Random orders (xorshift), the same in every run.
#[derive(Debug)]
pub struct Shuffle(u64);

impl Default for Shuffle {
    fn default() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }
}

impl Shuffle {
    /// Returns the numbers below `N` in random order.
    pub fn shuffled<const N: usize>(&mut self) -> [usize; N] {
        let mut shuffled = std::array::from_fn(|at| at);
        for last in (1..N).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let other = usize::try_from(self.0 % (last as u64 + 1)).unwrap_or(0);
            shuffled.swap(last, other);
        }
        shuffled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_pairs_lies_in_its_interval() {
        let second: Vec<f64> = (1..=101).map(f64::from).collect();
        let first: Vec<f64> = second.iter().map(|x| x * (1.0 + x / 1000.0)).collect();
        let middle = Median::of(&first, &second);
        assert!((middle.value - 1.051).abs() < 1e-9, "{middle:?}");
        // Ten places from the middle one to either side.
        assert!((middle.low - 1.041).abs() < 1e-9, "{middle:?}");
        assert!((middle.high - 1.061).abs() < 1e-9, "{middle:?}");
        assert_eq!(middle.percent(), "+5.1 (+4.1 to +6.1)");
    }

    #[test]
    fn a_random_order_is_complete() {
        let mut lot = Shuffle::default();
        for _ in 0..100 {
            let mut shuffled = lot.shuffled::<7>();
            shuffled.sort_unstable();
            assert_eq!(shuffled, [0, 1, 2, 3, 4, 5, 6]);
        }
    }
}
