//! Files of web servers: requests for them, by HTTP/1.1 over TCP or TLS or through a proxy, and the
//! answers.

mod answer;
mod date;
mod digest;
mod fault;
mod head;
mod place;
mod proxy;
mod request;
mod tunnel;

pub(crate) use answer::Answer;
pub(crate) use digest::{NO_DIGEST, choose};
pub use fault::WebError;
pub(crate) use head::{Head, Part};
pub use proxy::Proxies;
pub(crate) use request::{Request, facts, open};

/// The site of a URL.
#[cfg(test)]
fn site(url: &str) -> crate::url::Site {
    match crate::url::Location::parse(url) {
        Ok(crate::url::Location::Remote(remote)) => remote.site,
        other => panic!("{other:?}"),
    }
}
