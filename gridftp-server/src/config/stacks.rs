//! The drivers that clients may name in their stacks.

use xio::{Entry, Error, ErrorKind, Operation, Registry};

use super::BadConfig;

/// Drivers that are no data connection to the client: files, programs and other hosts; and the layer
/// with the credential of this process.
const NOT_FOR_PEERS: &[&str] = &[
    "file",
    "gridftp",
    "gsi",
    "multicast",
    "pipe",
    "popen",
    "unix",
];

/// Checks `net-stacks`.
pub(super) fn net(given: Option<&[String]>) -> Result<Vec<Entry>, BadConfig> {
    let check = |registry: &Registry, entry: &Entry| {
        known(registry, entry)?;
        match NOT_FOR_PEERS.contains(&entry.driver()) {
            true => Err(refused(entry, "no client may choose this driver")),
            // The server's own stack has these options.
            false if entry.driver() == "tcp" => builds(registry, entry),
            false => Ok(()),
        }
    };
    entries("net-stacks", given, "tcp", check)
}

/// Checks `disk-stacks`; `file` stands for the file itself.
pub(super) fn disk(given: Option<&[String]>) -> Result<Vec<Entry>, BadConfig> {
    let check = |registry: &Registry, entry: &Entry| {
        known(registry, entry)?;
        let base = registry.get(entry.driver()).is_some_and(|d| d.is_base());
        match (entry.driver(), base) {
            ("file", _) if entry.options().next().is_some() => {
                Err(refused(entry, "the file of a transfer takes no options"))
            }
            ("file", _) | (_, false) => Ok(()),
            _ => Err(refused(entry, "only layers stand over a file")),
        }
    };
    let mut entries = entries("disk-stacks", given, "file", check)?;
    if entries.iter().all(|entry| entry.driver() != "file") {
        entries.extend(Entry::new("file"));
    }
    Ok(entries)
}

fn entries(
    key: &'static str,
    given: Option<&[String]>,
    default: &str,
    check: impl Fn(&Registry, &Entry) -> Result<(), Error>,
) -> Result<Vec<Entry>, BadConfig> {
    let registry = xio::registry();
    let whole = given.map_or_else(|| default.to_owned(), |list| list.join(","));
    // An empty list allows nothing.
    let texts = whole.split(',').filter(|text| !text.trim().is_empty());
    let parsed = texts.map(|text| {
        let entry: Entry = text.trim().parse()?;
        check(&registry, &entry)?;
        Ok(entry)
    });
    parsed
        .collect::<Result<_, _>>()
        .map_err(|why| BadConfig::Stack { key, why })
}

fn known(registry: &Registry, entry: &Entry) -> Result<(), Error> {
    let Some(driver) = registry.get(entry.driver()) else {
        let names: Vec<_> = registry.drivers().map(|driver| driver.name()).collect();
        return Err(refused(
            entry,
            &format!("no such driver; this build has {}", names.join(", ")),
        ));
    };
    let has = |key: &str| driver.options().iter().any(|opt| opt.name == key);
    match entry.options().find(|(key, _)| !has(key)) {
        Some((key, _)) => Err(refused(entry, &format!("it has no option `{key}`"))),
        None => Ok(()),
    }
}

fn builds(registry: &Registry, entry: &Entry) -> Result<(), Error> {
    let mut own = registry.restrict(&[entry.driver()]);
    own.fix(entry.clone());
    own.stack(entry.driver()).map(drop)
}

fn refused(entry: &Entry, why: &str) -> Error {
    let driver = entry.driver().to_owned();
    Error::new(ErrorKind::BadPlan, driver, Operation::Plan, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;

    fn names(entries: &[Entry]) -> Vec<String> {
        entries.iter().map(ToString::to_string).collect()
    }

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn allowed_drivers_are_listed_with_the_servers_options() {
        assert_eq!(names(&net(None).unwrap()), ["tcp"]);
        assert_eq!(names(&disk(None).unwrap()), ["file"]);
        let given = list(&["tcp:nodelay=1", "count,log"]);
        assert_eq!(
            names(&net(Some(&given)).unwrap()),
            ["tcp:nodelay=1", "count", "log"]
        );
        let given = list(&["count"]);
        assert_eq!(names(&disk(Some(&given)).unwrap()), ["count", "file"]);
        assert!(net(Some(&[])).unwrap().is_empty());
    }

    #[test]
    fn drivers_that_no_client_may_use_cannot_be_allowed() {
        for (given, why) in [
            ("file", "net-stacks: file: plan: no client may choose"),
            ("tpc", "no such driver; this build has "),
            ("tcp:nodelya=1", "no option `nodelya`"),
            ("tcp:nodelay=perhaps", "nodelay"),
            ("tcp:", "after its colon"),
        ] {
            let error = chain(&net(Some(&list(&[given]))).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
        for (given, why) in [("tcp", "only layers"), ("file:flags=w", "takes no options")] {
            let error = chain(&disk(Some(&list(&[given]))).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
