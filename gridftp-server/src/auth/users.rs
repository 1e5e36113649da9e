//! `Users`: the users file, one account a line, parsed whole or refused with the line at fault.

use std::collections::HashMap;
use std::fmt;

use gridftp_dsi::DsiPath;

use super::password::{BadHash, Hashed};

/// The accounts that a users file names.
///
/// Each line is `name:hash[:ro|rw[:home]]`; blank lines and lines that begin with `#` are skipped.
#[derive(Debug, Clone, Default)]
pub struct Users {
    accounts: HashMap<Box<str>, Account>,
}

/// One account.
#[derive(Debug, Clone)]
pub struct Account {
    /// What its password must hash to.
    pub(crate) hash: Hashed,
    /// Whether it may change anything.
    pub(crate) may_write: bool,
    /// Where its sessions start.
    pub(crate) home: DsiPath,
}

/// What is wrong with a users file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadUsers {
    line: usize,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Fields,
    Name,
    Twice,
    Hash(BadHash),
    Access,
    Home,
}

impl fmt::Display for BadUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.fault {
            Fault::Fields => f.write_str("need name:hash[:ro|rw[:home]]"),
            Fault::Name => f.write_str("the name is empty, or holds blanks or control characters"),
            Fault::Twice => f.write_str("this name stands on an earlier line too"),
            Fault::Hash(bad) => bad.fmt(f),
            Fault::Access => f.write_str("access must be ro or rw"),
            Fault::Home => f.write_str("home must be an absolute path within the exported tree"),
        }
    }
}

impl std::error::Error for BadUsers {}

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

    /// A hash to spend the same time on when there is no such account.
    pub(crate) fn decoy(&self) -> Option<&Hashed> {
        self.accounts.values().map(|account| &account.hash).next()
    }

    /// How many accounts there are.
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Says whether there is none.
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
    let hash = Hashed::parse(hash.trim_end()).map_err(Fault::Hash)?;
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
        assert!(users.decoy().is_some());
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
}
