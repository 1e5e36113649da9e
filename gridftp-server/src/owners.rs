//! `Owners`: names of users and groups for listings, and the permissions of this process on a file.

use std::collections::HashMap;
use std::fs;

use gridftp_dsi::{Kind, Stat, User};

/// Names from the system's files, read once; numbers for owners without a name.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    users: HashMap<u32, Box<str>>,
    groups: HashMap<u32, Box<str>>,
    /// The identity that files are accessed with.
    uid: u32,
    gids: Vec<u32>,
}

impl Owners {
    /// Reads `/etc/passwd` and `/etc/group`, as far as they can be read.
    pub(crate) fn load() -> Self {
        let mut gids = vec![rustix::process::getegid().as_raw()];
        gids.extend(
            rustix::process::getgroups()
                .unwrap_or_default()
                .into_iter()
                .map(|gid| gid.as_raw()),
        );
        Self {
            users: names(&fs::read("/etc/passwd").unwrap_or_default()),
            groups: names(&fs::read("/etc/group").unwrap_or_default()),
            uid: rustix::process::geteuid().as_raw(),
            gids,
        }
    }

    /// A user's name, or number.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.users
            .get(&uid)
            .map_or_else(|| uid.to_string(), |name| name.to_string())
    }

    /// A group's name, or number.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.groups
            .get(&gid)
            .map_or_else(|| gid.to_string(), |name| name.to_string())
    }

    /// The letters of the `Perm` fact (RFC 3659 §7.5.5) for `user` on this object, by its
    /// permission bits.
    pub(crate) fn perm(&self, user: &User, stat: &Stat) -> String {
        let bits = match () {
            () if self.uid == 0 => 0o7,
            () if stat.uid == self.uid => stat.mode >> 6,
            () if self.gids.contains(&stat.gid) => stat.mode >> 3,
            () => stat.mode,
        };
        let (read, write, enter) = (
            bits & 0o4 != 0,
            bits & 0o2 != 0 && user.may_write,
            bits & 0o1 != 0,
        );
        let letters: &[(char, bool)] = match stat.kind {
            Kind::Directory => &[
                ('c', write && enter),
                ('f', write),
                ('m', write && enter),
                ('p', write && enter),
                ('e', enter),
                ('l', read),
            ],
            Kind::File => &[('a', write), ('w', write), ('r', read)],
            _ => &[],
        };
        letters
            .iter()
            .filter(|(_, holds)| *holds)
            .map(|(letter, _)| letter)
            .collect()
    }
}

/// Lines `name:…:number:…`, as both files have them.
fn names(text: &[u8]) -> HashMap<u32, Box<str>> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            let number = fields.nth(1)?.parse().ok()?;
            Some((number, name.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridftp_dsi::DsiPath;

    #[test]
    fn names_come_from_the_third_field() {
        let map = names(b"root:x:0:0:root:/root:/bin/sh\n# odd\nann:x:1000:\nbad:x:n:\n");
        assert_eq!(map.len(), 2);
        assert_eq!(&*map[&1000], "ann");
    }

    #[test]
    fn perm_follows_the_bits_of_the_class_that_applies() {
        let owners = Owners {
            uid: 5,
            gids: vec![7],
            ..Owners::default()
        };
        let user = User::new("ann", DsiPath::root(), true);
        let mut stat = Stat::new("f", Kind::File);
        (stat.uid, stat.gid, stat.mode) = (5, 9, 0o640);
        assert_eq!(owners.perm(&user, &stat), "awr");
        (stat.uid, stat.gid) = (6, 7);
        assert_eq!(owners.perm(&user, &stat), "r");
        stat.gid = 8;
        assert_eq!(owners.perm(&user, &stat), "");
        (stat.kind, stat.uid, stat.mode) = (Kind::Directory, 5, 0o755);
        assert_eq!(owners.perm(&user, &stat), "cfmpel");
        let reader = User::new("bob", DsiPath::root(), false);
        assert_eq!(owners.perm(&reader, &stat), "el");
    }
}
