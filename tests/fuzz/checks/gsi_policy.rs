//! Signing policies without a grant allow nothing, and faults name a line of the file.

use gsi::policy::{Answer, SigningPolicy};

/// `data` is a file of signing policies.
pub(crate) fn check(data: &[u8]) {
    let (authority, subject) = ("/O=Grid/CN=Lab CA", "/O=Grid/OU=x/CN=Alice Lab");
    match SigningPolicy::parse(data) {
        Ok(policy) => {
            let text = String::from_utf8_lossy(data)
                .replace('\\', "")
                .to_ascii_lowercase();
            let may_grant = text.contains("pos_rights") && text.contains("cond_subjects");
            let answer = policy.allows(authority, subject);
            assert!(may_grant || answer != Answer::Allowed);
            let names_it = text.contains("access_id_ca") || text.contains("access_id_anybody");
            assert!(names_it || answer == Answer::Unnamed);
        }
        Err(fault) => {
            let lines = 1 + data.iter().filter(|&&byte| byte == b'\n').count();
            assert!((1..=lines).contains(&fault.line), "{fault}");
        }
    }
}
