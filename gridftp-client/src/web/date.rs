//! Dates of HTTP (RFC 9110 §5.6.7), in the one form that is written today.

use ftp_wire::facts::TimeVal;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, in seconds since 1970.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once(", ")?;
    let words: Vec<_> = rest.splitn(6, ' ').collect();
    let [day, month, year, time, "GMT"] = *words else {
        return None;
    };
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    let time = time.split(':').collect::<Vec<_>>().concat();
    let fits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    if !fits(day, 2) || !fits(year, 4) || !fits(&time, 6) {
        return None;
    }
    let text = format!("{year}{month:02}{day}{time}");
    Some(TimeVal::parse(text.as_bytes())?.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_or_are_none() {
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for text in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov +994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
