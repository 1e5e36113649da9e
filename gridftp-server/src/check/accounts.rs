//! The accounts: the users file, its permissions, home directories, and the process's own user.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gsi::finding::Finding;

use super::{Site, mode};
use crate::auth::{Account, Users};
use crate::config::Access;

const TOPIC: &str = "accounts";

/// Most lines about accounts of one kind.
const MANY: usize = 20;

impl Site<'_> {
    /// The accounts of the users file; none where it cannot be read.
    pub(super) fn users(&self) -> Users {
        let text = self
            .options
            .users
            .as_ref()
            .and_then(|path| fs::read_to_string(path).ok());
        let users = text.and_then(|text| Users::parse(&text).ok());
        users.unwrap_or_default()
    }

    /// Says whether anybody may write.
    pub(super) fn has_writers(&self, users: &Users) -> bool {
        self.options.anonymous == Some(Access::Rw)
            || self.has_grid()
            || users.iter().any(|(_, account)| account.may_write)
    }

    pub(super) fn accounts(&mut self, users: &Users) {
        if let Some(path) = self.options.users.clone() {
            match fs::read_to_string(&path).map_err(|error| error.to_string()) {
                Ok(text) => self.users_file(&path, &text),
                Err(error) => {
                    let fact = format!("{}: {error}", path.display());
                    let remedy = "make it with `gridftp-server passwd NAME --users FILE`";
                    self.add(Finding::fail(TOPIC, fact, remedy));
                }
            }
        }
        if let Some(access) = self.options.anonymous {
            self.add(anonymous(
                access,
                self.options.bind.is_some_and(|ip| ip.is_loopback()),
            ));
        }
        let anybody = self.options.users.is_some() || self.options.anonymous.is_some();
        if !anybody && !self.has_grid() {
            let fact = "nobody can log in";
            let remedy = "name accounts by --users, a credential of the host by --host-cert, or \
                          allow --anonymous ro";
            self.add(Finding::fail(TOPIC, fact, remedy));
        }
        self.homes(users);
        if nix::unistd::geteuid().is_root() {
            let fact = "the server runs as root: files are read and written as root";
            self.add(Finding::warn(TOPIC, fact, "start it as a user of its own"));
        }
    }

    fn users_file(&mut self, path: &Path, text: &str) {
        let shown = path.display();
        match Users::parse(text) {
            Ok(users) => self.add(counted(&shown.to_string(), &users)),
            Err(error) => {
                let fact = format!("{shown}: {error}");
                let remedy = "correct the line; `gridftp-server passwd NAME` prints a good one";
                self.add(Finding::fail(TOPIC, fact, remedy));
            }
        }
        if let Some(finding) = mode(path).and_then(|mode| permissions(&shown.to_string(), mode)) {
            self.add(finding);
        }
    }

    /// Warns of home directories that are not there.
    fn homes(&mut self, users: &Users) {
        let Some(root) = self.options.root.clone().filter(|root| root.is_dir()) else {
            return;
        };
        let mut missing: Vec<_> = users
            .iter()
            .filter(|(_, account)| !has_home(&root, account))
            .collect();
        missing.sort_by_key(|(name, _)| *name);
        for (name, account) in missing.into_iter().take(MANY) {
            let home = String::from_utf8_lossy(account.home.as_bytes());
            let fact = format!("{name}: the home directory {home} is not in the tree");
            let remedy = "make it, or correct the line of the users file";
            self.add(Finding::warn(TOPIC, fact, remedy));
        }
    }
}

fn has_home(root: &Path, account: &Account) -> bool {
    let below = account.home.as_bytes();
    let below = below.strip_prefix(b"/").unwrap_or(below);
    root.join(std::ffi::OsStr::from_bytes(below)).is_dir()
}

fn counted(file: &str, users: &Users) -> Finding {
    if users.is_empty() {
        let remedy = "add lines with `gridftp-server passwd NAME --users FILE`";
        return Finding::warn(TOPIC, format!("{file}: there is no account in it"), remedy);
    }
    let count = |which: fn(&Account) -> bool| users.iter().filter(|(_, one)| which(one)).count();
    let (readers, certified) = (count(|one| !one.may_write), count(|one| one.hash.is_none()));
    let fact = format!(
        "{file}: accounts: {}, that may only read: {readers}, without a password: {certified}",
        users.len()
    );
    Finding::ok(TOPIC, fact)
}

/// Judges the mode of the users file.
fn permissions(file: &str, mode: u32) -> Option<Finding> {
    match mode {
        mode if mode & 0o022 != 0 => {
            let fact = format!("{file}: its mode {mode:04o} lets others change accounts");
            Some(Finding::fail(TOPIC, fact, format!("chmod 600 {file}")))
        }
        mode if mode & 0o004 != 0 => {
            let fact = format!("{file}: its mode {mode:04o} lets everybody read password hashes");
            Some(Finding::warn(TOPIC, fact, format!("chmod 600 {file}")))
        }
        _ => None,
    }
}

fn anonymous(access: Access, only_here: bool) -> Finding {
    match access {
        Access::Ro => Finding::ok(TOPIC, "anonymous users may read"),
        Access::Rw if only_here => {
            Finding::ok(TOPIC, "anonymous users may read and write, from this host")
        }
        Access::Rw => {
            let fact = "anonymous users may read and write: anybody can fill or empty the tree";
            Finding::warn(TOPIC, fact, "--anonymous ro, unless that is meant")
        }
    }
}

#[cfg(test)]
mod tests {
    use gsi::finding::Verdict;

    use super::*;

    #[test]
    fn accounts_that_others_may_change_are_a_fault() {
        let of = |mode| permissions("users", mode).map(|finding| finding.verdict);
        assert_eq!(of(0o600), None);
        assert_eq!(of(0o640), None);
        assert_eq!(of(0o644), Some(Verdict::Warn));
        assert_eq!(of(0o660), Some(Verdict::Fail));
    }

    #[test]
    fn anonymous_writers_are_warned_of_where_a_network_reaches_them() {
        assert_eq!(anonymous(Access::Ro, false).verdict, Verdict::Ok);
        assert_eq!(anonymous(Access::Rw, false).verdict, Verdict::Warn);
        assert_eq!(anonymous(Access::Rw, true).verdict, Verdict::Ok);
    }

    #[test]
    fn accounts_are_counted_by_kind() {
        let users = Users::parse("ann:*\nbob:*:ro:/b\n").unwrap();
        let fact = "users: accounts: 2, that may only read: 1, without a password: 2";
        assert_eq!(counted("users", &users), Finding::ok(TOPIC, fact));
        let none = Users::parse("# nobody\n").unwrap();
        assert_eq!(counted("users", &none).verdict, Verdict::Warn);
    }
}
