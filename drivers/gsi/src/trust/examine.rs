//! Examines a CA directory, file by file, for whoever keeps it.

use std::path::Path;

use gsi::certificate::Certificate;
use gsi::finding::{Finding, RENEWAL};
use gsi::trust::{TrustOptions, TrustStore};
use gsi::verify::Rule;
use rustls::pki_types::UnixTime;

use super::files::{self, Content};
use super::{TrustDirectory, consequence};

const TOPIC: &str = "authorities";

/// Judges every file of a CA directory: a finding for each authority, and one for each file that
/// cannot be used.
///
/// An authority is as it should be if its certificate is valid, its files have the names of its
/// hash, and it has a signing policy and a revocation list that is in force.
#[must_use]
pub fn authorities(directory: &Path, now: UnixTime) -> Vec<Finding> {
    let mut findings = match broken_files(directory) {
        Ok(findings) => findings,
        Err(finding) => return vec![*finding],
    };
    match TrustDirectory::open(directory, TrustOptions::default()) {
        Ok(directory) => {
            let store = directory.store();
            let mut authorities: Vec<_> = store.authorities().collect();
            authorities.sort_by_key(|authority| authority.subject().to_string());
            for authority in authorities {
                findings.extend(self::authority(&store, authority, now));
            }
        }
        Err(error) => findings.push(Finding::error(TOPIC, &error.to_string(), "")),
    }
    findings
}

/// Judges the certificate, the signing policy and the revocation lists of an authority.
#[must_use]
pub fn authority(store: &TrustStore, authority: &Certificate, now: UnixTime) -> Vec<Finding> {
    let subject = authority.subject();
    let name = format!("{:08x}.0", subject.hash());
    let faults = store.faults(authority, now);
    if !faults.is_empty() {
        let tell = |rule: Rule| {
            let fact = format!("{name}: certificates by {subject} are refused: {rule}");
            Finding::error(TOPIC, &fact, "")
        };
        return faults.into_iter().map(tell).collect();
    }
    let mut findings = vec![Finding::certificate(TOPIC, &name, authority, now, RENEWAL)];
    let name = format!("{:08x}.r0", subject.hash());
    let lists = store.revocations().filter(|list| list.issuer() == subject);
    findings.push(match lists.max_by_key(|list| list.this_update()) {
        Some(list) => Finding::revocations(TOPIC, &name, list, now),
        None => Finding::warn(
            TOPIC,
            format!(
                "{name}: there is no revocation list of {subject}, so revoked certificates pass"
            ),
            "have fetch-crl fetch the lists",
        ),
    });
    findings
}

/// The files that are passed over.
fn broken_files(directory: &Path) -> Result<Vec<Finding>, Box<Finding>> {
    let listed = files::list(directory).map_err(|error| {
        let fact = format!("CA directory {error}");
        let remedy = "name the directory in X509_CERT_DIR";
        Box::new(Finding::fail(TOPIC, fact, remedy))
    })?;
    let mut findings = Vec::new();
    for (name, (kind, stamp)) in listed {
        match files::read(&directory.join(&name), kind) {
            Err(error) => {
                let fact = format!("{error}: {}", consequence(kind, false));
                findings.push(Finding::fail(TOPIC, fact, "install the file anew"));
            }
            Ok(Content::Authorities(found)) => {
                for (_, hashes) in found {
                    if hashes.contains(&stamp.hash) {
                        continue;
                    }
                    let [hash, _] = hashes;
                    let fact = format!(
                        "{}: it is not trusted, since the hash of its subject is {hash:08x}",
                        directory.join(&name).display()
                    );
                    let remedy = format!("rename it to {hash:08x}.0");
                    findings.push(Finding::fail(TOPIC, fact, remedy));
                }
            }
            Ok(Content::Policy(_) | Content::Revocations(_)) => {}
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xio_testkit::Grid;

    use super::*;

    /// The findings about the directory of a grid, each without its folder.
    fn told(grid: &Grid) -> Vec<String> {
        let findings = authorities(&grid.certificates(), UnixTime::now());
        let folder = format!("{}/", grid.certificates().display());
        findings
            .iter()
            .map(|finding| finding.to_string().replace(&folder, ""))
            .collect()
    }

    #[track_caller]
    fn tells(grid: &Grid, wanted: &[&str]) {
        let told = told(grid);
        let hash = grid.hash();
        let fits =
            |(told, wanted): (&String, &&str)| told.starts_with(&wanted.replace("HASH", &hash));
        let good = told.len() == wanted.len() && told.iter().zip(wanted).all(fits);
        assert!(good, "{told:#?}, wanted {wanted:#?}");
    }

    #[test]
    fn an_authority_with_all_its_files_is_as_it_should_be() {
        let grid = Grid::new();
        let certificate = "ok    authorities: HASH.0: /O=Grid/OU=Lab/CN=Lab CA, valid for ";
        tells(
            &grid,
            &[
                certificate,
                "warn  authorities: HASH.r0: there is no revocation list",
            ],
        );
        grid.revoke(&[]);
        tells(
            &grid,
            &[
                certificate,
                "ok    authorities: HASH.r0: revocation list, valid for ",
            ],
        );
    }

    #[test]
    fn each_defect_of_a_file_is_told_with_its_remedy() {
        let grid = Grid::new();
        let refused =
            "FAIL  authorities: HASH.0: certificates by /O=Grid/OU=Lab/CN=Lab CA are refused: ";
        grid.revoke_until(2023, &[]);
        tells(&grid, &[&format!("{refused}the revocation list of")]);
        let (hash, folder) = (grid.hash(), grid.certificates());
        grid.write(
            &format!("certificates/{hash}.r0"),
            "-----BEGIN X509 CRL-----\n",
            0o644,
        );
        let unread = "FAIL  authorities: HASH.r0: broken PEM block";
        assert!(told(&grid)[0].contains("is not trusted until the file can be read"));
        tells(&grid, &[unread, "FAIL  authorities: CA directory "]);

        grid.revoke(&[]);
        fs::remove_file(folder.join(format!("{hash}.signing_policy"))).unwrap();
        tells(&grid, &[&format!("{refused}no signing policy")]);
        let wrong = "access_id_CA X509 '/CN=x'\npos_rights globus CA:sign\n";
        grid.write(&format!("certificates/{hash}.signing_policy"), wrong, 0o644);
        tells(
            &grid,
            &[&format!(
                "{refused}HASH.signing_policy does not name its issuer"
            )],
        );

        fs::rename(folder.join(format!("{hash}.0")), folder.join("12345678.0")).unwrap();
        let renamed = "FAIL  authorities: 12345678.0: it is not trusted, since the hash of its \
                       subject is HASH; rename it to HASH.0";
        tells(&grid, &[renamed, "FAIL  authorities: CA directory "]);
        fs::remove_dir_all(&folder).unwrap();
        tells(&grid, &["FAIL  authorities: CA directory "]);
    }
}
