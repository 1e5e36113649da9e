//! `Place`: a file at a web server, and the places that its server leads to.

use super::request::host;
use crate::url::{Location, Scheme, Site, url_path};

/// A file at a web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) site: Site,
    /// Path and query of the request.
    pub(super) target: Vec<u8>,
}

impl Place {
    /// Whether it is at the same server, under the same scheme: no account and no certificate is
    /// shown to another.
    pub(super) fn is_at(&self, site: &Site) -> bool {
        self.site.scheme == site.scheme
            && self.site.port == site.port
            && self.site.host.eq_ignore_ascii_case(&site.host)
    }

    /// The target of a request to the server.
    pub(super) fn target(&self) -> String {
        String::from_utf8_lossy(&self.target).into_owned()
    }

    /// The target of a request to a proxy (RFC 9112 §3.2.2).
    pub(super) fn url(&self) -> String {
        let (scheme, host) = (self.site.scheme.name(), host(&self.site));
        format!("{scheme}://{host}{}", self.target())
    }

    /// The place that a field `Location` leads to from here, without an account.
    ///
    /// # Errors
    /// The fault of one that is not followed.
    pub(super) fn follow(&self, location: &str) -> Result<Self, &'static str> {
        let scheme = self.site.scheme.name();
        let authority = || self.site.to_string();
        let here = String::from_utf8_lossy(&self.target);
        let path = here.split('?').next().unwrap_or_default();
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let is_absolute = location.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        });
        let url = match location {
            "" => return Err("nowhere: its field Location is empty"),
            _ if is_absolute => location.to_owned(),
            _ if location.starts_with("//") => format!("{scheme}:{location}"),
            _ if location.starts_with('/') => format!("{scheme}://{}{location}", authority()),
            _ if location.starts_with(['?', '#']) => {
                format!("{scheme}://{}{path}{location}", authority())
            }
            _ => format!("{scheme}://{}{}", authority(), merged(dir, location)),
        };
        let Ok(Location::Remote(remote)) = Location::parse(&url) else {
            return Err("to something that is no URL of a web server");
        };
        if url_path(&remote.path) == format!("{path}/").as_bytes() {
            return Err("to a directory, and web servers have no listings");
        }
        let mut site = remote.site;
        (site.user, site.password) = (None, None);
        match (self.site.scheme, site.scheme) {
            (_, to) if !to.is_web() => Err("to something that is no URL of a web server"),
            (Scheme::Https, Scheme::Http) => {
                Err("from https:// to http://, which protects nothing")
            }
            _ => Ok(Self {
                site,
                target: remote.path,
            }),
        }
    }
}

/// A relative path in the directory `dir`, without the names `.` and `..` (RFC 3986 §5.2.4).
fn merged(dir: &str, location: &str) -> String {
    let end = location.find(['?', '#']).unwrap_or(location.len());
    let (path, rest) = location.split_at(end);
    let mut names: Vec<_> = dir.split('/').skip(1).collect();
    for name in path.split('/') {
        match name {
            "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    if matches!(path.rsplit('/').next(), Some("." | "..")) {
        names.push("");
    }
    format!("/{}{rest}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        let Ok(Location::Remote(remote)) = Location::parse(url) else {
            panic!("{url}");
        };
        Place {
            site: remote.site,
            target: remote.path,
        }
    }

    #[test]
    fn a_place_is_followed_as_rfc_3986_says() {
        let here = place("https://ann:pw@h:8443/d/f?x=1");
        for (location, wanted) in [
            ("https://other/g", "https://other/g"),
            ("//other/g?y", "https://other/g?y"),
            ("/g", "https://h:8443/g"),
            ("g", "https://h:8443/d/g"),
            ("./g?../y", "https://h:8443/d/g?../y"),
            ("../e/g", "https://h:8443/e/g"),
            ("../../g", "https://h:8443/g"),
            ("?y=2", "https://h:8443/d/f?y=2"),
            ("/login?to=http://h/x", "https://h:8443/login?to=http://h/x"),
            ("https://bob:pw@h:8443/g", "https://h:8443/g"),
        ] {
            assert_eq!(here.follow(location), Ok(place(wanted)), "{location}");
        }
    }

    #[test]
    fn a_proxy_is_told_the_whole_url_without_its_account() {
        for (url, own, whole) in [
            ("http://ann:pw@h/f?x=%20", "/f?x=%20", "http://h/f?x=%20"),
            ("http://[::1]:8080", "/", "http://[::1]:8080/"),
        ] {
            let place = place(url);
            assert_eq!([place.target(), place.url()], [own, whole], "{url}");
        }
    }

    #[test]
    fn protection_is_not_left_and_no_other_protocol_entered() {
        let here = place("https://h/f");
        for (location, why) in [
            ("http://h/f", "protects nothing"),
            ("ftp://h/f", "no URL of a web server"),
            ("file:///etc/passwd", "no URL of a web server"),
            ("https://", "no URL of a web server"),
            ("", "nowhere"),
            ("/f/", "to a directory"),
            ("https://other/f/?x", "to a directory"),
        ] {
            let refused = here.follow(location).unwrap_err();
            assert!(refused.contains(why), "{location}: {refused}");
        }
        assert!(place("http://h/f").follow("https://h/f").is_ok());
    }

    #[test]
    fn an_account_is_for_one_server_only() {
        let here = place("https://ann:pw@h/f");
        for (location, is_own) in [
            ("/g", true),
            ("https://H:443/g", true),
            ("https://h:444/g", false),
            ("https://h.other/g", false),
        ] {
            let next = here.follow(location).unwrap();
            assert_eq!(next.is_at(&here.site), is_own, "{location}");
            assert_eq!((next.site.user, next.site.password), (None, None));
        }
        assert!(!place("https://h/f").is_at(&place("http://h:443/f").site));
    }
}
