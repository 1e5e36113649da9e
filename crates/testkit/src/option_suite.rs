//! Requirements on the options of every driver: printing round-trips, and no text causes a panic.

use std::collections::BTreeSet;

use xio_core::{Entry, OptionText, Options};

use crate::Random;

/// Number of random combinations of options.
const ROUNDS: u64 = 500;

/// Returns random combinations of example values, without the conflicting ones.
pub fn mixes<O: Options>() -> impl Iterator<Item = O> {
    (1..ROUNDS).filter_map(|seed| draw::<O>(&mut Random::new(seed), false).parse().ok())
}

/// Runs the suite.
///
/// # Panics
/// When an option violates a requirement.
pub fn run<O: Options>() {
    assert_eq!(O::default().to_string(), "", "defaults are not printed");
    let keys: Vec<_> = O::OPTIONS.iter().map(|opt| opt.name).collect();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "a key occurs twice in {keys:?}");
    for opt in O::OPTIONS {
        assert!(
            !opt.about.is_empty() && !opt.takes.is_empty(),
            "{opt:?} is not described"
        );
        assert!(!opt.examples.is_empty(), "{} has no example", opt.name);
        for example in opt.examples {
            check_round_trip::<O>(&text(&[(opt.name, (*example).to_owned())]), true);
        }
    }
    for seed in 1..ROUNDS {
        let mut random = Random::new(seed);
        check_round_trip::<O>(&draw::<O>(&mut random, false), false);
        check_round_trip::<O>(&draw::<O>(&mut random, true), false);
    }
}

/// Returns the text of some options with example values, which are garbled on request.
fn draw<O: Options>(random: &mut Random, garbled: bool) -> String {
    let mut pairs = Vec::new();
    for opt in O::OPTIONS {
        let Some(example) = random.pick(opt.examples).filter(|_| random.percent(50)) else {
            continue;
        };
        let value = if garbled {
            garble(example, random)
        } else {
            example.to_owned()
        };
        pairs.push((opt.name, value));
    }
    text(&pairs)
}

/// Returns the text with some characters changed, added or removed.
fn garble(text: &str, random: &mut Random) -> String {
    const STRANGE: [char; 16] = [
        '#',
        '|',
        ';',
        ',',
        '%',
        '=',
        ':',
        '0',
        '9',
        '-',
        '.',
        ' ',
        'k',
        '\n',
        'é',
        '\u{10ffff}',
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.up_to(3) {
        let at = random.up_to(chars.len() + 1) - 1;
        let strange = random.pick(&STRANGE).unwrap_or_default();
        match (random.up_to(3), chars.get_mut(at)) {
            (1, Some(character)) => *character = strange,
            (2, Some(_)) => drop(chars.remove(at)),
            _ => chars.insert(at, strange),
        }
    }
    chars.into_iter().collect()
}

fn text(pairs: &[(&str, String)]) -> String {
    let text = pairs.iter().fold(OptionText::new(), |text, (key, value)| {
        text.add(key, Some(value))
    });
    text.to_string()
}

fn check_round_trip<O: Options>(text: &str, must: bool) {
    match text.parse::<O>() {
        Err(error) => assert!(!must, "{text}: {error}"),
        Ok(options) => {
            let printed = options.to_string();
            let again = printed.parse::<O>();
            let again =
                again.unwrap_or_else(|error| panic!("{text} is printed as {printed}: {error}"));
            assert_eq!(again, options, "{text} is printed as {printed}");
            // An entry of a stack string accepts them too.
            let entry = Entry::new("x").and_then(|entry| entry.with_options(&printed));
            assert!(entry.is_ok(), "{printed} is not a list of options");
        }
    }
}
