//! `Parts`: uploads in parts, to a store or to a directory of this machine.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, Result};

/// One upload in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upload {
    /// The key of the object.
    pub(crate) key: Path,
    /// The name that the store gave the upload.
    pub(crate) id: String,
    /// Bytes of every part but the last.
    pub(crate) part: u64,
}

/// The way of a store to take parts.
#[derive(Clone)]
pub(crate) enum Parts {
    /// The second one, if the store has such conditions, completes an upload only where there is no
    /// object.
    Store(Arc<dyn MultipartStore>, Option<Arc<dyn MultipartStore>>),
    /// A sparse file beside the final one. Its name ends in `#` and digits, which
    /// [`LocalFileSystem`] neither lists nor opens.
    Local(Arc<LocalFileSystem>),
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store(..) => "Parts::Store",
            Self::Local(_) => "Parts::Local",
        })
    }
}

impl Parts {
    /// Begins an upload.
    pub(crate) async fn begin(&self, key: &Path, part: u64) -> Result<Upload> {
        let id = match self {
            Self::Store(store, _) => store.create_multipart(key).await?,
            Self::Local(files) => {
                let nanos = SystemTime::now().duration_since(UNIX_EPOCH);
                let mut number = nanos.map_or(0, |time| time.as_nanos());
                let base = files.path_to_filesystem(key)?;
                blocking(move || {
                    if let Some(dir) = base.parent() {
                        std::fs::create_dir_all(dir)?;
                    }
                    loop {
                        let id = number.to_string();
                        match File::create_new(staged(&base, &id)) {
                            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                                number += 1;
                            }
                            done => return done.map(|_| id),
                        }
                    }
                })
                .await?
            }
        };
        Ok(Upload {
            key: key.clone(),
            id,
            part,
        })
    }

    /// Uploads the part with this index and returns its name for the completion.
    pub(crate) async fn put(&self, upload: &Upload, index: usize, data: Bytes) -> Result<String> {
        match self {
            Self::Store(store, _) => {
                let put = store.put_part(&upload.key, &upload.id, index, data.into());
                Ok(put.await?.content_id)
            }
            Self::Local(files) => {
                let file = staged(&files.path_to_filesystem(&upload.key)?, &upload.id);
                let at = upload.part.saturating_mul(index as u64);
                blocking(move || {
                    let file = OpenOptions::new().write(true).open(file)?;
                    file.write_all_at(&data, at)?;
                    file.sync_data()
                })
                .await?;
                Ok(index.to_string())
            }
        }
    }

    /// Publishes the object of these parts, and returns its entity tag. An `exclusive` one replaces
    /// nothing, where the store has conditions for that.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] or [`Error::Precondition`] where it would.
    pub(crate) async fn complete(
        &self,
        upload: &Upload,
        parts: Vec<String>,
        size: u64,
        exclusive: bool,
    ) -> Result<Option<String>> {
        match self {
            Self::Store(store, new) => {
                let store = new.as_ref().filter(|_| exclusive).unwrap_or(store);
                let parts = parts.into_iter().map(|content_id| PartId { content_id });
                let done = store.complete_multipart(&upload.key, &upload.id, parts.collect());
                Ok(done.await?.e_tag)
            }
            Self::Local(files) => {
                let target = files.path_to_filesystem(&upload.key)?;
                let file = staged(&target, &upload.id);
                let named = move || {
                    let whole = OpenOptions::new().write(true).open(&file)?;
                    whole.set_len(size)?;
                    whole.sync_all()?;
                    if exclusive {
                        std::fs::hard_link(&file, &target)?;
                        return std::fs::remove_file(&file);
                    }
                    std::fs::rename(&file, &target)
                };
                match tokio::task::spawn_blocking(named).await? {
                    Ok(()) => Ok(None),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        Err(Error::AlreadyExists {
                            path: upload.key.to_string(),
                            source: Box::new(error),
                        })
                    }
                    Err(error) => Err(local(error)),
                }
            }
        }
    }

    /// Ends an upload that was given up in the middle of parts, and removes them. A store may take
    /// those for a while, `late`, after it has ended the upload, and wants to be asked again (the
    /// documentation of `AbortMultipartUpload` of S3).
    pub(crate) async fn give_up(&self, upload: &Upload, late: Duration) -> Result<()> {
        self.abort(upload).await?;
        if let Self::Store(..) = self {
            tokio::time::sleep(late).await;
            self.abort(upload).await?;
        }
        Ok(())
    }

    /// Ends an upload and removes its parts. Returns whether there was one.
    pub(crate) async fn abort(&self, upload: &Upload) -> Result<bool> {
        let done = match self {
            Self::Store(store, _) => store.abort_multipart(&upload.key, &upload.id).await,
            Self::Local(files) => {
                let file = staged(&files.path_to_filesystem(&upload.key)?, &upload.id);
                let removed = blocking(move || match std::fs::remove_file(file) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    done => done.map(|()| true),
                });
                return removed.await;
            }
        };
        match done {
            Err(Error::NotFound { .. }) => Ok(false),
            done => done.map(|()| true),
        }
    }
}

/// Beginning of the name of an unfinished upload to a directory of this machine.
const STAGED: &str = "part#";

fn staged(target: &FilePath, id: &str) -> PathBuf {
    target.with_file_name(format!("{STAGED}{id}"))
}

/// Removes unfinished uploads from a directory, which they do not keep.
pub(crate) fn remove_staged(dir: &FilePath) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(STAGED));
        if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Runs file operations on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await?;
    done.map_err(local)
}

/// An error of a directory of this machine.
fn local(error: io::Error) -> Error {
    Error::Generic {
        store: "LocalFileSystem",
        source: Box::new(error),
    }
}
