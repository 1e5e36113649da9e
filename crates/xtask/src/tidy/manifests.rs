//! Manifests: inherited keys, versions of dependencies, and features.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use crate::metadata::{Metadata, Package, root};

/// Keys that every member inherits from the workspace.
const INHERITED: &[&str] = &[
    "version",
    "edition",
    "rust-version",
    "license",
    "repository",
];

/// Reports manifests that do not follow the rules.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    for package in metadata.members() {
        let text = fs::read_to_string(&package.manifest_path)?;
        let folder = package.folder().display().to_string();
        for key in INHERITED {
            if !text.contains(&format!("{key}.workspace = true")) {
                findings.push(format!("{folder}/Cargo.toml: does not inherit {key}"));
            }
        }
        if !text.contains("[lints]\nworkspace = true") {
            findings.push(format!("{folder}/Cargo.toml: does not inherit the lints"));
        }
        if package
            .description
            .as_deref()
            .unwrap_or_default()
            .is_empty()
        {
            findings.push(format!(
                "{folder}/Cargo.toml: has no description for the map"
            ));
        }
        if !text.contains("publish = false") {
            check_published(package, &text, &folder, findings);
        }
        check_versions(&text, &folder, findings);
        check_name(package, &folder, findings);
        check_features(package, &folder, findings);
    }
    check_fuzz(findings)?;
    check_shared(findings)
}

/// Reports published crates without the metadata and files of a registry page.
fn check_published(package: &Package, text: &str, folder: &str, findings: &mut Vec<String>) {
    for key in [
        "keywords = [",
        "categories = [",
        "[package.metadata.docs.rs]",
    ] {
        if !text.contains(key) {
            findings.push(format!("{folder}/Cargo.toml: has no `{key}`"));
        }
    }
    let of = |file| fs::read_to_string(package.manifest_path.with_file_name(file));
    if !of("CHANGELOG.md").is_ok_and(|text| text.contains("\n## ")) {
        findings.push(format!(
            "{folder}/CHANGELOG.md: missing, or without a version"
        ));
    }
    if of("README.md").is_err() {
        findings.push(format!("{folder}/README.md: missing"));
    }
}

/// Reports fuzz targets that are missing in their manifest, which is outside the workspace, or in
/// the README.
fn check_fuzz(findings: &mut Vec<String>) -> Result<()> {
    let folder = root().join("tests/fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let readme = fs::read_to_string(folder.join("README.md"))?;
    let found: BTreeSet<String> = manifest
        .split("\n[[bin]]\n")
        .skip(1)
        .map(|block| block.trim().to_owned())
        .collect();
    let mut expected = BTreeSet::new();
    for entry in fs::read_dir(folder.join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if !readme.contains(&format!("| `{name}` |")) {
            findings.push(format!("tests/fuzz/README.md: has no row for `{name}`"));
        }
        expected.insert(format!(
            "name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\ntest = false\ndoc = false\nbench = false"
        ));
    }
    for block in expected.symmetric_difference(&found) {
        let name = block.lines().next().unwrap_or_default();
        findings.push(format!(
            "tests/fuzz/Cargo.toml: the target with {name} is missing or has other settings"
        ));
    }
    Ok(())
}

/// Reports dependencies with a version in a member's manifest.
fn check_versions(text: &str, folder: &str, findings: &mut Vec<String>) {
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies");
            continue;
        }
        let entry = inside && line.contains('=') && !line.starts_with(['#', ' ']);
        if entry && !line.contains("workspace = true") {
            findings.push(format!(
                "{folder}/Cargo.toml: move the version of `{line}` to the workspace's table"
            ));
        }
    }
}

/// Reports a driver package that is not named after its folder.
fn check_name(package: &Package, folder: &str, findings: &mut Vec<String>) {
    if let Some(name) = folder.strip_prefix("drivers/")
        && package.name != format!("xio-{name}")
    {
        findings.push(format!(
            "{folder}: its package is {}, not xio-{name}",
            package.name
        ));
    }
}

/// Features of the facade that name other features.
const GROUPS: [&str; 2] = ["default", "full"];

/// Reports features of the facade that differ from its drivers, or do more than add a driver.
fn check_features(package: &Package, folder: &str, findings: &mut Vec<String>) {
    if package.name != "xio-stack" {
        return;
    }
    let drivers: BTreeSet<&str> = package
        .dependencies
        .iter()
        .filter_map(|dependency| dependency.name.strip_prefix("xio-"))
        .collect();
    let drivers: BTreeSet<&str> = drivers
        .into_iter()
        .filter(|name| !["core", "testkit"].contains(name))
        .collect();
    let features: BTreeSet<&str> = package
        .features
        .keys()
        .map(String::as_str)
        .filter(|feature| !GROUPS.contains(feature))
        .collect();
    for lonely in drivers.symmetric_difference(&features) {
        findings.push(format!(
            "{folder}/Cargo.toml: driver and feature `{lonely}` do not match"
        ));
    }
    for (feature, adds) in package
        .features
        .iter()
        .filter(|(feature, _)| !GROUPS.contains(&feature.as_str()))
    {
        if *adds != [format!("dep:xio-{feature}")] {
            findings.push(format!(
                "{folder}/Cargo.toml: feature `{feature}` does more than add its driver"
            ));
        }
    }
}

/// Reports missing files of the root, and unsorted shared dependencies.
fn check_shared(findings: &mut Vec<String>) -> Result<()> {
    for name in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "Cargo.lock",
        "README.md",
        ".deny.toml",
        ".ci/run",
    ] {
        if !root().join(name).is_file() {
            findings.push(format!("{name}: missing"));
        }
    }
    let text = fs::read_to_string(root().join("Cargo.toml"))?;
    let shared = text
        .split_once("[workspace.dependencies]\n")
        .map_or("", |(_, rest)| rest);
    let shared = shared.split("\n[").next().unwrap_or_default();
    for block in shared.split("\n\n") {
        let names: Vec<&str> = block
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name)
            .collect();
        if !names.is_sorted() {
            findings.push(format!(
                "Cargo.toml: shared dependencies are not sorted: {}",
                names.join(", ")
            ));
        }
    }
    Ok(())
}
