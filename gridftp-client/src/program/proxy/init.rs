//! `proxy init`: makes a proxy of a user certificate and puts it in its place.

use std::fs::{self, Permissions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::ValueHint;
use gsi::certificate::{ProxyFormat, ProxyRights};
use gsi::credential::Credential;
use gsi::key::{KeyPair, KeySize};
use gsi::proxy::ProxyOptions;
use gsi::trust::TrustOptions;
use gsi::verify::Verifier as _;
use rustix::termios::{self, LocalModes, OptionalActions};
use rustls_pki_types::UnixTime;
use xio_gsi::{CredentialFiles, Environment, TrustDirectory};
use zeroize::Zeroizing;

use super::facts::Facts;
use super::hours_and_minutes;
use crate::program::exit::Status;
use crate::program::report::Report;

/// Longest passphrase that is read, in bytes.
const MAX_PASSPHRASE: usize = 4096;

/// The options of `proxy init`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::doc_markdown,
    reason = "the text of --help, which has no markup"
)]
#[command(after_help = "\
The passphrase of the key is asked for on the terminal; if standard input is none, it is the first \
line of it.")]
pub(super) struct Args {
    /// Time until the proxy expires, in hours [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    hours: Option<u32>,

    /// Time until the proxy expires, in hours and minutes
    #[arg(long, value_name = "H:M", value_parser = hours_and_minutes, conflicts_with = "hours")]
    valid: Option<Duration>,

    /// Size of the key of the proxy, in bits
    #[arg(long, value_name = "BITS", value_parser = ["2048", "3072", "4096"], default_value = "2048")]
    bits: String,

    /// Format of RFC 3820 [default: this one, and that of the issuer if it is a proxy itself]
    #[arg(long, group = "format")]
    rfc: bool,

    /// Format of the draft before RFC 3820
    #[arg(long, group = "format")]
    draft: bool,

    /// Format before the draft, which many servers refuse
    #[arg(long, alias = "old", group = "format")]
    legacy: bool,

    /// Proxy that reads and writes files, and that starts no jobs
    #[arg(long, conflicts_with = "independent")]
    limited: bool,

    /// Proxy that has none of the rights of its issuer, and is a name of its own
    #[arg(long)]
    independent: bool,

    /// Number of proxies that may follow below this one [default: any]
    #[arg(long, value_name = "N")]
    path_length: Option<u32>,

    /// User certificate, PEM or PKCS#12 [default: $X509_USER_CERT, or else ~/.globus/usercert.pem, or
    /// else ~/.globus/usercred.p12]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cert: Option<PathBuf>,

    /// Key of the certificate [default: $X509_USER_KEY, or else ~/.globus/userkey.pem; the file of
    /// --cert if that is given]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    key: Option<PathBuf>,

    /// Directory of trusted authorities [default: $X509_CERT_DIR, or else ~/.globus/certificates,
    /// /etc/grid-security/certificates]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cert_dir: Option<PathBuf>,

    /// Make no proxy that the trusted authorities do not lead to; without this it is a warning
    #[arg(long)]
    verify: bool,

    /// File of the proxy [default: $X509_USER_PROXY, or else /tmp/x509up_uUID]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Makes the proxy and writes it.
pub(super) fn run(args: &Args, report: &Report) -> anyhow::Result<Status> {
    let environment = Environment::of_process();
    let files = args.files(&environment)?;
    let user = files.unlock(environment.uid(), passphrase)?;
    let now = UnixTime::now();
    let lifetime = args.lifetime();
    let key = KeyPair::generate(args.size())?;
    let proxy = user.make_proxy(key, &args.options(lifetime), now)?;

    if let Err(fault) = args.verify(&environment, &proxy, now) {
        ensure!(!args.verify, "{fault}");
        report.warn(&format!("proxy: servers may refuse this proxy: {fault}"));
    }
    let path = args.out.clone().unwrap_or_else(|| environment.proxy_file());
    store(&path, &proxy.to_pem(), environment.uid()).with_context(|| path.display().to_string())?;

    let path = &path;
    let credential = &proxy;
    let facts = Facts {
        credential,
        path,
        now,
    };
    if facts.left() < lifetime.as_secs() {
        report.warn(&format!(
            "proxy: it expires with the certificate of {} at {}, before the time asked for",
            user.subject(),
            facts.expiry()
        ));
    }
    if report.is_json() {
        report.emit(&facts.json());
    } else if !report.is_quiet() {
        report.out(&format!("identity : {}", proxy.identity()));
        report.out(&format!("path     : {}", path.display()));
        report.out(&format!("expires  : {}", facts.expiry()));
    }
    Ok(Status::Done)
}

impl Args {
    fn lifetime(&self) -> Duration {
        let hours = |hours: u32| Duration::from_secs(u64::from(hours) * 3600);
        let valid = self.valid.or_else(|| self.hours.map(hours));
        valid.unwrap_or_else(|| hours(12))
    }

