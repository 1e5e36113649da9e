//! Axes and output of this bench's pictures.

use std::fs;

use anyhow::Result;
use workspace_benches::picture::{Axis, Picture, bytes, number};

use crate::options::Options;

/// Horizontal axis of block sizes.
pub(crate) const BLOCK_SIZE: Axis = Axis {
    name: "block size in bytes",
    log: true,
    from_zero: false,
    label: bytes,
};
/// Vertical axis of throughput.
pub(crate) const MEGABITS: Axis = Axis {
    name: "Mbit/s of original data",
    log: false,
    from_zero: true,
    label: number,
};

/// Draws a picture if a folder was given.
pub(crate) fn draw(options: &Options, name: &str, picture: &Picture) -> Result<()> {
    let Some(folder) = &options.pictures else {
        return Ok(());
    };
    fs::create_dir_all(folder)?;
    picture.draw(&folder.join(name).with_extension("svg"))
}
