//! Grid security: the credential of the host, the CA directory and the grid-mapfile.

use std::path::Path;

use gsi::credential::Credential;
use gsi::finding::Finding;
use gsi::gridmap::GridMap;
use gsi::trust::TrustOptions;
use gsi::verify::Verifier as _;
use xio_gsi::{
    CredentialFiles, GridMapFile, NoCredential, Purpose, TrustDirectory, authorities, find,
    of_hosts, pool_accounts,
};

use super::{Site, mode};
use crate::auth::Users;
use crate::config::Access;
use crate::grid::{host_directory, is_asked};

const TOPIC: &str = "grid";
const MAP: &str = "gridmap";

/// Most lines about faults of one kind in the grid-mapfile.
const MANY: usize = 20;

impl Site<'_> {
    /// Says whether Grid security is asked for.
    pub(super) fn has_grid(&self) -> bool {
        is_asked(self.options, &self.environment)
    }

    /// Examines Grid security, and looks up the account of the Grid user `subject`.
    pub(super) fn grid(&mut self, users: &Users, subject: Option<&str>) {
        if !self.has_grid() {
            self.add(Finding::ok(TOPIC, "it is not offered (--host-cert)"));
            if subject.is_some() {
                self.add(Finding::skip(
                    MAP,
                    "there is no Grid security, and nobody is mapped",
                ));
            }
            return;
        }
        let directory = self.options.ca_dir.clone();
        let directory = directory.unwrap_or_else(|| self.environment.trust_directory());
        self.host_credential(&directory);
        self.further_hosts(&directory);
        let findings = authorities(&directory, self.now);
        self.findings.extend(findings);
        let map = self.options.gridmap.clone();
        let map = map.unwrap_or_else(|| self.environment.grid_map_file());
        self.map_file(&map, users, subject);
    }

    fn host_credential(&mut self, directory: &Path) {
        let uid = self.environment.uid();
        let found = match &self.options.host_cert {
            Some(certificate) => {
                let key = self.options.host_key.as_ref().unwrap_or(certificate);
                let files = CredentialFiles::pair(certificate, key);
                let credential = files.read_of_any_age(uid);
                credential.map(|credential| (credential, files))
            }
            None => find(&self.environment, Purpose::Server, self.now)
                .map(|found| (found.credential, found.files)),
        };
        let (credential, files) = match found {
            Ok(found) => found,
            Err(error) => {
                let fact = format!("credential of the host: {error}");
                let remedy = "name the files by --host-cert and --host-key";
                return self.add(Finding::error(TOPIC, &fact, remedy));
            }
        };
        let name = self.credential(&files, &credential, directory);
        self.names_of(TOPIC, &name, credential.certificate());
    }

    /// Examines the credentials of further host names.
    fn further_hosts(&mut self, directory: &Path) {
        let Some(hosts) = host_directory(self.options, &self.environment) else {
            return;
        };
        let remedy = "put a directory for each name there, with hostcert.pem and hostkey.pem";
        let files = match of_hosts(&hosts) {
            Ok(files) => files,
            Err(error) => {
                let fact = format!("further names of the host: {error}");
                return self.add(Finding::error(TOPIC, &fact, remedy));
            }
        };
        if files.is_empty() {
            let fact = format!("{}: there is no further name of the host", hosts.display());
            self.add(Finding::warn(TOPIC, fact, remedy));
        }
        for files in files {
            let files = files.map_err(NoCredential::from);
            let uid = self.environment.uid();
            match files.and_then(|files| Ok((files.read_of_any_age(uid)?, files))) {
                Ok((credential, files)) => drop(self.credential(&files, &credential, directory)),
                Err(error) => {
                    let fact = format!("credential of the host: {error}");
                    self.add(Finding::error(TOPIC, &fact, "its clients meet another one"));
                }
            }
        }
    }

    /// Examines a credential, which the authorities in this directory have to prove; returns its
    /// description.
    fn credential(
        &mut self,
        files: &CredentialFiles,
        credential: &Credential,
        directory: &Path,
    ) -> String {
        let name = format!("credential of the host {}", files.certificate.display());
        let now = self.now;
        self.starts.push(credential.certificate().not_before());
        self.add(Finding::credential(TOPIC, &name, credential, now));
        let trust = TrustDirectory::open(directory, TrustOptions::default());
        let Ok(trust) = trust else {
            let fact = format!("{name}: not judged, without a CA directory");
            self.add(Finding::skip(TOPIC, fact));
            return name;
        };
        self.add(match trust.verify(credential.chain(), now) {
            Ok(_) => {
                let fact = format!(
                    "{name}: the authorities in {} prove it",
                    directory.display()
                );
                Finding::ok(TOPIC, fact)
            }
            Err(refusal) => {
                let shown = directory.display();
                let fact = format!("{name}: by {shown} it is refused: {refusal}");
                Finding::error(TOPIC, &fact, "install the files of its authority")
            }
        });
        name
    }

    fn map_file(&mut self, path: &Path, users: &Users, subject: Option<&str>) {
        let shown = path.display();
        let map = match GridMapFile::open(path) {
            Ok(file) => file.map(),
            Err(error) => {
                let remedy = "name the file by --gridmap, with lines of \"DN\" user[,user...]";
                self.add(Finding::fail(MAP, error.to_string(), remedy));
                if subject.is_some() {
                    self.add(Finding::skip(MAP, "nobody is mapped without the file"));
                }
                return;
            }
        };
        self.add(match map.len() {
            0 => {
                let remedy = "add lines of \"DN\" user[,user...]";
                Finding::warn(MAP, format!("{shown}: nobody is mapped"), remedy)
            }
            count => Finding::ok(MAP, format!("{shown}: {count} identities are mapped")),
        });
        if let Some(mode) = mode(path).filter(|mode| mode & 0o022 != 0) {
            let fact = format!("{shown}: its mode {mode:04o} lets others map themselves");
            self.add(Finding::fail(MAP, fact, format!("chmod 644 {shown}")));
        }
        let may_write = self.options.gridmap_access != Some(Access::Ro);
        let has_users = self.options.users.is_some();
        let file = shown.to_string();
        let findings = lines(&file, &map, has_users.then_some(users), may_write);
        self.findings.extend(findings);
        let leases = self.environment.grid_map_directory();
        self.findings.extend(pools(&file, &map, leases.as_deref()));
        if let Some(subject) = subject {
            self.add(look_up(&map, users, may_write, subject));
        }
    }
}

