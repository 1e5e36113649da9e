//! The search, and the rules for files.

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use xio_testkit::{Grid, Validity};

/// A user at home, with a system of the test.
fn environment(grid: &Grid) -> Environment {
    let folder = grid.folder();
    for inner in ["home/.globus", "tmp", "sys"] {
        fs::create_dir_all(folder.join(inner)).unwrap();
    }
    Environment::new(rustix::process::geteuid().as_raw())
        .home(folder.join("home"))
        .temporary(folder.join("tmp"))
        .system(folder.join("sys"))
}

fn subject(environment: &Environment, purpose: Purpose) -> String {
    match find(environment, purpose, UnixTime::now()) {
        Ok(found) => found.credential.subject().to_string(),
        Err(error) => format!("{error}"),
    }
}

/// Writes a certificate and its key to two files.
fn pair(grid: &Grid, common: &str, certificate: &str, key: &str) {
    let pem = grid.user(common).to_pem();
    let at = pem.find("-----BEGIN PRIVATE").unwrap();
    grid.write(certificate, &pem[..at], 0o644);
    grid.write(key, &pem[at..], 0o400);
}

/// Trap 18 of Grid security.
#[test]
fn a_client_prefers_the_user_and_a_server_the_host() {
    let grid = Grid::new();
    let mut here = environment(&grid);
    let both = |here: &Environment| {
        let last = |purpose| {
            let subject = subject(here, purpose);
            subject.rsplit('=').next().unwrap_or_default().to_owned()
        };
        (last(Purpose::Client), last(Purpose::Server))
    };
    let none = subject(&here, Purpose::Client);
    assert!(
        none.contains("tmp/x509up_u") && none.contains("proxy init"),
        "{none}"
    );

    pair(&grid, "host", "sys/hostcert.pem", "sys/hostkey.pem");
    assert_eq!(both(&here), ("host".into(), "host".into()));
    pair(
        &grid,
        "user",
        "home/.globus/usercert.pem",
        "home/.globus/userkey.pem",
    );
    assert_eq!(both(&here), ("user".into(), "host".into()));
    let proxy = format!("tmp/x509up_u{}", here.uid());
    let _ = grid.store(&grid.user("made"), &proxy);
    assert_eq!(both(&here), ("made".into(), "host".into()));
    let told = grid.store(&grid.user("told"), "told.pem");
    here = here.variable("X509_USER_CERT", &told);
    assert_eq!(both(&here), ("told".into(), "told".into()));
    let named = grid.store(&grid.user("named"), "named.pem");
    here = here.variable("X509_USER_PROXY", named);
    assert_eq!(both(&here), ("named".into(), "told".into()));

    // A file in a variable is not passed over.
    let here = here.variable("X509_USER_PROXY", grid.folder().join("gone"));
    assert!(subject(&here, Purpose::Client).contains("gone: No such file"));
}

#[test]
fn the_files_of_a_user_are_those_in_variables_or_at_home() {
    let files = |here: &Environment| CredentialFiles::of_user(here);
    let here = Environment::new(1000);
    assert_eq!(files(&here), None);
    let here = here.home("/home/pat");
    let pair = CredentialFiles::pair(
        "/home/pat/.globus/usercert.pem",
        "/home/pat/.globus/userkey.pem",
    );
    assert_eq!(files(&here), Some(pair));
    let here = here.variable("X509_USER_CERT", "/c");
    assert_eq!(files(&here), Some(CredentialFiles::one("/c")));
    // A proxy is often named in both.
    let both = here.clone().variable("X509_USER_KEY", "/c");
    assert_eq!(files(&both), Some(CredentialFiles::one("/c")));
    let here = here.variable("X509_USER_KEY", "/k");
    assert_eq!(files(&here), Some(CredentialFiles::pair("/c", "/k")));
}

