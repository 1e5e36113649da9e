//! `Url`: the provider, bucket and prefix of a store.

use gridftp_dsi::{Error, ErrorKind, Result};

/// The provider of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Google,
    Azure,
    Local,
}

/// The parts of a URL.
#[derive(Debug)]
pub(crate) struct Url<'u> {
    pub(crate) scheme: Scheme,
    pub(crate) bucket: &'u str,
    pub(crate) prefix: &'u str,
}

impl<'u> Url<'u> {
    /// # Errors
    /// Another form of URL.
    pub(crate) fn parse(url: &'u str) -> Result<Self> {
        let bad = || {
            let fact = format!(
                "{url} is not a store, the forms are s3://bucket/prefix, gs://bucket/prefix, \
                 az://container/prefix and file:///path"
            );
            Error::new(ErrorKind::BadName, "open store").because(fact)
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let scheme = match scheme {
            "s3" => Scheme::S3,
            "gs" => Scheme::Google,
            "az" => Scheme::Azure,
            "file" if rest.starts_with('/') => Scheme::Local,
            _ => return Err(bad()),
        };
        let (bucket, prefix) = match scheme {
            Scheme::Local => ("", rest),
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        if bucket.is_empty() && scheme != Scheme::Local {
            return Err(bad());
        }
        Ok(Self {
            scheme,
            bucket,
            prefix,
        })
    }

    /// The bucket and the prefix in one form; `None` for a local directory, as the same path is
    /// another directory on each host.
    pub(crate) fn identity(&self) -> Option<String> {
        let scheme = match self.scheme {
            Scheme::S3 => "s3",
            Scheme::Google => "gs",
            Scheme::Azure => "az",
            Scheme::Local => return None,
        };
        let prefix = self.prefix.trim_matches('/');
        Some(format!("{scheme}://{}/{prefix}", self.bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_store_and_a_prefix_that_is_not_decoded() {
        let url = Url::parse("s3://bucket/a%20b/é#?").unwrap();
        assert_eq!(
            (url.scheme, url.bucket, url.prefix),
            (Scheme::S3, "bucket", "a%20b/é#?")
        );
        let url = Url::parse("gs://bucket").unwrap();
        assert_eq!(
            (url.scheme, url.bucket, url.prefix),
            (Scheme::Google, "bucket", "")
        );
        let url = Url::parse("file:///srv/data").unwrap();
        assert_eq!((url.scheme, url.prefix), (Scheme::Local, "/srv/data"));
        for bad in ["bucket", "s3:///x", "http://x/y", "file://x", "s3:bucket"] {
            let error = Url::parse(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadName, "{bad}");
        }
    }

    #[test]
    fn one_prefix_of_a_bucket_has_one_identity() {
        let of = |url| Url::parse(url).unwrap().identity();
        assert_eq!(of("s3://b/run/7/"), of("s3://b/run/7"));
        assert_eq!(of("s3://b"), of("s3://b/"));
        for other in ["s3://c/run", "gs://b/run", "s3://b/run7", "s3://b"] {
            assert_ne!(of("s3://b/run"), of(other), "{other}");
        }
        assert_eq!(of("file:///srv/data"), None);
    }
}
