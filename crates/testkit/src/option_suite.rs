//! What the options of every driver must do: print what they read, and take any text without a panic.

use std::collections::BTreeSet;

use xio_core::{Entry, OptionText, Options};

use crate::Random;

/// Mixes of options that the suite draws.
const ROUNDS: u64 = 500;

/// Options in many mixes of example values; mixes that contradict themselves are left out.
pub fn mixes<O: Options>() -> impl Iterator<Item = O> {
    (1..ROUNDS).filter_map(|seed| draw::<O>(&mut Random::new(seed), false).parse().ok())
}

/// Runs the suite.
///
/// # Panics
/// When an option breaks a rule.
pub fn run<O: Options>() {
    assert_eq!(O::default().to_string(), "", "defaults are not printed");
    let keys: Vec<_> = O::OPTIONS.iter().map(|opt| opt.name).collect();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "a key stands twice in {keys:?}");
    for opt in O::OPTIONS {
        assert!(
            !opt.about.is_empty() && !opt.takes.is_empty(),
            "{opt:?} is not described"
        );
        assert!(!opt.examples.is_empty(), "{} has no example", opt.name);
        for example in opt.examples {
            prints_what_it_reads::<O>(&text(&[(opt.name, (*example).to_owned())]), true);
        }
    }
    for seed in 1..ROUNDS {
        let mut random = Random::new(seed);
        prints_what_it_reads::<O>(&draw::<O>(&mut random, false), false);
        prints_what_it_reads::<O>(&draw::<O>(&mut random, true), false);
    }
}

/// Some of the options, with values that are examples, or like them.
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

/// The text with a character changed, added or removed.
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

fn prints_what_it_reads<O: Options>(text: &str, must: bool) {
    match text.parse::<O>() {
        Err(error) => assert!(!must, "{text}: {error}"),
        Ok(options) => {
            let printed = options.to_string();
            let again = printed.parse::<O>();
            let again =
                again.unwrap_or_else(|error| panic!("{text} is printed as {printed}: {error}"));
            assert_eq!(again, options, "{text} is printed as {printed}");
            // An entry of a stack string carries them too.
            let entry = Entry::new("x").and_then(|entry| entry.with_options(&printed));
            assert!(entry.is_ok(), "{printed} is no list of options");
        }
    }
}