/// The lines that are passed over, and the names without an account among `users`.
fn lines(file: &str, map: &GridMap, users: Option<&Users>, may_write: bool) -> Vec<Finding> {
    let faults = map.faults().iter().take(MANY).map(|fault| {
        let fact = format!(
            "{file}: line {} is passed over: {}",
            fault.line, fault.reason
        );
        Finding::fail(MAP, fact, "correct it: \"DN\" user[,user...]")
    });
    let names = map.all_names();
    let is_unknown = |name: &&&str| {
        !name.starts_with('.') && users.is_some_and(|users| users.get(name).is_none())
    };
    let unknown = names.iter().filter(is_unknown).take(MANY);
    let access = if may_write { "read and write" } else { "read" };
    let unknown = unknown.map(|name| {
        let fact =
            format!("{file}: {name} has no account in --users, and may {access} the whole tree");
        Finding::warn(
            MAP,
            fact,
            format!("add the line `{name}:*:rw:/HOME` to the users file"),
        )
    });
    faults.chain(unknown).collect()
}

/// The pools of accounts, and the free ones of each where the directory of their leases is given.
fn pools(file: &str, map: &GridMap, leases: Option<&Path>) -> Vec<Finding> {
    let names = map.all_names().into_iter();
    let pools = names.filter(|name| name.starts_with('.')).take(MANY);
    let pool = |name| {
        let Some(directory) = leases else {
            let fact = format!("{file}: {name} is a pool of accounts, which nobody gets");
            return Finding::fail(MAP, fact, "name an account in its place, or set GRIDMAPDIR");
        };
        let shown = directory.display();
        match pool_accounts(directory, name) {
            Ok((all, 0)) => {
                let fact =
                    format!("{shown}: none of the {all} accounts of the pool {name} is free");
                Finding::warn(MAP, fact, "add files with the names of accounts")
            }
            Ok((all, free)) => {
                let fact = format!("{shown}: {free} of {all} accounts of the pool {name} are free");
                Finding::ok(MAP, fact)
            }
            Err(error) => {
                let remedy = "name the directory with the pool accounts in GRIDMAPDIR";
                Finding::fail(MAP, format!("{shown}: {error}"), remedy)
            }
        }
    };
    pools.map(pool).collect()
}

