//! Paired ratios: their median with its interval, and the lots that put pairs into turns.

/// A median and the interval that holds it with 95 %.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Middle {
    /// The median.
    pub value: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl Middle {
    /// Returns the median of the ratios of what was measured in the same turn.
    pub fn of(these: &[f64], those: &[f64]) -> Self {
        let mut ratios: Vec<f64> = these.iter().zip(those).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        // Of n values in order, the median lies between the two that are 0.98 times the square root
        // of n places from the middle one, whatever their distribution (binomial, 1.96 standard deviations).
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

    /// Says how much more than 1 it is, in percent.
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

/// Draws lots (xorshift); the same in every run.
#[derive(Debug)]
pub struct Lot(u64);

impl Default for Lot {
    fn default() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }
}

impl Lot {
    /// Returns all numbers below `N` in an order by lot.
    pub fn order<const N: usize>(&mut self) -> [usize; N] {
        let mut order = std::array::from_fn(|at| at);
        for last in (1..N).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let other = usize::try_from(self.0 % (last as u64 + 1)).unwrap_or(0);
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_pairs_lies_in_its_interval() {
        let those: Vec<f64> = (1..=101).map(f64::from).collect();
        let these: Vec<f64> = those.iter().map(|x| x * (1.0 + x / 1000.0)).collect();
        let middle = Middle::of(&these, &those);
        assert!((middle.value - 1.051).abs() < 1e-9, "{middle:?}");
        // Ten places from the middle one to either side.
        assert!((middle.low - 1.041).abs() < 1e-9, "{middle:?}");
        assert!((middle.high - 1.061).abs() < 1e-9, "{middle:?}");
        assert_eq!(middle.percent(), "+5.1 (+4.1 to +6.1)");
    }

    #[test]
    fn lots_leave_nobody_out() {
        let mut lot = Lot::default();
        for _ in 0..100 {
            let mut order = lot.order::<7>();
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
        }
    }
}
