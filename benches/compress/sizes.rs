//! Compressed size of each set in blocks of 16 KiB, beside tables 1 and 2 of the paper.

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_compress::{Compress, Compression};
use xio_core::{Stream, Transform};
use xio_testkit::Mem;

use crate::data::{SETS, Sets};
use crate::run::runtime;

/// Percentages of the paper for zlib and LZO.
const PAPER: [(&str, f64, f64); 5] = [
    ("zero", 0.14, 0.43),
    ("ascii", 8.15, 15.05),
    ("binary", 38.76, 49.94),
    ("media", 97.70, 98.72),
    ("random", 100.05, 100.42),
];

/// Prints the table.
pub(crate) fn run(sets: &Sets) -> Result<()> {
    println!(
        "\nBytes on the wire in blocks of 16 KiB, including headers, in percent of the original.\n"
    );
    println!("| Data | zlib | paper | LZO | paper | zstd | LZ4 | zstd in 64 KiB |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (name, _) in SETS {
        let paper = PAPER.iter().find(|(set, ..)| *set == name);
        let [zlib, lzo] = paper.map_or_else(Default::default, |(_, zlib, lzo)| {
            [zlib, lzo].map(|percent| format!("{percent:.2}"))
        });
        let bytes = sets.bytes(name)?;
        let percent = |options| percent(&bytes, options);
        println!(
            "| {name} | {:.2} | {zlib} | {:.2} | {lzo} | {:.2} | {:.2} | {:.2} |",
            percent("codec=zlib;block=16K")?,
            percent("codec=lzo;block=16K")?,
            percent("codec=zstd;block=16K")?,
            percent("codec=lz4;block=16K")?,
            percent("codec=zstd;block=64K")?,
        );
    }
    Ok(())
}

/// Sends the bytes through the driver over a connection in memory.
fn percent(bytes: &[u8], options: &str) -> Result<f64> {
    let layer = Compress::new().with_options(options.parse()?);
    runtime().block_on(async {
        let (inner, mut peer) = Mem::new().capacity(1 << 20).pair();
        let mut stream = layer.respond(inner).await?;
        let mut sink = vec![0; 1 << 20];
        let writing = async {
            stream.write_all(bytes).await?;
            stream.shutdown().await?;
            Ok(stream.info())
        };
        let reading = async {
            while peer.read(&mut sink).await? > 0 {}
            Ok::<_, anyhow::Error>(())
        };
        let (info, ()) = tokio::try_join!(writing, reading)?;
        let moved = *info
            .get::<Compression>()
            .context("the layer counts its bytes")?;
        Ok(100.0 * ratio(moved.sent, moved.written))
    })
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