/// The account of an identity.
fn look_up(map: &GridMap, users: &Users, may_write: bool, subject: &str) -> Finding {
    let names = map.names_of(subject);
    let Some(first) = names.first() else {
        let remedy = format!("add the line `\"{subject}\" NAME`");
        return Finding::fail(MAP, format!("{subject} is not mapped"), remedy);
    };
    let account = users.get(first);
    let home = account.map_or(&b"/"[..], |one| one.home.as_bytes());
    let home = String::from_utf8_lossy(home);
    let access = match account.map_or(may_write, |one| one.may_write) {
        true => "reads and writes",
        false => "reads",
    };
    let rights = format!("{access}, at home in {home}");
    let others = match names {
        [_, others @ ..] if !others.is_empty() => format!(", or as {}", others.join(", ")),
        _ => String::new(),
    };
    Finding::ok(
        MAP,
        format!("{subject} logs in as {first}{others}; {first} {rights}"),
    )
}

#[cfg(test)]
mod tests {
    use gsi::finding::Verdict;

    use super::*;

    const LINES: &str = "\"/O=Grid/CN=Ann\" ann,ops\n\"/O=Grid/CN=Bob bob\n/O=Grid/CN=C .pool\n";

    #[test]
    fn faults_of_the_map_are_numbered_and_accounts_looked_up() {
        let map = GridMap::parse(LINES.as_bytes());
        let users = Users::parse("ann:*:ro:/data\n").unwrap();
        let told = |users, may_write| {
            let found = lines("map", &map, users, may_write);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let told = (told(None, true), told(Some(&users), false));
        assert_eq!(told.0.len(), 1, "{told:?}");
        assert!(told.0[0].starts_with("FAIL  gridmap: map: line 2 is passed over: "));
        assert_eq!(told.1.len(), 2, "{told:?}");
        assert!(told.1[1].starts_with("warn  gridmap: map: ops has no account"));
        assert!(told.1[1].contains("may read the whole tree"));
    }

    #[test]
    fn pools_are_counted() {
        let map = GridMap::parse(LINES.as_bytes());
        let folder = tempfile::tempdir().unwrap();
        let told = |leases| pools("map", &map, leases).remove(0).to_string();
        assert!(told(None).contains(".pool is a pool of accounts, which nobody gets"));
        let leases = Some(folder.path());
        assert!(told(leases).contains("none of the 0 accounts"));
        std::fs::write(folder.path().join("pool1"), "").unwrap();
        assert!(told(leases).contains("1 of 1 accounts of the pool .pool are free"));
        assert!(told(Some(Path::new("/nonexistent"))).starts_with("FAIL"));
    }

    #[test]
    fn an_identity_is_looked_up_as_a_login_would() {
        let map = GridMap::parse(LINES.as_bytes());
        let users = Users::parse("ann:*:ro:/data\n").unwrap();
        let ann = look_up(&map, &users, true, "/O=Grid/CN=Ann");
        let fact = "/O=Grid/CN=Ann logs in as ann, or as ops; ann reads, at home in /data";
        assert_eq!(ann, Finding::ok(MAP, fact));
        let nobody = look_up(&map, &users, true, "/O=Grid/CN=Eve");
        assert_eq!(nobody.verdict, Verdict::Fail);
        assert!(nobody.remedy.unwrap().contains("`\"/O=Grid/CN=Eve\" NAME`"));
    }
}
