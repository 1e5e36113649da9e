//! Partial files as peers tell them: the lists of all, merged by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gridftp_dsi::types::MAX_PARTIALS;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Partial, Result};

use crate::peers::Peer;
use crate::proto;

impl From<Partial> for proto::Partial {
    fn from(partial: Partial) -> Self {
        Self {
            name: partial.name,
            held: partial.held,
            size: partial.size,
            modified: Some(partial.modified.into()),
            in_use: partial.in_use,
        }
    }
}

/// The partial file of a message; `None` for a name that is not one of `dir` or below it.
fn partial(told: proto::Partial, dir: &DsiPath) -> Option<Partial> {
    let at = DsiPath::new(&[dir.as_bytes(), b"/", told.name.as_slice()].concat())?;
    let name = at.below(dir)?.as_bytes().get(1..).map(<[u8]>::to_vec)?;
    if name.is_empty() || name != told.name {
        return None;
    }
    let mut partial = Partial::new(name);
    (partial.held, partial.size) = (told.held, told.size);
    partial.modified = told.modified.unwrap_or_default().pair();
    partial.in_use = told.in_use;
    Some(partial)
}

/// The partial files of a directory, of all peers that have answered.
#[derive(Debug, Default)]
struct Merged {
    found: BTreeMap<Vec<u8>, Partial>,
    is_cut: bool,
}

impl Merged {
    fn add(&mut self, list: proto::PartialList, dir: &DsiPath) {
        self.is_cut |= list.more || list.partials.len() > MAX_PARTIALS;
        let told = list.partials.into_iter().take(MAX_PARTIALS);
        for one in told.filter_map(|told| partial(told, dir)) {
            match self.found.entry(one.name.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(one);
                }
                // The same file, which may have grown between the answers.
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    known.held = known.held.max(one.held);
                    known.size = known.size.or(one.size);
                    known.modified = known.modified.max(one.modified);
                    known.in_use |= one.in_use;
                }
            }
        }
    }

    /// At most [`MAX_PARTIALS`] in order of their names, and whether there are others.
    fn bounded(self) -> (Vec<Partial>, bool) {
        let is_cut = self.is_cut || self.found.len() > MAX_PARTIALS;
        let found = self.found.into_values().take(MAX_PARTIALS);
        (found.collect(), is_cut)
    }
}

/// The partial files of `dir`, by the answers of all peers. One that fails, or that is older than the
/// call, tells none: the list is cut then, and the log names it.
///
/// # Errors
/// That of a peer, if none has answered and not all are older.
pub(crate) fn merged(
    answers: Vec<(Peer, Result<proto::PartialList>)>,
    dir: &DsiPath,
) -> Result<(Vec<Partial>, bool)> {
    let (mut all, mut is_answered) = (Merged::default(), false);
    let mut failed: Vec<(Peer, Error)> = Vec::new();
    for (peer, answer) in answers {
        match answer {
            Ok(list) => {
                is_answered = true;
                all.add(list, dir);
            }
            Err(error) => failed.push((peer, error)),
        }
    }
    let is_told = |(_, error): &(Peer, Error)| error.kind() != ErrorKind::Unsupported;
    if !is_answered && let Some(first) = failed.iter().position(is_told) {
        return Err(failed.swap_remove(first).1);
    }
    all.is_cut |= is_answered && !failed.is_empty();
    for (peer, error) in &failed {
        let peer = peer.name();
        tracing::warn!(peer, %error, "the partial files that a peer keeps are not listed");
    }
    Ok(all.bounded())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, held: u64) -> proto::Partial {
        let mut partial = Partial::new(name);
        partial.held = held;
        partial.into()
    }

    fn list(partials: Vec<proto::Partial>) -> proto::PartialList {
        let more = false;
        proto::PartialList { partials, more }
    }

    fn dir() -> DsiPath {
        DsiPath::new(b"/d").unwrap()
    }

    #[test]
    fn lists_are_merged_by_name() {
        let mut later = told("b", 9);
        (later.size, later.in_use) = (Some(20), true);
        let mut all = Merged::default();
        all.add(list(vec![later, told("e/f", 1)]), &dir());
        all.add(list(vec![told("a", 2), told("b", 7)]), &dir());
        let (found, is_cut) = all.bounded();
        let facts: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_slice(), one.held, one.size, one.in_use))
            .collect();
        let expected: [(&[u8], _, _, _); 3] = [
            (b"a", 2, None, false),
            (b"b", 9, Some(20), true),
            (b"e/f", 1, None, false),
        ];
        assert_eq!(facts, expected);
        assert!(!is_cut);
    }

    #[test]
    fn a_name_is_one_below_the_directory() {
        for at in [dir(), DsiPath::root()] {
            for name in ["", "/", ".", "..", "../x", "a/../../x", "/a", "a/", "a//b"] {
                assert_eq!(partial(told(name, 1), &at), None, "{name}");
            }
            assert!(partial(told("a/b", 1), &at).is_some());
        }
    }

    #[test]
    fn a_merged_list_is_bounded() {
        let of = |lists: &[(usize, bool)]| {
            let mut all = Merged::default();
            for (number, (count, more)) in lists.iter().enumerate() {
                let names = (0..*count).map(|n| told(&format!("{number}/{n}"), 1));
                let partials = names.collect();
                let more = *more;
                all.add(proto::PartialList { partials, more }, &dir());
            }
            let (found, is_cut) = all.bounded();
            (found.len(), is_cut)
        };
        assert_eq!(of(&[(MAX_PARTIALS, false)]), (MAX_PARTIALS, false));
        assert_eq!(of(&[(MAX_PARTIALS + 1, false)]), (MAX_PARTIALS, true));
        assert_eq!(
            of(&[(MAX_PARTIALS, false), (1, false)]),
            (MAX_PARTIALS, true)
        );
        assert_eq!(of(&[(1, true), (1, false)]), (2, true));
    }
}
