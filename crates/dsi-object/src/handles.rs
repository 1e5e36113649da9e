//! `Handles`: the interfaces of a store, by the provider that its URL names.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use gridftp_dsi::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::{ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig};

use crate::parts::Parts;
use crate::store::Config;
use crate::url::{Scheme, Url};

/// Largest object that S3 copies in one request.
const S3_COPY: u64 = 5 << 30;

/// Longest time of one request, its retries excluded.
const REQUEST: Duration = Duration::from_secs(600);

/// The interfaces of one store.
pub(crate) struct Handles {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) parts: Parts,
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) copy_limit: u64,
}

impl Handles {
    /// `new` is the same store with the condition that there be no object.
    fn remote<S>(store: S, new: Option<S>, copy_limit: u64) -> Self
    where
        S: ObjectStore + MultipartStore + PaginatedListStore,
    {
        let store = Arc::new(store);
        let new = new.map(|new| Arc::new(new) as Arc<dyn MultipartStore>);
        Self {
            objects: store.clone(),
            parts: Parts::Store(store.clone(), new),
            pages: Some(store),
            copy_limit,
        }
    }
}

pub(crate) fn failed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Io, "open store").because(why)
}

/// The names and values of a file of credentials. Errors show no value.
fn credentials(file: Option<&FilePath>) -> Result<Vec<(String, String)>> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error).at(file.display()))?;
    let lines = text.lines().map(str::trim).enumerate();
    let pairs = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let pair = |(number, line): (usize, &str)| {
        let (name, value) = line.split_once('=').ok_or_else(|| {
            failed(format!("line {} is not NAME=VALUE", number + 1)).at(file.display())
        })?;
        let name = name
            .trim()
            .trim_start_matches("export ")
            .to_ascii_lowercase();
        Ok((name, value.trim().trim_matches('"').to_owned()))
    };
    pairs.map(pair).collect()
}

/// The settings of connections.
fn client_options(config: &Config) -> ClientOptions {
    let endpoint = config.endpoint.as_deref();
    ClientOptions::new()
        .with_timeout(REQUEST)
        .with_connect_timeout(Duration::from_secs(10))
        .with_allow_http(endpoint.is_some_and(|url| url.starts_with("http://")))
}

/// A store of S3, and the same one for completions that replace nothing: `object_store` has no
/// condition for them, but sends and signs its default headers with them.
fn s3(builder: AmazonS3Builder, config: &Config) -> Result<Handles> {
    let mut headers = HeaderMap::new();
    headers.insert("if-none-match", HeaderValue::from_static("*"));
    let options = client_options(config).with_default_headers(headers);
    let conditions = builder.get_config_value(&AmazonS3ConfigKey::ConditionalPut);
    let store = builder.clone().build().map_err(failed)?;
    // The header belongs to no request for credentials.
    let credentials = Arc::clone(store.credentials());
    let new = (conditions.as_deref() != Some("disabled")).then(|| {
        let builder = builder.with_credentials(credentials);
        builder.with_client_options(options).build()
    });
    let new = new.transpose().map_err(failed)?;
    Ok(Handles::remote(store, new, S3_COPY))
}

/// Applies the common settings to a builder of `object_store`.
macro_rules! builder {
    ($builder:ty, $url:expr, $config:expr, $key:ty) => {{
        // The time alone bounds the attempts.
        let retry = RetryConfig {
            retry_timeout: $config.retry,
            max_retries: usize::MAX,
            ..RetryConfig::default()
        };
        let mut builder = <$builder>::from_env()
            .with_url($url)
            .with_retry(retry)
            .with_client_options(client_options($config));
        for (name, value) in credentials($config.credentials.as_deref())? {
            let key: $key = name
                .parse()
                .map_err(|_| failed(format!("{name} in the file of credentials is unknown")))?;
            builder = builder.with_config(key, value);
        }
        builder
    }};
}

impl Handles {
    /// Connects to nothing yet: a wrong key shows with the first request.
    pub(crate) fn open(config: &Config, url: &Url<'_>) -> Result<Self> {
        let bucket = url.bucket;
        Ok(match url.scheme {
            Scheme::S3 => {
                let url = format!("s3://{bucket}");
                let mut builder = builder!(AmazonS3Builder, url, config, AmazonS3ConfigKey);
                if let Some(endpoint) = &config.endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                if let Some(region) = &config.region {
                    builder = builder.with_region(region);
                }
                s3(builder, config)?
            }
            Scheme::Google => {
                let url = format!("gs://{bucket}");
                let mut builder = builder!(GoogleCloudStorageBuilder, url, config, GoogleConfigKey);
                if let Some(endpoint) = &config.endpoint {
                    builder = builder.with_base_url(endpoint);
                }
                Self::remote(builder.build().map_err(failed)?, None, u64::MAX)
            }
            Scheme::Azure => {
                let url = format!("az://{bucket}");
                let mut builder = builder!(MicrosoftAzureBuilder, url, config, AzureConfigKey);
                if let Some(endpoint) = &config.endpoint {
                    builder = builder.with_endpoint(endpoint.clone());
                }
                Self::remote(builder.build().map_err(failed)?, None, u64::MAX)
            }
            Scheme::Local => {
                let store = LocalFileSystem::new_with_prefix(url.prefix);
                let store = store.map_err(|error| failed(error).at(url.prefix))?;
                let store = Arc::new(store.with_automatic_cleanup(true));
                Self {
                    objects: store.clone(),
                    parts: Parts::Local(store),
                    pages: None,
                    copy_limit: u64::MAX,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn a_file_of_credentials_has_names_and_values_and_errors_hide_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secrets");
        std::fs::write(
            &file,
            "# mine\nAWS_ACCESS_KEY_ID = me\nexport AWS_SECRET_ACCESS_KEY=\"a=b\"\n",
        )
        .unwrap();
        let pairs = credentials(Some(&file)).unwrap();
        assert_eq!(pairs[0], ("aws_access_key_id".into(), "me".into()));
        assert_eq!(pairs[1], ("aws_secret_access_key".into(), "a=b".into()));
        std::fs::write(&file, "\nsecretword\n").unwrap();
        let error = credentials(Some(&file)).unwrap_err();
        let text = format!("{error:?}");
        assert!(
            text.contains("line 2") && !text.contains("secretword"),
            "{text}"
        );
        let mut config = Config::new("s3://b", dir.path());
        config.credentials = Some(file.clone());
        std::fs::write(&file, "no_such_key=secretword\n").unwrap();
        let text = format!("{:?}", Store::open(&config).unwrap_err());
        assert!(
            text.contains("no_such_key") && !text.contains("secretword"),
            "{text}"
        );
    }
}
