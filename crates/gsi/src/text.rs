//! Comparison of names in their form of one line, as signing policies and grid-mapfiles do it.

/// The form in which two names in one line are compared: lower case, one word for a user's
/// identifier and one for a mail address.
pub(crate) fn fold(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let one_user = lower.replace("/userid=", "/uid=");
    one_user
        .replace("/email=", "/emailaddress=")
        .replace("/e=", "/emailaddress=")
}
