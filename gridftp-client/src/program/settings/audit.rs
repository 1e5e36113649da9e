//! The effects of variables on plain command lines, for the tests of the programs.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, ArgMatches, Command};

use super::config::Config;
use super::scope::settable;
use super::{variable, words_of};

/// Values of which each flag without a default takes one.
const VALUES: [&str; 5] = ["7", "7:00", "sha256", "50000-50100", "/O=Grid/CN=x"];

/// The faults of variables beside these lines, which have all commands of a program: the variable of
/// a flag has the effect of the flag, or none where that is no flag for settings, or does not fit.
pub fn faults(program: &Command, lines: &[&str]) -> Vec<String> {
    let mut program = program.clone();
    program.build();
    let mut faults = Vec::new();
    let mut without = all(&program);
    for line in lines {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let (command, _, at) = parsed(&program, &line).expect("the line is right");
        for arg in command.get_arguments() {
            let Some(name) = arg.get_long() else {
                continue;
            };
            let flag = format!("{} --{name}", command.get_name());
            match effect(&program, command, (arg, name), (&line, at)) {
                Ok(true) => _ = without.remove(&flag),
                Ok(false) => {}
                Err(why) => faults.push(format!("{flag}: {why}")),
            }
        }
    }
    let without = without.into_iter().map(|flag| format!("{flag}: no effect"));
    faults.into_iter().chain(without).collect()
}

/// The flags of a command, and of those in it, that settings may give.
fn all(command: &Command) -> BTreeSet<String> {
    let names = command.get_arguments().filter_map(Arg::get_long);
    // A command that needs one in it has flags for that one.
    let own = names
        .filter(|name| !command.is_subcommand_required_set() && settable(command, name).is_some());
    let named = |name| format!("{} --{name}", command.get_name());
    let inner = command.get_subcommands().flat_map(all);
    own.map(named).chain(inner).collect()
}

/// Says whether a variable has the effect that its flag has behind the first `at` words of a line.
fn effect(
    program: &Command,
    command: &Command,
    (arg, name): (&Arg, &str),
    (line, at): (&[OsString], usize),
) -> Result<bool, String> {
    let (value, given) = values(arg)
        .into_iter()
        .find_map(|value| {
            let flag = match arg.get_action().takes_values() {
                true => format!("--{name}={value}"),
                false => format!("--{name}"),
            };
            let mut given = line.to_vec();
            given.insert(at, flag.into());
            parsed(program, &given)
                .is_ok()
                .then_some((value, Some(given)))
        })
        .unwrap_or_else(|| ("7".to_owned(), None));
    let given = given.filter(|_| settable(command, name).is_some());
    let read = |named: &str| (named == variable(name)).then(|| OsString::from(&value));
    let words = words_of(program, line.to_vec(), || Ok(Config::default()), &read);
    let words = words.map_err(|error| error.to_string())?.all;
    let raw = |words: &[OsString]| {
        let (_, matches, _) = parsed(program, words)?;
        let raw = matches.get_raw(arg.get_id().as_str());
        Ok::<_, String>(raw.map(|values| values.map(ToOwned::to_owned).collect::<Vec<_>>()))
    };
    let expected = raw(given.as_deref().unwrap_or(line))?;
    match raw(&words)? == expected {
        true => Ok(given.is_some()),
        false => Err(format!("not as {expected:?}: {words:?}")),
    }
}

/// Values that a flag may take.
fn values(arg: &Arg) -> Vec<String> {
    let possible = arg.get_possible_values();
    let named = possible.iter().map(|value| value.get_name().to_owned());
    let default = arg.get_default_values().iter();
    let default = default.map(|value| value.to_string_lossy().into_owned());
    let one = (!arg.get_action().takes_values()).then(|| "1".to_owned());
    let any = VALUES.map(str::to_owned);
    one.into_iter()
        .chain(named)
        .chain(default)
        .chain(any)
        .collect()
}

/// Parses a line: its innermost command, the matches of that, and the number of words before its
/// arguments.
fn parsed<'a>(
    program: &'a Command,
    line: &[OsString],
) -> Result<(&'a Command, ArgMatches, usize), String> {
    let parsed = program.clone().try_get_matches_from(line);
    let (mut command, mut at) = (program, 1);
    let mut matches = parsed.map_err(|error| error.to_string())?;
    while let Some((name, inner)) = matches.remove_subcommand() {
        command = command.find_subcommand(&name).ok_or(name)?;
        (matches, at) = (inner, at + 1);
    }
    Ok((command, matches, at))
}
