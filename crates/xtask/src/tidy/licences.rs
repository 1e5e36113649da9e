//! Licences of dependencies.

use anyhow::{Context, Result};

use crate::cargo;
use crate::metadata::Metadata;

/// The list of `.deny.toml`, for developers without cargo-deny.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are banned for other reasons.
const BANNED: &[&str] = &["openssl-sys", "native-tls"];

/// Crates with other licences, allowed in tests and benches and behind features that are off by
/// default.
const ASIDE: &[&str] = &["lzo1x"];

/// Reports every crate that may not be linked.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    for package in &metadata.packages {
        let licence = package.license.as_deref().unwrap_or("no licence");
        if ASIDE.contains(&package.name.as_str()) {
            check_aside(&package.name, findings)?;
        } else if !permitted(licence) {
            findings.push(format!(
                "{} {}: its licence is {licence}",
                package.name, package.version
            ));
        }
        if BANNED.contains(&package.name.as_str()) {
            findings.push(format!("{} {}: banned", package.name, package.version));
        }
    }
    Ok(())
}

/// Reports a crate that is in a default build, which has no dev-dependencies.
fn check_aside(name: &str, findings: &mut Vec<String>) -> Result<()> {
    let words = [
        "tree",
        "--workspace",
        "--locked",
        "--edges",
        "normal,build",
        "--invert",
    ];
    let output = cargo()
        .args(words)
        .arg(name)
        .output()
        .context("run cargo tree")?;
    let users = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !users.trim().is_empty() {
        let error = String::from_utf8_lossy(&output.stderr);
        findings.push(format!("{name}: is in default builds: {users}{error}"));
    }
    Ok(())
}

/// Returns whether a licence expression is permitted: every part of an AND, any part of an OR.
fn permitted(expression: &str) -> bool {
    let expression = expression.trim();
    if let Some(inner) = expression
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        && !inner.contains(['(', ')'])
    {
        return permitted(inner);
    }
    for (word, all) in [(" AND ", true), (" OR ", false), ("/", false)] {
        let parts = split_outside(expression, word);
        if parts.len() > 1 {
            return if all {
                parts.into_iter().all(permitted)
            } else {
                parts.into_iter().any(permitted)
            };
        }
    }
    ALLOWED.contains(&expression)
}

/// Splits at a word outside of parentheses.
fn split_outside<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(word) {
        let before = text.get(..at).unwrap_or_default();
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + word.len();
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_evaluated() {
        for (text, good) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("Apache-2.0/MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("WTFPL", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
        ] {
            assert_eq!(permitted(text), good, "{text}");
        }
    }
}
