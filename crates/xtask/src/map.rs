//! The README's map: one row per crate, with the description from its manifest.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::metadata::{Metadata, root};

const START: &str = "<!-- map: cargo xtask map --write -->\n";
const END: &str = "<!-- end of map -->\n";

/// Prints the map, or writes it to the README.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let map = draw(&Metadata::read()?);
    match words {
        [] => print!("{map}"),
        [flag] if flag == "--write" => {
            let path = root().join("README.md");
            let text = fs::read_to_string(&path)?;
            let (before, _, after) = parts(&text)?;
            fs::write(&path, format!("{before}{START}{map}{END}{after}"))?;
        }
        _ => bail!("map takes --write or nothing"),
    }
    Ok(())
}

/// Returns the map of the workspace as a table.
pub(crate) fn draw(metadata: &Metadata) -> String {
    let mut map = "| Folder | Package | What it is |\n| --- | --- | --- |\n".to_owned();
    for package in metadata.members() {
        let description = package.description.as_deref().unwrap_or_default();
        let _ = writeln!(
            map,
            "| `{}/` | `{}` | {description} |",
            package.folder().display(),
            package.name
        );
    }
    map
}

/// Returns the map in the text of a README.
pub(crate) fn current(readme: &str) -> Result<&str> {
    parts(readme).map(|(_, map, _)| map)
}

fn parts(readme: &str) -> Result<(&str, &str, &str)> {
    let (before, rest) = readme
        .split_once(START)
        .context("README.md lacks the comment at the start of the map")?;
    let (map, after) = rest
        .split_once(END)
        .context("README.md lacks the comment at the end of the map")?;
    Ok((before, map, after))
}
