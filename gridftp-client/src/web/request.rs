//! `Request`: a file that is asked for, wherever its server leads to.

use std::net::IpAddr;

use base64ct::{Base64, Encoding as _};
use xio::http::{Http, HttpOptions};
use xio::tls::Tls;
use xio_core::{BoxStream, Operation, Stream as _, Target, Transform as _};
use zeroize::Zeroizing;

use super::digest::WANTS;
use super::fault::WebError;
use super::place::Place;
use super::proxy::named;
use super::tunnel::tunnel;
use super::{Answer, Head};
use crate::error::{ConnectError, TransferError};
use crate::guard::{has_password, tls_failed};
use crate::login::reach;
use crate::options::{ConnectOptions, Security};
use crate::url::{Scheme, Site};

/// Places behind each other that are followed.
const REDIRECTS: usize = 5;

/// A file that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) site: &'a Site,
    /// Path and query.
    pub(crate) target: &'a [u8],
    /// The first byte, and the one behind the last where not all are wanted.
    pub(crate) part: (u64, Option<u64>),
    /// The version of the file that a part is to be of.
    pub(crate) validator: Option<&'a str>,
}

/// Asks for the facts of a file.
///
/// # Errors
/// When the server cannot be asked, or has no such file.
pub(crate) async fn facts(
    request: Request<'_>,
    options: &ConnectOptions,
) -> Result<Head, TransferError> {
    match follow("HEAD", request, options).await {
        Ok(answer) => Ok(answer.head),
        // Some take no such request, and signed URLs are for one method.
        Err(TransferError::Web(WebError::Refused {
            status: 400 | 403 | 405 | 501,
            ..
        })) => Ok(follow("GET", request, options).await?.head),
        Err(error) => Err(error),
    }
}

/// Asks for the bytes of a file, or of a part of it.
///
/// # Errors
/// As [`facts`].
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(crate) async fn open(
    request: Request<'_>,
    options: &ConnectOptions,
) -> Result<Answer, TransferError> {
    follow("GET", request, options).await
}

async fn follow(
    method: &'static str,
    request: Request<'_>,
    options: &ConnectOptions,
) -> Result<Answer, TransferError> {
    let own = request.site;
    let over = own.access.as_ref().map(|access| access.over(options));
    let options = over.as_ref().unwrap_or(options);
    let mut at = Place {
        site: own.clone(),
        target: request.target.to_vec(),
    };
    for _ in 0..=REDIRECTS {
        let url = own.url(request.target);
        let account = Some(own).filter(|own| at.is_at(own));
        let proxy = options.proxies.before(&at.site)?;
        let stream = connect(&at, proxy, account, options).await?;
        // The address of a proxy does not tell where the server is.
        let peer = stream.info().peer.filter(|_| proxy.is_none());
        let fields = fields(request, account, peer.map(|peer| peer.ip()), options)?;
        let forwards = proxy.filter(|_| at.site.scheme == Scheme::Http);
        let mut http = HttpOptions::default();
        method.clone_into(&mut http.method);
        http.host = Some(host(&at.site));
        http.target = Some(match forwards {
            Some(_) => at.url(),
            None => at.target(),
        });
        http.head_timeout = options.reply_within;
        http.any_status = true;
        http.headers = fields;
        http.headers.extend(forwards.and_then(proxy_login));
        let to = Target::host(at.site.host.clone(), at.site.port);
        let begun = Http::new().with_options(http).initiate(stream, &to).await;
        let stream = begun.map_err(|cause| broken(&url, cause))?;
        let answer = Answer::read(stream, url, forwards.map(named), options).await?;
        let Some(location) = answer.location() else {
            return answer.accepted();
        };
        at = at.follow(location).map_err(|why| {
            let url = answer.url.clone();
            WebError::Redirect { url, why }
        })?;
    }
    let (url, why) = (
        own.url(request.target),
        "from place to place, more than five times",
    );
    Err(WebError::Redirect { url, why }.into())
}

pub(super) fn broken(url: &str, cause: xio_core::Error) -> WebError {
    let url = url.to_owned();
    WebError::Broken { url, cause }
}

