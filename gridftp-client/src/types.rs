//! Types of other crates that stand in signatures here.

pub use bytes::Bytes;
pub use ftp_proto::client::FailureKind;
pub use ftp_wire::command::{Mode, Secret};
pub use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet, TimeVal};
pub use ftp_wire::memory::MemoryLimits;
pub use ftp_wire::reply::Reply;
pub use gridftp_data::{Error as DataError, ErrorKind as DataErrorKind};
pub use gridftp_dsi::types::ChecksumAlgorithm;
pub use gsi::credential::CredentialError;
pub use gsi::finding::{Finding, Verdict};
pub use tokio::sync::mpsc::Receiver;
pub use xio_core::{Error as TransportError, ErrorKind as TransportErrorKind, PathStats};

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    const MANIFEST: &str = include_str!("../Cargo.toml");

    /// A crate, and the name of an item in it.
    type Item = (String, String);

    /// The texts of the files below `dir`, without those of the programs and without tests.
    fn sources(dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let is_ours = !path.ends_with("src/bin") && !path.ends_with("src/program");
            if path.is_dir() && is_ours {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let (text, _) = text
                    .split_once("\n#[cfg(test)]\nmod tests {")
                    .unwrap_or((&text, ""));
                found.push(format!("\n{text}"));
            }
        }
    }

    fn paths(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let words = words.map(|word| word.trim_matches(':'));
        words.filter(|word| !word.is_empty())
    }

    fn last(path: &str) -> &str {
        path.rsplit("::").next().unwrap_or(path)
    }

    /// The items that statements beginning with `begin` import, by their names here.
    fn imports(text: &str, begin: &str) -> Vec<(String, Item)> {
        let mut found = Vec::new();
        for statement in text.split(begin).skip(1) {
            let statement = statement.split(';').next().unwrap();
            let of = statement.split("::").next().unwrap();
            let (_, list) = statement.split_once('{').unwrap_or(("", statement));
            let mut words = paths(list).peekable();
            while let Some(word) = words.next() {
                let renamed = words.next_if_eq(&"as").and_then(|_| words.next());
                let item = (of.to_owned(), last(word).to_owned());
                found.push((renamed.unwrap_or_else(|| last(word)).to_owned(), item));
            }
        }
        found
    }

    /// The public declarations of a file, without comments.
    fn declarations(text: &str) -> String {
        let mut found = String::new();
        let mut lines = text.lines();
        while let Some(mut line) = lines.next() {
            let Some(declared) = line.trim_start().strip_prefix("pub ") else {
                continue;
            };
            let kind = declared.split(' ').next();
            let is_end = |line: &str| match kind {
                Some("enum" | "trait") => line == "}",
                Some("fn" | "async" | "const") => line.ends_with(['{', '}', ';']),
                _ => true,
            };
            if kind == Some("use") {
                continue;
            }
            loop {
                if !line.trim_start().starts_with("//") {
                    found.push_str(line);
                    found.push('\n');
                }
                if is_end(line) {
                    break;
                }
                line = lines.next().unwrap();
            }
        }
        found
    }

    #[test]
    fn types_of_other_crates_in_signatures_are_exported() {
        let (_, rest) = MANIFEST.split_once("\n[dependencies]\n").unwrap();
        let (list, _) = rest.split_once("\n\n").unwrap();
        let names = list
            .lines()
            .filter_map(|line| line.split(['.', ' ']).next());
        let mut others: BTreeSet<_> = names.map(|name| name.replace('-', "_")).collect();
        // The name of the library in grid-security.
        others.insert("gsi".to_owned());
        let mut texts = Vec::new();
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut texts,
        );
        let exported: BTreeSet<Item> = texts
            .iter()
            .flat_map(|text| imports(text, "\npub use "))
            .map(|(_, item)| item)
            .collect();
        let (mut seen, mut missing) = (0, BTreeSet::new());
        for text in &texts {
            let here: BTreeMap<_, _> = imports(text, "\nuse ").into_iter().collect();
            for path in paths(&declarations(text)) {
                let (first, is_path) = match path.split_once("::") {
                    Some((first, _)) => (first, true),
                    None => (path, false),
                };
                let item = match here.get(first) {
                    Some((of, _)) if is_path => (of.clone(), last(path).to_owned()),
                    Some(item) if first.starts_with(char::is_uppercase) => item.clone(),
                    None if is_path => (first.to_owned(), last(path).to_owned()),
                    _ => continue,
                };
                if others.contains(&item.0) {
                    seen += 1;
                    if !exported.contains(&item) {
                        missing.insert(item);
                    }
                }
            }
        }
        assert!(seen > 50, "{seen}");
        assert!(missing.is_empty(), "{missing:?}");
    }
}