#[test]
fn files_with_keys_are_for_their_owner_alone() {
    let grid = Grid::new();
    let here = environment(&grid);
    let path = grid.store(&grid.user("Alice Lab"), "proxy.pem");
    let here = here.variable("X509_USER_PROXY", &path);
    for (mode, good) in [
        (0o600, true),
        (0o400, true),
        (0o640, false),
        (0o644, false),
        (0o700, false),
        (0o604, false),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let subject = subject(&here, Purpose::Client);
        assert_eq!(subject.starts_with("/O=Grid"), good, "{mode:o}: {subject}");
        assert!(good || subject.contains(&format!("proxy.pem: its mode {mode:04o}")));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let stranger = CredentialFiles::one(&path).read(here.uid() + 1, UnixTime::now());
    let error = stranger.unwrap_err().to_string();
    assert!(error.contains("chown"), "{error}");
    let folder = CredentialFiles::one(grid.folder()).read(here.uid(), UnixTime::now());
    assert!(folder.unwrap_err().to_string().contains("no regular file"));
    let empty = grid.write("empty.pem", "", 0o600);
    let empty = CredentialFiles::one(empty).read(here.uid(), UnixTime::now());
    assert!(empty.unwrap_err().to_string().contains("is empty"));
}

#[test]
fn certificates_may_be_read_by_all_and_changed_by_none() {
    let grid = Grid::new();
    let here = environment(&grid);
    pair(&grid, "Alice Lab", "cert.pem", "key.pem");
    let (certificate, key) = (
        grid.folder().join("cert.pem"),
        grid.folder().join("key.pem"),
    );
    let files = CredentialFiles::pair(&certificate, &key);
    for (mode, good) in [(0o644, true), (0o444, true), (0o664, false), (0o755, false)] {
        fs::set_permissions(&certificate, fs::Permissions::from_mode(mode)).unwrap();
        let read = files.read(here.uid(), UnixTime::now());
        assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
    }
}

#[test]
fn an_old_or_broken_credential_is_named() {
    let grid = Grid::new();
    let here = environment(&grid);
    let old = grid.issue("Alice Lab", &[], Validity::Expired);
    let old = here
        .clone()
        .variable("X509_USER_PROXY", grid.store(&old, "old.pem"));
    let error = subject(&old, Purpose::Client);
    assert!(error.contains("old.pem: the credential of /O=Grid/OU=Lab/CN=Alice Lab has expired"));
    let broken = grid.write("broken.pem", "-----BEGIN CERTIFICATE-----\n", 0o600);
    let broken = here.variable("X509_USER_PROXY", broken);
    let error = subject(&broken, Purpose::Client);
    assert!(error.contains("broken.pem"), "{error}");
}

/// Writes a PKCS#12 file at home.
fn archive(grid: &Grid, common: &str, passphrase: &str) -> PathBuf {
    use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
    let user = grid.user(common);
    let key = user.to_pem();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let key = PrivateKey::from_der(key.secret_der()).unwrap();
    let chain = user
        .chain()
        .iter()
        .map(|der| Certificate::from_der(der).unwrap());
    let chain = PrivateKeyChain::new("1", key, chain);
    let mut store = KeyStore::new();
    store.add_entry("user", KeyStoreEntry::PrivateKeyChain(chain));
    let path = grid.folder().join("home/.globus/usercred.p12");
    fs::write(&path, store.writer(passphrase).write().unwrap()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn an_archive_is_the_last_place_of_a_user_and_asks_for_its_passphrase() {
    let grid = Grid::new();
    let here = environment(&grid);
    let path = archive(&grid, "kept", "open sesame");
    let files = CredentialFiles::of_user(&here).unwrap();
    assert_eq!(files, CredentialFiles::one(&path));
    let unlock = |word: &str| {
        files.unlock(here.uid(), |asked| {
            assert_eq!(asked, path);
            Ok(Zeroizing::new(word.to_owned()))
        })
    };
    let opened = unlock("open sesame").unwrap();
    assert_eq!(opened.subject().to_string(), "/O=Grid/OU=Lab/CN=kept");
    let wrong = unlock("open barley").unwrap_err().to_string();
    assert!(
        wrong.contains("usercred.p12: the passphrase does not open"),
        "{wrong}"
    );
    let told = subject(&here, Purpose::Client);
    assert!(
        told.contains("usercred.p12") && told.contains("proxy init"),
        "{told}"
    );

    archive(&grid, "open", "");
    assert_eq!(subject(&here, Purpose::Client), "/O=Grid/OU=Lab/CN=open");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(subject(&here, Purpose::Client).contains("usercred.p12: its mode 0644"));
    fs::write(&path, b"0\x03\x02\x01\x07").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(subject(&here, Purpose::Client).contains("no PKCS#12 that can be read"));
    pair(
        &grid,
        "user",
        "home/.globus/usercert.pem",
        "home/.globus/userkey.pem",
    );
    assert_eq!(subject(&here, Purpose::Client), "/O=Grid/OU=Lab/CN=user");
}

/// The names of files are those that the Globus programs take.
#[test]
fn each_directory_of_hosts_has_a_credential() {
    let grid = Grid::new();
    let hosts = grid.folder().join("hosts");
    for inner in ["a", "b", "c", "d", "..data"] {
        fs::create_dir_all(hosts.join(inner)).unwrap();
    }
    pair(&grid, "one", "hosts/b/hostcert.pem", "hosts/b/hostkey.pem");
    pair(&grid, "two", "hosts/a/cert.pem", "hosts/a/privkey.pem");
    grid.write("hosts/a/chain.pem", "not read", 0o644);
    pair(&grid, "three", "hosts/c/hostcert.pem", "hosts/c/lost");
    grid.write("hosts/README", "no directory", 0o644);
    let uid = rustix::process::geteuid().as_raw();
    // Links of mounted secrets, and a directory of another user.
    pair(
        &grid,
        "two",
        "hosts/..data/cert.pem",
        "hosts/..data/privkey.pem",
    );
    std::os::unix::fs::symlink("loop", hosts.join("loop")).unwrap();
    let read = of_hosts(&hosts).unwrap().into_iter().map(|files| {
        let credential = files.unwrap().read(uid, UnixTime::now());
        match credential {
            Ok(own) => format!("{} {}", own.subject(), own.chain().len()),
            Err(error) => error.to_string(),
        }
    });
    let [a, b, c, d] = read.collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(a, "/O=Grid/OU=Lab/CN=two 1");
    assert_eq!(b, "/O=Grid/OU=Lab/CN=one 1");
    assert!(c.contains("hosts/c/hostkey.pem: No such file"), "{c}");
    assert!(d.contains("hosts/d/hostcert.pem: No such file"), "{d}");
    let error = of_hosts(&hosts.join("none")).unwrap_err().to_string();
    assert!(error.contains("hosts/none: No such file"), "{error}");
}
