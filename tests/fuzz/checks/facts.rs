//! Listing lines round-trip and stay on one line.

use ftp_wire::facts::{Entry, FactSet, TimeVal, wire_name};

/// `data` is one line of a listing.
pub(crate) fn check(data: &[u8]) {
    let _ = FactSet::parse(data);
    if let Some(time) = TimeVal::parse(data) {
        assert_eq!(TimeVal::parse(time.to_string().as_bytes()), Some(time));
    }
    let Ok((mut entry, found)) = Entry::parse(data) else {
        return;
    };
    let mut line = Vec::new();
    entry.write_facts(found, &mut line);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    // A line cannot carry every name, and carries times in milliseconds.
    let name = wire_name(&entry.name).into_owned();
    if name != entry.name {
        entry.error.get_or_insert_with(|| "InvalidName".to_owned());
        entry.name = name;
    }
    entry.modified = entry.modified.to_millis();
    assert_eq!(Entry::parse(&line), Ok((entry.clone(), found)));
    line.clear();
    entry.write_long(TimeVal::new(0, 0), &mut line);
    assert!(!line.iter().any(u8::is_ascii_control));
}