    fn size(&self) -> KeySize {
        KeySize::at_least(self.bits.parse().unwrap_or_default())
    }

    fn options(&self, lifetime: Duration) -> ProxyOptions {
        let mut options = ProxyOptions::default();
        options.format = match (self.rfc, self.draft, self.legacy) {
            (true, _, _) => Some(ProxyFormat::Rfc),
            (_, true, _) => Some(ProxyFormat::Draft),
            (_, _, true) => Some(ProxyFormat::Legacy),
            (false, false, false) => None,
        };
        options.rights = match (self.limited, self.independent) {
            (true, _) => ProxyRights::Limited,
            (_, true) => ProxyRights::Independent,
            (false, false) => ProxyRights::Full,
        };
        options.path_length = self.path_length;
        options.lifetime = Some(lifetime);
        options
    }

    /// The files of the certificate that signs.
    fn files(&self, environment: &Environment) -> anyhow::Result<CredentialFiles> {
        let given = self.cert.as_ref().map(|certificate| {
            let key = self.key.as_ref().unwrap_or(certificate);
            CredentialFiles::pair(certificate, key)
        });
        let Some(files) = given.or_else(|| CredentialFiles::of_user(environment)) else {
            bail!(
                "no home directory to look for a user certificate in: name it with --cert and --key"
            );
        };
        let certificate = &files.certificate;
        ensure!(
            certificate.exists(),
            "{}: no such user certificate: name it with --cert and --key",
            certificate.display()
        );
        Ok(files)
    }

    /// Checks that the trusted authorities lead to the proxy.
    fn verify(
        &self,
        environment: &Environment,
        proxy: &Credential,
        now: UnixTime,
    ) -> anyhow::Result<()> {
        let directory = self.cert_dir.clone();
        let directory = directory.unwrap_or_else(|| environment.trust_directory());
        // What others accept is up to them.
        let options = TrustOptions::default().accept_legacy_proxies();
        TrustDirectory::open(directory, options)?.verify(proxy.chain(), now)?;
        Ok(())
    }
}

/// Asks on the terminal for the passphrase of a key, or reads a line where there is none.
fn passphrase(key: &Path) -> io::Result<Zeroizing<String>> {
    let input = io::stdin();
    if !input.is_terminal() {
        return read_line();
    }
    let before = termios::tcgetattr(&input)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    // Before the prompt, so that no quick answer is shown.
    termios::tcsetattr(&input, OptionalActions::Flush, &silent)?;
    let mut output = io::stderr();
    let line = write!(output, "Passphrase of {}: ", key.display()).and_then(|()| read_line());
    termios::tcsetattr(&input, OptionalActions::Flush, &before)?;
    writeln!(output)?;
    line
}

/// Reads a line of standard input.
fn read_line() -> io::Result<Zeroizing<String>> {
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_PASSPHRASE));
    // By single bytes, so that no buffer of the program keeps a copy.
    let mut byte = [0];
    let input = rustix::stdio::stdin();
    while rustix::io::retry_on_intr(|| rustix::io::read(input, &mut byte))? > 0 && byte != *b"\n" {
        if line.len() == MAX_PASSPHRASE {
            return Err(io::Error::other(format!(
                "it has more than {MAX_PASSPHRASE} bytes"
            )));
        }
        line.extend_from_slice(&byte);
    }
    let text = std::str::from_utf8(&line).map_err(io::Error::other)?;
    Ok(Zeroizing::new(text.trim_end_matches('\r').to_owned()))
}

/// Replaces the file, which is for its owner alone from its first moment on.
///
/// The name is renamed over and never followed, since others may have made a link of it in `/tmp`.
fn store(path: &Path, pem: &str, uid: u32) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        Ok(old) => {
            let owner = old.uid();
            ensure!(
                owner == uid,
                "user {owner} has a file there: remove it, or name another one with --out"
            );
            ensure!(
                old.is_file() || old.is_symlink(),
                "there is no regular file there: name another one with --out"
            );
        }
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".x509up_")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(pem.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
