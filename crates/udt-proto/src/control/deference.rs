//! `Deference`: whether to leave room to others, as far as that does any good.
//!
//! A flow that understands loss gives way itself, and then the queue loses nothing for many rounds; of
//! several of them one loses soon again, but what we yield to one is there to be had back from the next.
//! Where the queue goes on losing and our rate only falls, the other heeds no loss, as BBR does, and
//! yielding starves us. Then we stand firm for a while, and try again after that.

/// The next yield is due so soon after the last that it has not helped, in rounds.
const SOON: u32 = 12;
/// So many yields one soon after the other are in vain. Beside one flow that understands loss there are up to four.
const VAIN: u32 = 6;
/// What those leave, at most, of our rate where nothing of it is had back.
const STARVED: f64 = 0.7;
/// Rounds for which we stand firm.
const FIRM: u32 = 100;

/// State of it, by rounds.
#[derive(Debug, Default)]
pub(super) struct Deference {
    /// Whether the last round made us yield.
    yielded: bool,
    /// Rounds since a yield was due, and how many were so one soon after the other.
    since: u32,
    vain: u32,
    /// The largest rate since the first of those was due.
    had: f64,
    /// Rounds for which we stand firm yet.
    firm: u32,
}

impl Deference {
    /// Whether it does any good to leave room.
    pub(super) fn is_due(&self) -> bool {
        self.firm == 0
    }

    /// Whether to yield after a round at a rate, which may have lost packets in a queue; not twice for the same queue.
    pub(super) fn on_round(&mut self, is_crowded: bool, rate: f64) -> bool {
        self.firm = self.firm.saturating_sub(1);
        self.since = self.since.saturating_add(1);
        self.yielded = is_crowded && self.is_due() && !self.yielded;
        if self.yielded {
            if self.since > SOON {
                self.vain = 0;
                self.had = rate;
            }
            self.had = self.had.max(rate);
            self.vain += 1;
            self.since = 0;
            if self.vain >= VAIN && rate <= STARVED * self.had {
                self.vain = 0;
                self.firm = FIRM;
            }
        }
        self.yielded && self.is_due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it yields in so many rounds, of which every so-many-th loses packets in a queue, where
    /// so much is left of the rate after each time.
    fn yields(deference: &mut Deference, rounds: u32, every: u32, left: f64) -> usize {
        let mut rate = 1000.0;
        let round = |n: &u32| {
            let yields = deference.on_round(n.is_multiple_of(every), rate);
            rate *= if yields { left } else { 1.0 };
            yields
        };
        (1..=rounds).filter(round).count()
    }

    #[test]
    fn it_goes_on_where_it_helps() {
        let mut deference = Deference::default();
        assert_eq!(yields(&mut deference, 1300, SOON + 1, 0.85), 100);
    }

    #[test]
    fn it_goes_on_where_what_is_yielded_is_had_back() {
        let mut deference = Deference::default();
        assert_eq!(yields(&mut deference, 1200, SOON, 1.0), 100);
    }

    #[test]
    fn it_ends_where_it_does_not_help_and_is_tried_again() {
        for every in [2, 3, SOON] {
            let mut deference = Deference::default();
            let mut yields = |rounds| yields(&mut deference, rounds, every, 0.85);
            assert_eq!(yields(VAIN * every), VAIN as usize - 1, "every {every}");
            assert_eq!(yields(FIRM - 1), 0, "every {every}");
            assert!(yields(2 * every) > 0, "every {every}");
        }
    }
}
