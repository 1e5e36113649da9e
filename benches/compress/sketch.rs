//! What the pictures of this bench have in common.

use std::fs;

use anyhow::Result;
use workspace_benches::picture::{Axis, Picture, bytes, number};

use crate::options::Options;

/// Block sizes to the right.
pub(crate) const BLOCK_SIZE: Axis = Axis {
    name: "block size in bytes",
    log: true,
    from_zero: false,
    label: bytes,
};
/// Throughput upwards.
pub(crate) const MEGABITS: Axis = Axis {
    name: "Mbit/s of original data",
    log: false,
    from_zero: true,
    label: number,
};

/// Draws a picture where pictures are wanted.
pub(crate) fn draw(options: &Options, name: &str, picture: &Picture) -> Result<()> {
    let Some(folder) = &options.pictures else {
        return Ok(());
    };
    fs::create_dir_all(folder)?;
    picture.draw(&folder.join(name).with_extension("svg"))
}
