//! Source files: first line, length, and `forbid(unsafe_code)` in every crate root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::metadata::{Metadata, root};

const LONGEST: usize = 500;

/// Reports files that violate a rule.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    for package in metadata.members() {
        let folder = root().join(package.folder());
        for path in sources(&folder)? {
            let name = path
                .strip_prefix(root())
                .unwrap_or(&path)
                .display()
                .to_string();
            let text = fs::read_to_string(&path)?;
            check_first_line(&text, &name, findings);
            check_length(&path, &text, &name, findings);
        }
        let programs = ["lib", "bin", "proc-macro", "custom-build"];
        for target in package
            .targets
            .iter()
            .filter(|t| t.kind.iter().any(|kind| programs.contains(&kind.as_str())))
        {
            let text = fs::read_to_string(&target.src_path)
                .with_context(|| format!("read {}", target.src_path.display()))?;
            if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
                let name = target
                    .src_path
                    .strip_prefix(root())
                    .unwrap_or(&target.src_path);
                findings.push(format!("{}: lacks #![forbid(unsafe_code)]", name.display()));
            }
        }
    }
    Ok(())
}

/// Reports a file whose first line is not a `//!` sentence.
fn check_first_line(text: &str, name: &str, findings: &mut Vec<String>) {
    let first = text.lines().next().unwrap_or_default();
    let paragraph = text
        .lines()
        .take_while(|line| line.starts_with("//! "))
        .last()
        .unwrap_or_default();
    let sentence =
        first.starts_with("//! ") && paragraph.trim_end().ends_with(['.', ':', '?', '!']);
    if !sentence {
        findings.push(format!(
            "{name}:1: does not start with `//!` and a sentence about the file"
        ));
    }
}

/// Reports a file that is too long without its tests.
fn check_length(path: &Path, text: &str, name: &str, findings: &mut Vec<String>) {
    let tests = path.file_name().is_some_and(|file| file == "tests.rs")
        || path.components().any(|part| {
            ["tests", "benches"]
                .iter()
                .any(|folder| part.as_os_str() == *folder)
        });
    let code = text
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text)
        .lines()
        .count();
    if !tests && code >= LONGEST {
        findings.push(format!("{name}: {code} lines, {LONGEST} or more"));
    }
}

/// Returns the Rust files of one package, without those of nested packages and target folders.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            let inner = path.join("Cargo.toml").is_file()
                || path.file_name().is_some_and(|name| name == "target");
            if path.is_dir() && !inner {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_is_a_sentence() {
        for (text, count) in [
            ("//! Owns this.\nfn main() {}\n", 0),
            ("//! Owns this, over\n//! two lines.\n//!\n//! More\n", 0),
            ("fn main() {}\n", 1),
            ("//! No end\nfn main() {}\n", 1),
        ] {
            let mut findings = Vec::new();
            check_first_line(text, "x", &mut findings);
            assert_eq!(findings.len(), count, "{text}");
        }
    }

    #[test]
    fn tests_do_not_count() {
        let code = "//! x.\n".repeat(499);
        for (path, text, count) in [
            ("a.rs", code.clone(), 0),
            ("a.rs", code.clone() + "\n\n", 1),
            ("a/tests.rs", code.clone() + "\n\n", 0),
            ("a.rs", code + "\n#[cfg(test)]\nmod tests {\n}\n", 0),
        ] {
            let mut findings = Vec::new();
            check_length(Path::new(path), &text, path, &mut findings);
            assert_eq!(findings.len(), count, "{path}");
        }
    }
}
