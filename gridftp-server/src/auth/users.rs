//! `Users`: the users file, one account a line, parsed whole or refused with the line at fault.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use gridftp_dsi::DsiPath;

use super::password::{BadHash, Hashed};

/// The accounts of a users file.
///
/// Each line is `name:hash[:ro|rw[:home]]`; blank lines and lines that begin with `#` are skipped.
/// With `*` in place of the hash no password logs in, only a certificate does.
#[derive(Debug, Clone, Default)]
pub struct Users {
    accounts: HashMap<Box<str>, Account>,
}

/// One account.
#[derive(Debug, Clone)]
pub struct Account {
    /// Hash of the password; `None` where none logs in.
    pub(crate) hash: Option<Hashed>,
    /// Whether it may write.
    pub(crate) may_write: bool,
    /// Initial directory of its sessions.
    pub(crate) home: DsiPath,
}

/// The fault of a users file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct BadUsers {
    line: usize,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("need name:hash[:ro|rw[:home]]")]
    Fields,
    #[error("the name is empty, or holds blanks or control characters")]
    Name,
    #[error("this name stands on an earlier line too")]
    Twice,
    #[error(transparent)]
    Hash(BadHash),
    #[error("access must be ro or rw")]
    Access,
    #[error("home must be an absolute path within the exported tree")]
    Home,
}

impl Users {
    /// Parses the text of a users file.
    ///
    /// # Errors
    /// [`BadUsers`] names the first line at fault; nothing of the file is used then.
    pub fn parse(text: &str) -> Result<Self, BadUsers> {
        let mut accounts = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |fault| BadUsers {
                line: index + 1,
                fault,
            };
            let (name, account) = account(line).map_err(bad)?;
            if accounts.insert(name.into(), account).is_some() {
                return Err(bad(Fault::Twice));
            }
        }
        Ok(Self { accounts })
    }

    /// The account of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// The names and their accounts, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.accounts
            .iter()
            .map(|(name, account)| (&**name, account))
    }

    /// Returns a hash to verify in vain for an unknown name, always the same one for a name.
    pub(crate) fn decoy(&self, name: &str) -> Option<&Hashed> {
        let hashes = || {
            self.accounts
                .values()
                .filter_map(|account| account.hash.as_ref())
        };
        let draw = self.accounts.hasher().hash_one(name) % (hashes().count().max(1) as u64);
        hashes().nth(usize::try_from(draw).ok()?)
    }

    /// Returns the number of accounts.
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Says whether there are none.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }
}

/// Says whether `name` may stand in a users file.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && !name.starts_with('#')
        && !name
            .chars()
            .any(|c| c == ':' || c.is_whitespace() || c.is_control())
}

fn account(line: &str) -> Result<(&str, Account), Fault> {
    let mut fields = line.splitn(4, ':');
    let (Some(name), Some(hash)) = (fields.next(), fields.next()) else {
        return Err(Fault::Fields);
    };
    if !is_name(name) {
        return Err(Fault::Name);
    }
    let hash = match hash.trim_end() {
        "*" => None,
        hash => Some(Hashed::parse(hash).map_err(Fault::Hash)?),
    };
    let may_write = match fields.next().map(str::trim_end) {
        None | Some("" | "rw") => true,
        Some("ro") => false,
        Some(_) => return Err(Fault::Access),
    };
    let home = fields
        .next()
        .map(str::trim_end)
        .filter(|home| !home.is_empty())
        .unwrap_or("/");
    let home = DsiPath::new(home.as_bytes()).ok_or(Fault::Home)?;
    Ok((
        name,
        Account {
            hash,
            may_write,
            home,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";

    #[test]
    fn accounts_have_access_and_home() {
        let text = format!("# staff\n\nann:{HASH}\nbob:{HASH}:ro:/data/bob\ncid:{HASH}:rw\n");
        let users = Users::parse(&text).unwrap();
        assert_eq!(users.len(), 3);
        let bob = users.get("bob").unwrap();
        assert!(!bob.may_write);
        assert_eq!(bob.home.as_bytes(), b"/data/bob");
        assert!(users.get("ann").unwrap().may_write);
        assert!(users.get("dan").is_none());
        assert!(users.decoy("dan").is_some());
        assert!(Users::default().decoy("dan").is_none());
    }

    #[test]
    fn the_line_at_fault_is_named() {
        for (text, wanted) in [
            ("ann".to_owned(), "line 1: need name:hash[:ro|rw[:home]]"),
            (
                format!("ann:{HASH}\nann:{HASH}"),
                "line 2: this name stands on an earlier line too",
            ),
            (
                format!("\n:{HASH}"),
                "line 2: the name is empty, or holds blanks or control characters",
            ),
            (format!("ann:{HASH}:rx"), "line 1: access must be ro or rw"),
            (
                format!("ann:{HASH}:rw:data"),
                "line 1: home must be an absolute path within the exported tree",
            ),
            (
                "ann:$6$x".to_owned(),
                "line 1: password hash is cut short or damaged",
            ),
        ] {
            assert_eq!(
                Users::parse(&text).unwrap_err().to_string(),
                wanted,
                "{text}"
            );
        }
    }

    /// Where accounts have hashes of several kinds, an unknown name costs as much as one of them,
    /// always the same.
    #[test]
    fn unknown_names_are_spread_over_the_kinds_of_hashes() {
        let yescrypt = "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$42RgPIrXdXSEEs77lDi/4IqKVqFBAVaHJkzw5uD1r57";
        let users = Users::parse(&format!("ann:{HASH}\nbob:{yescrypt}\n")).unwrap();
        let kinds: Vec<String> = (0..100)
            .map(|n| {
                let decoy = users.decoy(&n.to_string()).unwrap();
                assert_eq!(Some(decoy), users.decoy(&n.to_string()));
                format!("{decoy:?}")
            })
            .collect();
        assert!(kinds.iter().any(|kind| *kind != kinds[0]), "{kinds:?}");
    }
}
