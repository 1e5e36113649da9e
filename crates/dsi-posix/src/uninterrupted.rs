//! System calls that a signal may interrupt (`EINTR`), repeated until they succeed or fail.

use rustix::fd::AsFd;
use rustix::io::{Result, retry_on_intr};

pub(crate) fn fsync(file: impl AsFd) -> Result<()> {
    retry_on_intr(|| rustix::fs::fsync(&file))
}

pub(crate) fn fdatasync(file: impl AsFd) -> Result<()> {
    retry_on_intr(|| rustix::fs::fdatasync(&file))
}

pub(crate) fn ftruncate(file: impl AsFd, length: u64) -> Result<()> {
    retry_on_intr(|| rustix::fs::ftruncate(&file, length))
}
