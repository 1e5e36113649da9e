//! Syntax of stack strings: printing and parsing round-trip, and invalid strings are errors.

use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};
use xio_core::{Entry, ErrorKind, OptionText, Plan};

fn entry() -> impl Strategy<Value = Entry> {
    let key = "[a-z][a-z0-9_]{0,8}";
    let options = prop::collection::btree_map(key, any::<String>(), 0..5);
    (key, options).prop_map(|(driver, options)| {
        let text = options
            .iter()
            .fold(OptionText::new(), |text, (key, value)| {
                text.add(key, Some(value))
            });
        Entry::new(&driver)
            .unwrap()
            .with_options(&text.to_string())
            .unwrap()
    })
}

proptest! {
    #[test]
    fn display_round_trips(entries in prop::collection::vec(entry(), 1..8)) {
        let text = entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if text.len() <= 4096 {
            let plan: Plan = text.parse().unwrap();
            prop_assert_eq!(plan.entries(), &entries[..]);
            prop_assert_eq!(plan.to_string(), text);
        }
    }

    #[test]
    fn any_text_is_a_plan_or_an_error(text in "[a-z:;,=%0-9A-F ]{0,40}") {
        if let Ok(plan) = text.parse::<Plan>() {
            prop_assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
        }
    }

    #[test]
    fn any_string_parses_without_a_panic(text in any::<String>()) {
        let _ = text.parse::<Plan>();
    }
}

#[test]
fn values_are_decoded() {
    let plan: Plan = "tcp:listen_range=50000%2C51000;cc=a%3Bb,count"
        .parse()
        .unwrap();
    let options: Vec<_> = plan.entries()[0].options().collect();
    assert_eq!(options, [("listen_range", "50000,51000"), ("cc", "a;b")]);
    assert_eq!(plan.entries()[1].driver(), "count");
}

#[test]
fn invalid_plans_are_refused() {
    for (text, kind) in [
        ("", ErrorKind::BadPlan),
        (",", ErrorKind::BadPlan),
        ("tcp,", ErrorKind::BadPlan),
        ("tcp, count", ErrorKind::BadPlan),
        ("TCP", ErrorKind::BadPlan),
        ("tcp:", ErrorKind::BadPlan),
        ("tcp:a", ErrorKind::BadOption),
        ("tcp:a=1;", ErrorKind::BadOption),
        ("tcp:a=1;a=2", ErrorKind::BadOption),
        ("tcp:a=%2", ErrorKind::BadOption),
        ("tcp:a=%ff", ErrorKind::BadOption),
        ("tcp:=1", ErrorKind::BadOption),
        ("tcp\0", ErrorKind::BadPlan),
    ] {
        let error = text.parse::<Plan>().unwrap_err();
        assert_eq!(error.kind(), kind, "{text:?}");
    }
}

#[test]
fn the_length_of_a_plan_is_bounded() {
    let deep = vec!["tcp"; 17].join(",");
    assert!(
        deep.parse::<Plan>()
            .unwrap_err()
            .to_string()
            .contains("more than 16 layers")
    );
    let long = format!("tcp:a={}", "x".repeat(5000));
    assert!(
        long.parse::<Plan>()
            .unwrap_err()
            .to_string()
            .contains("longer than 4096 bytes")
    );
}

#[test]
fn errors_contain_no_control_characters() {
    for text in [
        "a\r\nb",
        "tcp:\r\n",
        "tcp:\u{1b}[31m=1",
        "tcp:a=%\r\n",
        "tcp\n:",
        "tcp:a=1;a\n",
    ] {
        let error = text.parse::<Plan>().unwrap_err().to_string();
        assert!(!error.chars().any(char::is_control), "{error:?}");
    }
}
