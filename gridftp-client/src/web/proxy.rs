//! `Proxies`: the HTTP proxies on the way to web servers, as variables name them.

use std::ffi::OsString;
use std::net::IpAddr;

use ftp_wire::command::Secret;

use crate::error::TransferError;
use crate::url::{Location, Scheme, Site};

/// The port of a proxy that names none: curl's.
const PORT: u16 = 1080;

/// The HTTP proxies on the way to web servers; none by default.
///
/// Only those of `http://` are supported: another one fails the copies that it is on the way of.
/// The account in the URL of a proxy is told to it alone, in clear text.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    /// The hosts that are reached without a proxy, as `no_proxy` lists them.
    except: String,
}

/// A proxy, or its fault, and the variable that names it.
#[derive(Debug, Clone)]
struct Proxy {
    variable: &'static str,
    site: Result<Site, String>,
}

impl Proxies {
    /// Reads the variables that curl reads: `http_proxy` (in lower case only) for `http://` sources,
    /// `https_proxy` and `HTTPS_PROXY` for `https://` ones, `all_proxy` and `ALL_PROXY` for both, and
    /// `no_proxy` and `NO_PROXY` for the hosts without a proxy: names with the names below them,
    /// addresses, networks as `10.0.0.0/8`, or `*`. The first one that is not empty counts.
    ///
    /// The library reads no environment by itself:
    ///
    /// ```
    /// use gridftp_client::options::{ConnectOptions, Proxies};
    ///
    /// let options = ConnectOptions::default().proxies(Proxies::read(std::env::var_os));
    /// let named = Proxies::read(|name| (name == "https_proxy").then(|| "http://proxy:3128".into()));
    /// # drop((options, named));
    /// ```
    pub fn read(variable: impl Fn(&'static str) -> Option<OsString>) -> Self {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|&name| {
                let value = variable(name).filter(|value| !value.is_empty())?;
                Some((name, value.to_string_lossy().into_owned()))
            })
        };
        let proxy = |names: &[&'static str]| {
            let (variable, url) = first(names)?;
            let site = parse(&url);
            Some(Proxy { variable, site })
        };
        Self {
            http: proxy(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            except: first(&["no_proxy", "NO_PROXY"]).map_or_else(String::new, |(_, list)| list),
        }
    }

    /// The proxy on the way to a web server.
    ///
    /// # Errors
    /// When it is none that is supported.
    pub(super) fn before(&self, site: &Site) -> Result<Option<&Site>, TransferError> {
        let proxy = match site.scheme {
            Scheme::Https => &self.https,
            _ => &self.http,
        };
        match proxy {
            Some(proxy) if !self.is_except(&site.host) => match &proxy.site {
                Ok(site) => Ok(Some(site)),
                Err(fault) => Err(TransferError::request(
                    format!("proxy: {}: {fault}", proxy.variable),
                    "name a proxy as http://HOST:PORT, or the server in no_proxy",
                )),
            },
            _ => Ok(None),
        }
    }

    fn is_except(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let mut rules = self.except.split([',', ' ', '\t']);
        rules.any(|rule| match address {
            _ if rule == "*" => true,
            Some(address) => is_in(address, rule).unwrap_or(false),
            None => is_below(&host, &rule.to_ascii_lowercase()),
        })
    }
}

/// A proxy in messages.
pub(super) fn named(proxy: &Site) -> String {
    format!("proxy {proxy}")
}

/// Reads `[http://][USER[:PASSWORD]@]HOST[:PORT]`. No fault repeats the text, which may have a
/// password.
fn parse(url: &str) -> Result<Site, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let is_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_scheme && !scheme.eq_ignore_ascii_case("http") {
        return Err(format!("{scheme}:// proxies are not supported"));
    }
    let parsed = Location::parse(&format!("http://{rest}"));
    let Some(Location::Remote(remote)) = parsed.ok().filter(|_| is_scheme) else {
        return Err("it is no URL of a proxy".to_owned());
    };
    let mut site = remote.site;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let server = authority.rsplit(['@', ']']).next().unwrap_or_default();
    if !server.contains(':') {
        site.port = PORT;
    }
    if site.user.is_some() && site.password.is_none() {
        site.password = Some(Secret::new(""));
    }
    Ok(site)
}

