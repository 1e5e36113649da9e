//! `Sums`: sums over the groups of a file, from which two ends work out the groups that differ.
//!
//! The table is an invertible Bloom lookup table (Eppstein, Goodrich, Uyeda and Varghese, SIGCOMM
//! 2011) without counts. The number of a group chooses one cell of each quarter of the table, and
//! each cell holds two sums modulo a prime P: that of the residues `v` of the values of its groups, and
//! that of the products `v · number`. In the difference of the tables of two ends all groups with the
//! same value cancel, and a bad one leaves `d` and `d · number` in its four cells, where `d` is the
//! difference of its residues. A cell with one bad group so tells its number, as the quotient of
//! both sums; without that group in its other cells, further ones have a single group left.
//!
//! A quotient counts where it is below the number of groups and its group belongs into that cell. That
//! of a cell with several bad groups is random below P, so a wrong number passes this with a
//! probability of G / (256 · P) for G groups (2⁻⁵² for a TiB), and the set with it only if nothing is
//! left in any cell behind the last number.

use std::collections::BTreeSet;

use crate::Value;

/// The number of sums of a file.
pub const SUMS: usize = PARTS * CELLS;

/// The sums of a cell: two numbers of 8 bytes, most significant byte first.
pub type Sum = [u8; 16];

/// Parts of the table, in each of which a group has one cell. With four, two bad groups share all
/// their cells in one of 2³² cases, and about 740 bad groups fit; with three it is one of 2²⁵.
const PARTS: usize = 4;

/// Cells of a part, which a byte of a hash chooses.
const CELLS: usize = 1 << 8;

/// The largest prime below 2⁶⁴.
const P: u64 = u64::MAX - 58;

/// A table over any groups.
#[derive(Debug, Clone)]
pub(crate) struct Sums(Vec<Cell>);

/// The sums of some groups, both below [`P`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Cell {
    /// Of the residues of their values.
    values: u64,
    /// Of the products of residue and number.
    products: u64,
}

impl Sums {
    /// The table of groups by number.
    pub(crate) fn of(groups: impl IntoIterator<Item = (u64, Value)>) -> Self {
        let mut sums = Self(vec![Cell::default(); SUMS]);
        for (number, value) in groups {
            sums.add(number, &value);
        }
        sums
    }

    /// Adds a group, which counts once.
    pub(crate) fn add(&mut self, number: u64, value: &Value) {
        let [first @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *value;
        let residue = residue(u128::from_be_bytes(first));
        let group = Cell {
            values: residue,
            products: product(residue, number),
        };
        self.change(number, |cell| cell.plus(group));
    }

    /// Changes the cells of a group.
    fn change(&mut self, number: u64, change: impl Fn(Cell) -> Cell) {
        for place in places(number) {
            if let Some(cell) = self.0.get_mut(place) {
                *cell = change(*cell);
            }
        }
    }

    /// The table as it is told.
    pub(crate) fn to_bytes(&self) -> Vec<Sum> {
        let bytes = |cell: &Cell| {
            let both = (u128::from(cell.values) << 64) | u128::from(cell.products);
            both.to_be_bytes()
        };
        self.0.iter().map(bytes).collect()
    }
}

impl Cell {
    /// The cell that was told; a peer chooses its bytes.
    fn parse(sum: &Sum) -> Self {
        let both = u128::from_be_bytes(*sum);
        Self {
            values: residue(both >> 64),
            products: residue(both & u128::from(u64::MAX)),
        }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a, b| residue(u128::from(a) + u128::from(b));
        Self {
            values: sum(self.values, other.values),
            products: sum(self.products, other.products),
        }
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self {
            values: P - other.values,
            products: P - other.products,
        })
    }

    /// The number of the only group in it, if there is one.
    fn number(self) -> Option<u64> {
        (self.values > 0).then(|| product(self.products, inverse(self.values)))
    }
}

/// The numbers of the groups with other values `here` than `there`, of a file of so many `groups`;
/// the arguments are the [sums](crate::Tree::sums) of both copies.
///
/// About 700 of them are found. `None` where there are more, where one of them cannot be told from
/// another, and where the arguments are no sums of two such files.
pub fn differing_groups(here: &[Sum], there: &[Sum], groups: u64) -> Option<BTreeSet<u64>> {
    if [here.len(), there.len()] != [SUMS; 2] {
        return None;
    }
    let [here, there] = [here, there].map(|sums| sums.iter().map(Cell::parse));
    let mut rest = Sums(here.zip(there).map(|(a, b)| a.minus(b)).collect());
    let mut waiting: Vec<usize> = (0..SUMS).collect();
    let mut differing = BTreeSet::new();
    while let Some(place) = waiting.pop() {
        let cell = rest.0.get(place).copied().unwrap_or_default();
        let number = cell.number().filter(|number| *number < groups);
        let number = number.filter(|number| places(*number).contains(&place));
        let Some(number) = number else { continue };
        // A peer may tell a table that never becomes empty; that of a file names each group once.
        if !differing.insert(number) || differing.len() > SUMS {
            return None;
        }
        rest.change(number, |other| other.minus(cell));
        waiting.extend(places(number));
    }
    let is_empty = |cell: &Cell| *cell == Cell::default();
    rest.0.iter().all(is_empty).then_some(differing)
}

/// The cells of group `number`, one of each part.
fn places(number: u64) -> [usize; PARTS] {
    let [a, b, c, d, ..] = *blake3::hash(&number.to_be_bytes()).as_bytes();
    let [a, b, c, d] = [a, b, c, d].map(usize::from);
    [a, CELLS + b, 2 * CELLS + c, 3 * CELLS + d]
}

fn residue(number: u128) -> u64 {
    u64::try_from(number % u128::from(P)).unwrap_or_default()
}

fn product(a: u64, b: u64) -> u64 {
    residue(u128::from(a) * u128::from(b))
}

/// The number with which the product of `number`, which is not 0, is 1: its power of P - 2, by
/// Fermat's little theorem.
fn inverse(number: u64) -> u64 {
    let (mut power, mut inverse, mut exponent) = (number, 1, P - 2);
    while exponent > 0 {
        if exponent % 2 == 1 {
            inverse = product(inverse, power);
        }
        power = product(power, power);
        exponent /= 2;
    }
    inverse
}

#[cfg(test)]
mod tests;
