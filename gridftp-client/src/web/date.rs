//! Dates of HTTP (RFC 9110 §5.6.7), in the form that is written today and in the two before it.

use std::time::{SystemTime, UNIX_EPOCH};

use ftp_wire::facts::TimeVal;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Seconds of a year, on average.
const YEAR: i64 = 31_556_952;

/// The time of this machine, in seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// Reads a date, in seconds since 1970.
pub(super) fn parse(text: &str) -> Option<i64> {
    parse_at(text, now())
}

/// Reads a date, whose year may have two digits, at the time `now`.
fn parse_at(text: &str, now: i64) -> Option<i64> {
    // A day below 10 has a blank for a digit in the form of `asctime`.
    let text = text.replacen("  ", " 0", 1);
    let [day, month, year, time] = parts(&text)?;
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    let time = time.split(':').collect::<Vec<_>>().concat();
    let fits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    if !fits(day, 2) || !(fits(year, 2) || fits(year, 4)) || !fits(&time, 6) {
        return None;
    }
    let mut whole: i64 = year.parse().ok()?;
    if year.len() == 2 {
        // RFC 9110 §5.6.7: it is at most 50 years in the future.
        let last = 1970 + now / YEAR + 50;
        whole = last - (last - whole).rem_euclid(100);
    }
    let text = format!("{whole:04}{month:02}{day}{time}");
    Some(TimeVal::parse(text.as_bytes())?.seconds)
}

/// Day, month, year and time of day.
fn parts(text: &str) -> Option<[&str; 4]> {
    let words: Vec<_> = text.splitn(7, ' ').collect();
    match *words {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [name, day, month, year, time, "GMT"] if name.ends_with(',') => {
            Some([day, month, year, time])
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        [name, date, time, "GMT"] if name.ends_with(',') => {
            let (day, rest) = date.split_once('-')?;
            let (month, year) = rest.split_once('-')?;
            Some([day, month, year, time])
        }
        // Sun Nov 06 08:49:37 1994
        [_, month, day, time, year] => Some([day, month, year, time]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of 2026-07-01.
    const NOW: i64 = 1_782_907_200;

    #[test]
    fn dates_of_each_form_are_read_or_are_none() {
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Wed Jul 15 00:00:00 1970", 195 * 86_400),
        ] {
            assert_eq!(parse_at(text, NOW), Some(seconds), "{text}");
        }
        for text in [
            "",
            "120",
            "Sunday, 06-Nov 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 CET",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov +994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
        ] {
            assert_eq!(parse_at(text, NOW), None, "{text}");
        }
    }

    // RFC 9110 §5.6.7: a date more than 50 years in the future is of the past.
    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
        for (year, whole) in [(26, 2026), (27, 2027), (76, 2076), (77, 1977), (99, 1999)] {
            let short = format!("Friday, 01-Jan-{year} 00:00:00 GMT");
            let long = format!("Fri, 01 Jan {whole} 00:00:00 GMT");
            assert_eq!(parse_at(&short, NOW), parse_at(&long, NOW), "{year}");
            assert!(parse_at(&short, NOW).is_some(), "{year}");
        }
    }
}
