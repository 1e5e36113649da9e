//! `KernelTransfer`: a move of bytes between a stream and a descriptor that stays in the kernel.

use std::os::fd::BorrowedFd;

use crate::error::Operation;

/// One transfer of [`Stream::poll_kernel`](crate::Stream::poll_kernel).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum KernelTransfer<'a> {
    /// Writes bytes that a [`SendFile`](Self::SendFile) follows at once, such as a block header.
    ///
    /// The stream may hold them back for a short time to send them together with the file.
    Head(&'a [u8]),
    /// Sends at most `len` bytes of `file`, from the byte `offset`.
    SendFile {
        /// The file, which may be none that the kernel can map.
        file: BorrowedFd<'a>,
        /// First byte of the file to send.
        offset: u64,
        /// Most bytes to send.
        len: usize,
    },
    /// Moves at most `len` received bytes into the write end of an empty pipe.
    ///
    /// From the pipe they go on to a file, so that bytes on their way from a socket to a file are
    /// copied once.
    Splice {
        /// The write end of the pipe.
        pipe: BorrowedFd<'a>,
        /// Most bytes to move.
        len: usize,
    },
}

impl KernelTransfer<'_> {
    /// The operation that this transfer stands for, in errors and to an
    /// [`Observer`](crate::Observer).
    #[must_use]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Head(_) => Operation::Write,
            Self::SendFile { .. } => Operation::SendFile,
            Self::Splice { .. } => Operation::Read,
        }
    }

    /// Most bytes that the transfer moves.
    pub(crate) const fn most(&self) -> usize {
        match self {
            Self::Head(bytes) => bytes.len(),
            Self::SendFile { len, .. } | Self::Splice { len, .. } => *len,
        }
    }

    /// The same transfer of at most `most` bytes.
    pub(crate) fn limited(mut self, most: usize) -> Self {
        match &mut self {
            Self::Head(bytes) => *bytes = bytes.get(..most).unwrap_or(bytes),
            Self::SendFile { len, .. } | Self::Splice { len, .. } => *len = most.min(*len),
        }
        self
    }
}

/// The kernel transfers that may work on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KernelTransfers {
    /// [`KernelTransfer::SendFile`], and [`KernelTransfer::Head`] before it.
    pub send_file: bool,
    /// [`KernelTransfer::Splice`].
    pub splice: bool,
}

impl KernelTransfers {
    /// No transfer works.
    pub const NONE: Self = Self {
        send_file: false,
        splice: false,
    };
    /// Every transfer may work.
    pub const ALL: Self = Self {
        send_file: true,
        splice: true,
    };
}