/// Whether a host is the one of a rule, or below it.
fn is_below(host: &str, rule: &str) -> bool {
    let rule = rule.strip_prefix('*').unwrap_or(rule);
    let rule = rule.strip_prefix('.').unwrap_or(rule);
    let rule = rule.strip_suffix('.').unwrap_or(rule);
    let before = host.strip_suffix(rule).filter(|_| !rule.is_empty());
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether an address is the one of a rule, or in its network.
fn is_in(address: IpAddr, rule: &str) -> Option<bool> {
    let (network, bits) = match rule.split_once('/') {
        Some((network, bits)) => (network, Some(bits.parse::<u32>().ok()?)),
        None => (rule, None),
    };
    let network = network.trim_matches(['[', ']']).parse::<IpAddr>().ok()?;
    let (differs, all) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits() ^ b.to_bits()), 32_u32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits(), 128),
        _ => return None,
    };
    let rest = all.checked_sub(bits.unwrap_or(all))?;
    Some(differs.checked_shr(rest).unwrap_or(0) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::site;

    fn of(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    /// `host:port` of the proxy before a server.
    fn before(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.before(&site(url)).unwrap().map(Site::to_string)
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_in_the_order_of_curl() {
        for (variables, http, https) in [
            (&[("http_proxy", "http://p:1")][..], Some("p:1"), None),
            (&[("HTTP_PROXY", "http://p:1")], None, None),
            (&[("https_proxy", "p:1")], None, Some("p:1")),
            (&[("HTTPS_PROXY", "p:1")], None, Some("p:1")),
            (&[("all_proxy", "p:1")], Some("p:1"), Some("p:1")),
            (&[("ALL_PROXY", "p:1")], Some("p:1"), Some("p:1")),
            (
                &[
                    ("http_proxy", ""),
                    ("ALL_PROXY", "q:2"),
                    ("https_proxy", "p:1"),
                ],
                Some("q:2"),
                Some("p:1"),
            ),
            (
                &[("HTTPS_PROXY", "q:2"), ("https_proxy", "p:1")],
                None,
                Some("p:1"),
            ),
            (&[("all_proxy", "p:1"), ("NO_PROXY", "*")], None, None),
            (&[], None, None),
        ] {
            let proxies = of(variables);
            let found = ["http://h/x", "https://h/x"].map(|url| before(&proxies, url));
            let wanted = [http, https].map(|name| name.map(str::to_owned));
            assert_eq!(found, wanted, "{variables:?}");
        }
    }

    #[test]
    fn hosts_are_excepted_by_name_address_and_network() {
        for (list, url, is_except) in [
            ("example.org", "http://example.org/", true),
            ("example.org", "http://A.Example.org./", true),
            ("example.org", "http://anexample.org/", false),
            (".example.org", "http://a.example.org/", true),
            ("*.example.org.", "http://a.example.org/", true),
            ("a.example.org", "http://example.org/", false),
            ("x, EXAMPLE.org", "http://example.org:8080/", true),
            ("x example.org", "http://example.org/", true),
            ("x,*", "http://example.org/", true),
            (",.,", "http://example.org/", false),
            ("192.0.2.1", "http://192.0.2.1/", true),
            ("2.1", "http://192.0.2.1/", false),
            ("192.0.2.0/24", "http://192.0.2.1/", true),
            ("192.0.2.0/24", "http://192.0.3.1/", false),
            ("0.0.0.0/0", "http://192.0.2.1/", true),
            ("192.0.2.1/33", "http://192.0.2.1/", false),
            ("192.0.2.1/x", "http://192.0.2.1/", false),
            ("2001:db8::/32", "http://[2001:db8::1]/", true),
            ("::/0", "http://[2001:db8::1]/", true),
            ("[2001:db8::1]", "http://[2001:DB8:0::1]/", true),
            ("2001:db8::2", "http://[2001:db8::1]/", false),
            ("::/0", "http://192.0.2.1/", false),
        ] {
            let proxies = Proxies {
                except: list.to_owned(),
                ..of(&[("http_proxy", "p:1")])
            };
            let found = before(&proxies, url).is_none();
            assert_eq!(found, is_except, "{list} {url}");
        }
    }

    #[test]
    fn a_proxy_is_read_or_its_fault_is_told_without_its_text() {
        for (url, at, account) in [
            ("p", "p:1080", None),
            ("HTTP://p:80/", "p:80", None),
            ("http://[::1]", "[::1]:1080", None),
            ("http://[::1]:3128", "[::1]:3128", None),
            ("ann:p%40s@p:8", "p:8", Some(("ann", "p@s"))),
            ("http://ann@p", "p:1080", Some(("ann", ""))),
        ] {
            let found = parse(url).unwrap();
            let password = found.password.as_ref().map(Secret::reveal);
            let told = found.user.as_deref().zip(password);
            assert_eq!((found.to_string().as_str(), told), (at, account), "{url}");
        }
        for (url, fault) in [
            ("socks5://ann:secret@p:1", "socks5:// proxies are not"),
            ("https://ann:secret@p:1", "https:// proxies are not"),
            ("ann:secret@p://x", "no URL of a proxy"),
            ("http://ann:secret@p:port", "no URL of a proxy"),
            ("http://ann:secret@", "no URL of a proxy"),
        ] {
            let proxies = Proxies::read(|name| (name == "all_proxy").then(|| url.into()));
            let told = proxies
                .before(&site("https://h/x"))
                .unwrap_err()
                .to_string();
            assert!(told.starts_with("proxy: all_proxy: "), "{told}");
            assert!(told.contains(fault) && !told.contains("secret"), "{told}");
            assert!(!format!("{proxies:?}").contains("secret"), "{proxies:?}");
        }
    }
}
