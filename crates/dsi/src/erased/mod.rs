//! `DynDsi`: the boxed twin of `Dsi`, for a backend chosen at run time.

mod open;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;

pub use self::open::{BoxListing, BoxSink, BoxSource};
use crate::dsi::Dsi;
use crate::error::Result;
use crate::types::{
    Attribute, Capabilities, ChecksumAlgorithm, Create, DsiPath, Meta, Partial, Progress, Staging,
    Stat, User,
};

/// A boxed future that borrows for `'a`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The boxed future of a backend's operation.
pub type BoxResult<'a, T> = BoxFuture<'a, Result<T>>;

/// Any [`Dsi`] behind a pointer; `Arc<dyn DynDsi>` is itself a [`Dsi`].
///
/// Every method calls its namesake without `_dyn`, at the cost of one allocation.
#[expect(missing_docs, reason = "each method is its namesake in `Dsi`")]
pub trait DynDsi: Send + Sync + 'static {
    fn capabilities_dyn(&self) -> Capabilities;
    fn identity_dyn(&self) -> Option<String>;
    fn stat_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, Stat>;
    fn free_space_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, u64>;
    fn list_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxListing>;
    fn read_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxSource>;
    fn write_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        how: Create,
    ) -> BoxResult<'a, BoxSink>;
    fn join_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        token: &'a [u8],
    ) -> BoxResult<'a, BoxSink>;
    fn stage_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        task: &'a str,
        within: Duration,
    ) -> BoxResult<'a, Staging>;
    fn held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, RangeSet>;
    fn partials_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
    ) -> BoxResult<'a, (Vec<Partial>, bool)>;
    fn drop_held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn expire_dyn(&self, age: Duration) -> BoxResult<'_, u64>;
    fn make_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn remove_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn remove_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn remove_tree_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn rename_dyn<'a>(
        &'a self,
        user: &'a User,
        from: &'a DsiPath,
        to: &'a DsiPath,
    ) -> BoxResult<'a, ()>;
    fn symlink_dyn<'a>(
        &'a self,
        user: &'a User,
        target: &'a [u8],
        link: &'a DsiPath,
    ) -> BoxResult<'a, ()>;
    fn set_meta_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        meta: Meta,
    ) -> BoxResult<'a, ()>;
    fn attributes_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
    ) -> BoxResult<'a, Vec<Attribute>>;
    fn set_attribute_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        attribute: Attribute,
    ) -> BoxResult<'a, ()>;
    fn truncate_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        length: u64,
    ) -> BoxResult<'a, ()>;
    fn checksum_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &'a Progress,
    ) -> BoxResult<'a, String>;
}

impl<D: Dsi> DynDsi for D {
    fn capabilities_dyn(&self) -> Capabilities {
        self.capabilities()
    }

    fn identity_dyn(&self) -> Option<String> {
        self.identity()
    }

    fn stat_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, Stat> {
        Box::pin(self.stat(user, path))
    }

    fn free_space_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, u64> {
        Box::pin(self.free_space(user, path))
    }

    fn list_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxListing> {
        Box::pin(async move { Ok(BoxListing::new(self.list(user, path).await?)) })
    }

    fn read_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxSource> {
        Box::pin(async move { Ok(BoxSource::new(self.read(user, path).await?)) })
    }

    fn write_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        how: Create,
    ) -> BoxResult<'a, BoxSink> {
        Box::pin(async move { Ok(BoxSink::new(self.write(user, path, how).await?)) })
    }

    fn join_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        token: &'a [u8],
    ) -> BoxResult<'a, BoxSink> {
        Box::pin(async move { Ok(BoxSink::new(self.join(user, path, token).await?)) })
    }

    fn stage_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        task: &'a str,
        within: Duration,
    ) -> BoxResult<'a, Staging> {
        Box::pin(self.stage(user, path, task, within))
    }

    fn held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, RangeSet> {
        Box::pin(self.held(user, path))
    }

    fn partials_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
    ) -> BoxResult<'a, (Vec<Partial>, bool)> {
        Box::pin(self.partials(user, path))
    }

    fn drop_held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.drop_held(user, path))
    }

    fn expire_dyn(&self, age: Duration) -> BoxResult<'_, u64> {
        Box::pin(self.expire(age))
    }

    fn make_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.make_dir(user, path))
    }

    fn remove_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.remove_dir(user, path))
    }

    fn remove_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.remove(user, path))
    }

    fn remove_tree_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.remove_tree(user, path))
    }

    fn rename_dyn<'a>(
        &'a self,
        user: &'a User,
        from: &'a DsiPath,
        to: &'a DsiPath,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.rename(user, from, to))
    }

    fn symlink_dyn<'a>(
        &'a self,
        user: &'a User,
        target: &'a [u8],
        link: &'a DsiPath,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.symlink(user, target, link))
    }

    fn set_meta_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        meta: Meta,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.set_meta(user, path, meta))
    }

    fn attributes_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
    ) -> BoxResult<'a, Vec<Attribute>> {
        Box::pin(self.attributes(user, path))
    }

    fn set_attribute_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        attribute: Attribute,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.set_attribute(user, path, attribute))
    }

    fn truncate_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        length: u64,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.truncate(user, path, length))
    }

    fn checksum_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &'a Progress,
    ) -> BoxResult<'a, String> {
        Box::pin(self.checksum(user, path, algorithm, offset, length, progress))
    }
}

impl Dsi for Arc<dyn DynDsi> {
    type Source = BoxSource;
    type Sink = BoxSink;
    type Listing = BoxListing;

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities_dyn()
    }

    fn identity(&self) -> Option<String> {
        (**self).identity_dyn()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        (**self).stat_dyn(user, path).await
    }

    async fn free_space(&self, user: &User, path: &DsiPath) -> Result<u64> {
        (**self).free_space_dyn(user, path).await
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<BoxListing> {
        (**self).list_dyn(user, path).await
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<BoxSource> {
        (**self).read_dyn(user, path).await
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<BoxSink> {
        (**self).write_dyn(user, path, how).await
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<BoxSink> {
        (**self).join_dyn(user, path, token).await
    }

    async fn stage(
        &self,
        user: &User,
        path: &DsiPath,
        task: &str,
        within: Duration,
    ) -> Result<Staging> {
        (**self).stage_dyn(user, path, task, within).await
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        (**self).held_dyn(user, path).await
    }

    async fn partials(&self, user: &User, path: &DsiPath) -> Result<(Vec<Partial>, bool)> {
        (**self).partials_dyn(user, path).await
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).drop_held_dyn(user, path).await
    }

    async fn expire(&self, age: Duration) -> Result<u64> {
        (**self).expire_dyn(age).await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).make_dir_dyn(user, path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).remove_dir_dyn(user, path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).remove_dyn(user, path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).remove_tree_dyn(user, path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        (**self).rename_dyn(user, from, to).await
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        (**self).symlink_dyn(user, target, link).await
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        (**self).set_meta_dyn(user, path, meta).await
    }

    async fn attributes(&self, user: &User, path: &DsiPath) -> Result<Vec<Attribute>> {
        (**self).attributes_dyn(user, path).await
    }

    async fn set_attribute(&self, user: &User, path: &DsiPath, attribute: Attribute) -> Result<()> {
        (**self).set_attribute_dyn(user, path, attribute).await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        (**self).truncate_dyn(user, path, length).await
    }

    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        (**self)
            .checksum_dyn(user, path, algorithm, offset, length, progress)
            .await
    }
}

impl fmt::Debug for dyn DynDsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynDsi({})", self.capabilities_dyn().name)
    }
}
