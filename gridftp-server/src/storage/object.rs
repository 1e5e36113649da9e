//! `object`: the options of a storage in an object store.

use std::sync::Arc;

use gridftp_dsi::DynDsi;
use gridftp_dsi_object::{Config, Objects};
use xio::{ByteSize, Entry, Error, ErrorKind, Operation, Options as _, Result, Setting};

use super::Defaults;

xio::options! {
    /// Options of an object store.
    pub(super) struct ObjectOptions for "object" {
        /// File with NAME=VALUE lines of the provider's keys; the environment by default.
        credentials: Option<String> = None, "credentials", Setting::new().takes("a path", &["/etc/gridftp/s3.keys"]).local();
        /// URL of the service; the provider's own by default.
        endpoint: Option<String> = None, "endpoint", Setting::new().takes("a URL", &["http://127.0.0.1:7070"]).local();
        /// Directory of the journals of uploads; objects in that of --partial-index by default.
        index: Option<String> = None, "index", Setting::new().takes("a path", &["/var/lib/gridftp/bucket"]).local();
        /// Bytes of a part, at most those of --part-memory; max(8M, length / 9000) by default, or
        /// for an unknown length an eighth of --part-memory, at least 8M and at most 128M.
        part: Option<ByteSize> = None, "part";
        /// Bytes read ahead for one download.
        read_ahead: ByteSize = ByteSize::new(64 << 20), "read_ahead";
        /// Region of the bucket; that of the environment by default.
        region: Option<String> = None, "region", Setting::new().takes("a name", &["eu-west-1"]).local();
        /// The store and a prefix of its keys.
        url: Option<String> = None, "url", Setting::new().takes("a URL", &["s3://bucket/prefix"]).local();
    }
}

fn bad(fact: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadOption, "object", Operation::Plan, fact.into())
}

/// Name of the directory of journals in that of --partial-index, which has other files.
const JOURNALS: &str = "objects";

/// The settings of an entry, without an index where it names none.
pub(super) fn config(entry: &Entry, part_memory: u64) -> Result<Config> {
    let options = ObjectOptions::from_entry(entry)?;
    let url = options
        .url
        .ok_or_else(|| bad("the storage needs its url, as url=s3://bucket"))?;
    let mut config = Config::new(url, options.index.unwrap_or_default());
    config.endpoint = options.endpoint;
    config.region = options.region;
    config.credentials = options.credentials.map(Into::into);
    config.part = options.part.map(ByteSize::bytes);
    config.read_ahead = options.read_ahead.bytes();
    config.memory = part_memory;
    config
        .check()
        .map_err(|error| bad(crate::error::chain(&error)))?;
    Ok(config)
}

/// Opens the store of an entry.
pub(super) fn open(entry: &Entry, defaults: &Defaults) -> gridftp_dsi::Result<Arc<dyn DynDsi>> {
    let failed = |error: Error| {
        gridftp_dsi::Error::new(gridftp_dsi::ErrorKind::BadName, "open store").because(error)
    };
    let mut config = config(entry, defaults.part_memory).map_err(failed)?;
    config.read_memory = defaults.read_memory.clone();
    if config.index.as_os_str().is_empty() {
        let index = defaults.index.as_ref().ok_or_else(|| {
            failed(bad(
                "the storage needs its index, as index=/var/lib/gridftp/bucket",
            ))
        })?;
        config.index = index.join(JOURNALS);
    }
    Ok(Arc::new(Objects::open(&config)?))
}

#[cfg(test)]
mod tests {
    use xio::Plan;

    use super::*;

    #[test]
    fn options_are_decoded_once() {
        let text = "object:url=s3://b/p%2520%3Bq;part=16M;read_ahead=1M;region=r";
        let plan: Plan = text.parse().unwrap();
        let config = config(&plan.entries()[0], 128 << 20).unwrap();
        assert_eq!(config.url, "s3://b/p%20;q");
        assert_eq!((config.part, config.read_ahead), (Some(16 << 20), 1 << 20));
        assert_eq!(config.region.as_deref(), Some("r"));
    }

    #[test]
    fn parts_are_not_empty_and_fit_into_the_memory_for_them() {
        for part in ["0", "17M"] {
            let plan: Plan = format!("object:url=s3://b;part={part}").parse().unwrap();
            let error = config(&plan.entries()[0], 16 << 20).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadOption, "{error}");
        }
    }

    #[test]
    fn journals_have_a_directory_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let defaults = Defaults {
            index: Some(dir.path().to_owned()),
            part_memory: 16 << 20,
            ..Defaults::default()
        };
        let text = format!("object:url=file://{}", dir.path().display());
        let plan: Plan = text.parse().unwrap();
        open(&plan.entries()[0], &defaults).unwrap();
        assert!(dir.path().join("objects").is_dir());
    }
}