/// Connects to a server, or to the `proxy` before it; the server sees the user's certificate only if
/// it has the user's `account`.
async fn connect(
    at: &Place,
    proxy: Option<&Site>,
    account: Option<&Site>,
    options: &ConnectOptions,
) -> Result<BoxStream, TransferError> {
    let site = &at.site;
    let name = proxy.map_or_else(|| site.to_string(), named);
    let (mut stream, _) = reach(proxy.unwrap_or(site), &name, options).await?;
    if site.scheme == Scheme::Http {
        return Ok(stream);
    }
    if let Some(proxy) = proxy {
        stream = Box::pin(tunnel(stream, proxy, site, options)).await?;
    }
    let failed = |cause| tls_failed(site, cause);
    let mut tls = Tls::client(options.roots.clone())
        .alpn(["http/1.1"])
        .handshake_timeout(options.connect_within);
    if let (Some(identity), Some(_)) = (&options.identity, account) {
        tls = tls.client_identity(identity.clone());
    }
    let (tls, _) = tls.build_client(site.host.clone()).map_err(failed)?;
    let opened = tls.open(stream, Operation::Connect).await;
    Ok(Box::new(opened.map_err(failed)?))
}

/// The host and its port, which is left out where the scheme has it: servers sign this text.
pub(super) fn host(site: &Site) -> String {
    let text = site.to_string();
    match text.strip_suffix(&format!(":{}", site.scheme.port())) {
        Some(host) => host.to_owned(),
        None => text,
    }
}

/// The fields of a request to the server of this `account`, whose connection leads to `peer`.
fn fields(
    request: Request<'_>,
    account: Option<&Site>,
    peer: Option<IpAddr>,
    options: &ConnectOptions,
) -> Result<Vec<(String, String)>, ConnectError> {
    let agent = concat!("gridftp-cp/", env!("CARGO_PKG_VERSION"));
    let mut fields = vec![
        ("User-Agent", agent.to_owned()),
        ("Accept", "*/*".to_owned()),
        // The bytes of a file are copied as they are.
        ("Accept-Encoding", "identity".to_owned()),
    ];
    fields.extend(WANTS.map(|(name, value)| (name, value.to_owned())));
    let (begin, end) = request.part;
    match end {
        // An empty part has no name.
        Some(end) if end > begin => fields.push(("Range", format!("bytes={begin}-{}", end - 1))),
        None if begin > 0 => fields.push(("Range", format!("bytes={begin}-"))),
        _ => {}
    }
    if let Some(validator) = request.validator.filter(|_| begin > 0) {
        fields.push(("If-Range", validator.to_owned()));
    }
    if let Some(login) = account.and_then(basic) {
        let crosses = !peer.is_some_and(|peer| peer.to_canonical().is_loopback());
        let is_clear = request.site.scheme == Scheme::Http && crosses;
        if is_clear && account.is_some_and(has_password) && options.security != Security::None {
            return Err(ConnectError::Choice {
                what: "password: http:// would send it in clear text, and it was not sent",
                remedy: "write https://; --security none sends it in clear text",
            });
        }
        fields.push(("Authorization", login));
    }
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    Ok(fields.into_iter().map(owned).collect())
}

/// The field with the login at a proxy, which no server gets.
pub(super) fn proxy_login(proxy: &Site) -> Option<(String, String)> {
    Some(("Proxy-Authorization".to_owned(), basic(proxy)?))
}

/// The login of RFC 7617, where the site names an account.
fn basic(site: &Site) -> Option<String> {
    let (user, password) = (site.user.as_ref()?, site.password.as_ref()?);
    let pair = Zeroizing::new(format!("{user}:{}", password.reveal()));
    Some(format!("Basic {}", Base64::encode_string(pair.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::site;

    #[test]
    fn the_field_host_has_a_port_only_where_the_scheme_has_another() {
        for (url, wanted) in [
            ("https://h/x", "h"),
            ("https://h:80/x", "h:80"),
            ("http://h:80/x", "h"),
            ("http://[::1]:8080/x", "[::1]:8080"),
        ] {
            assert_eq!(host(&site(url)), wanted, "{url}");
        }
    }

    #[test]
    fn parts_and_accounts_are_told_and_a_clear_password_is_not() {
        let far = Some(IpAddr::from([192, 0, 2, 1]));
        let at = site("http://ann:pw@h/x");
        let request = Request {
            site: &at,
            target: b"/x",
            part: (5, Some(9)),
            validator: Some("\"a\""),
        };
        let mut options = ConnectOptions::default();
        let refused = fields(request, Some(&at), far, &options).unwrap_err();
        assert!(refused.to_string().contains("in clear text"), "{refused}");
        options.security = Security::None;
        let told = fields(request, Some(&at), far, &options).unwrap();
        let value = |name: &str| {
            let field = told.iter().find(|(known, _)| known == name);
            field.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("Range"), Some("bytes=5-8"));
        assert_eq!(value("If-Range"), Some("\"a\""));
        assert_eq!(value("Authorization"), Some("Basic YW5uOnB3"));
        options.security = Security::Auto;
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        assert!(fields(request, Some(&at), here, &options).is_ok());
        let other = fields(request, None, far, &options).unwrap();
        assert!(other.iter().all(|(name, _)| name != "Authorization"));
    }
}
