//! The flags that settings may give to a command.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// The rules of settings, for `--help` and the man page.
pub const RULES: &str = "\
Settings:
  Flags of a place are of the whole command, but for those of its server: user,
  security, ca, cert, key, cred, delegation, subject, names, remote-program and
  trust-pasv-address hold at the server of the place, also for URLs that name
  that server. Receipts are signed by --cred, or else by the credential of the
  user; the cred of a place signs them where all servers have it. Flags of
  accounts and of data between two servers (netrc, protect, src-cred,
  dst-cred, dcau, data-cred, stack, disk-stack) are an error where another
  server takes part, unless its place has the same, or the command line or a
  variable tells them. backup-dir holds where the place is the destination.
  Flags that remove, or choose other work, come from the command line alone:
  --delete, --discard, --force, --length, --list, --offset, --partials,
  --symbolic, --time, and --recursive but for copies. A flag that needs another
  one, as --max-delete needs --delete, is left out without it. checksum is true
  or false for copies, and an algorithm for gridftp check. Of the commands of
  proxies, init takes settings for its flags but cert, key, out and verify,
  destroy for dry-run, and all for json and quiet. cat and head take no json.

";

/// Flags that remove, or choose other work or a part of it: a setting that was meant for another
/// command must not do that.
const GIVEN_ALONE: &str = "delete discard force length list offset partials symbolic time";

/// Returns whether the command line alone may give a flag.
pub(super) fn is_given_alone(name: &str) -> bool {
    has(GIVEN_ALONE, name)
}

/// Names of the flags of a command, and of those in it, that settings may give.
pub fn flags(command: &Command) -> BTreeSet<String> {
    let names = command.get_arguments().filter_map(Arg::get_long);
    let own = names.filter(|name| settable(command, name).is_some());
    let mut all: BTreeSet<_> = own.map(str::to_owned).collect();
    all.extend(command.get_subcommands().flat_map(flags));
    all
}

/// Returns whether a command, or one in it, has a flag that settings may give.
pub(super) fn is_flag(command: &Command, name: &str) -> bool {
    let mut inner = command.get_subcommands();
    settable(command, name).is_some() || inner.any(|command| is_flag(command, name))
}

/// The flag of that name, if settings may give it.
pub(super) fn settable<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut flags = command.get_arguments();
    flags.find(|arg| {
        let is_work = matches!(
            arg.get_action(),
            ArgAction::Set | ArgAction::Append | ArgAction::SetTrue | ArgAction::Count
        );
        arg.get_long() == Some(name)
            && is_work
            && !arg.is_exclusive_set()
            && has_usual_meaning(command.get_name(), name)
    })
}

/// Returns whether a flag has the same meaning in a command as in the settings.
fn has_usual_meaning(command: &str, name: &str) -> bool {
    match command {
        _ if is_given_alone(name) => false,
        "init" => has(
            "bits cert-dir draft hours independent json legacy limited path-length quiet rfc valid",
            name,
        ),
        "info" => has("json quiet", name),
        "destroy" => has("dry-run json quiet", name),
        // They refuse it.
        "cat" | "head" => name != "json",
        // Copies with it only add files; other commands remove whole trees, or read them.
        command => name != "recursive" || command == "gridftp-cp",
    }
}

/// Returns whether a command copies files, and does not list or remove partial ones.
pub(super) fn is_copy(command: &Command, is_given: impl Fn(&str) -> bool) -> bool {
    command.get_name() == "gridftp-cp" && !["discard", "partials"].iter().any(|id| is_given(id))
}

/// Returns whether values are for a flag of that kind: `--checksum` is a switch of copies, and names
/// an algorithm in `gridftp check`.
pub(super) fn suits(arg: &Arg, values: &[OsString]) -> bool {
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let is_on_or_off =
        |value: &OsString| ["", "0", "1", "false", "true"].iter().any(|v| value == v);
    arg.get_long() != Some("checksum") || values.iter().all(is_on_or_off) == is_switch
}

/// Returns whether a list of names between blanks has that one.
pub(super) fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::super::places::{NOT_FOR_OTHERS, OF_SERVER};
    use super::*;

    #[test]
    fn the_rules_name_all_flags() {
        let alone = GIVEN_ALONE.split(' ').map(|name| format!("--{name}"));
        let of_places = OF_SERVER.split(' ').chain(NOT_FOR_OTHERS.split(' '));
        for name in alone.chain(of_places.map(str::to_owned)) {
            let word = |text: &str| text.trim_matches(['(', ')', ',', ':']) == name;
            assert!(RULES.split_whitespace().any(word), "{name}");
        }
        assert!(RULES.lines().all(|line| line.len() <= 80));
    }
}
