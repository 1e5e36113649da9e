//! A request for a proxy is taken only with the signature of its own key.

use gsi::request::Request;

/// `data` is the DER of a request.
pub(crate) fn check(data: &[u8]) {
    let Ok(request) = Request::parse(data) else {
        return;
    };
    let key = request.public_key();
    assert!(data.windows(key.len()).any(|window| window == key));
    let mut changed = data.to_vec();
    if let Some(last) = changed.last_mut() {
        *last ^= 1;
    }
    assert!(Request::parse(&changed).is_err());
}
