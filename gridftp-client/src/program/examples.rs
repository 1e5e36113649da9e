//! Examples of command lines, for `--help` and the man pages.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, Command};

/// A command line, and its effect in half a sentence.
pub type Example = (&'static str, &'static str);

/// The examples of commands, by their names.
pub type Table = [(&'static str, &'static [Example])];

/// The examples of the commands that both programs have.
const SHARED: &Table = &[
    (
        "doctor",
        &[
            (
                "gridftp doctor gsiftp://dtn.example.org/data/",
                "examines name, port, certificates, login and a data connection",
            ),
            (
                "gridftp doctor --debug --timeout 60 ftps://ftp.example.org/",
                "shows the control conversation too, and waits longer for each answer",
            ),
            (
                "gridftp doctor --disk /scratch gsiftp://dtn.example.org/data/",
                "measures that disk, behind a fault too",
            ),
            (
                "gridftp doctor --json gsiftp://dtn.example.org/data/",
                "writes the facts for a program that watches servers",
            ),
        ],
    ),
    (
        "proxy",
        &[
            ("gridftp proxy init", "makes a proxy for 12 hours"),
            (
                "gridftp proxy info --json",
                "shows it to a program, as one JSON object",
            ),
            (
                "gridftp proxy destroy --quiet",
                "removes it without a word, as at the end of a script",
            ),
        ],
    ),
    (
        "init",
        &[
            (
                "gridftp proxy init --hours 24",
                "makes a proxy for a day, with ~/.globus/usercert.pem and userkey.pem",
            ),
            (
                "gridftp proxy init --valid 0:30 --limited --path-length 0",
                "makes one for half an hour, which starts no jobs and signs no other",
            ),
            (
                "gridftp proxy init --cert robot.pem --key robot.key --out /run/robot/proxy",
                "takes another certificate, and writes the proxy to a file of its own",
            ),
            (
                "gridftp proxy init --verify --cert-dir /srv/grid/certificates",
                "makes none that these authorities do not lead to",
            ),
            (
                "gridftp proxy init --rfc --bits 4096",
                "makes one of RFC 3820 with a longer key",
            ),
            (
                "gridftp proxy init --draft",
                "makes one for services that know no proxies of RFC 3820",
            ),
            (
                "gridftp proxy init --legacy",
                "makes one for the oldest services",
            ),
            (
                "gridftp proxy init --independent",
                "makes one with a name of its own and none of the user's rights",
            ),
        ],
    ),
    (
        "info",
        &[
            ("gridftp proxy info", "shows all that is known of the proxy"),
            (
                "gridftp proxy info --exists --valid 2:00 --bits 2048 || gridftp proxy init",
                "makes a proxy where none has two hours left and a key of 2048 bits",
            ),
            (
                "gridftp proxy info --identity --timeleft",
                "shows the user's name, and the seconds that are left",
            ),
            (
                "gridftp proxy info --subject --issuer --type --strength",
                "shows the names, the format, and the size of the key",
            ),
            (
                "gridftp proxy info --file /run/robot/proxy --path",
                "tells whether a proxy is in a file, by its path",
            ),
        ],
    ),
    (
        "destroy",
        &[
            (
                "gridftp proxy destroy",
                "overwrites the proxy and removes it",
            ),
            (
                "gridftp proxy destroy --dry-run /tmp/x509up_u1000 /run/robot/proxy",
                "names the files that would be removed",
            ),
        ],
    ),
];

/// The section of `--help` with `examples`, in whose lines `program` stands for `gridftp`.
pub fn section(program: &str, examples: &[Example]) -> String {
    let mut text = "Examples:\n".to_owned();
    for (line, effect) in examples {
        let line = line.replace("gridftp ", &format!("{program} "));
        text.push_str(&format!("  {line}\n      {effect}\n"));
    }
    text.push('\n');
    text
}

/// Adds the examples of `own`, and those of shared commands, to a command of `program` and to those
/// in it: to `--help` and the man page, and not to `-h`.
pub fn with_examples(command: Command, program: &'static str, own: &'static Table) -> Command {
    let command = command.mut_subcommands(|inner| with_examples(inner, program, own));
    let mut rows = own.iter().chain(SHARED);
    let Some((_, examples)) = rows.find(|(name, _)| *name == command.get_name()) else {
        return command;
    };
    let rest = command.get_after_help().map(ToString::to_string);
    let text = section(program, examples) + &rest.unwrap_or_default();
    command.after_long_help(text.trim_end().to_owned())
}

/// The options of a program and its commands that no example gives, for the test of the program.
/// Options of `shared` need one example of any command in `own`, and others one of their command.
///
/// # Errors
/// The mistake in an example that the program does not parse.
pub fn missing(
    program: &Command,
    own: &Table,
    shared: &Command,
) -> Result<Vec<String>, clap::Error> {
    let (mut of_commands, mut of_any) = (BTreeSet::new(), BTreeSet::new());
    for (name, examples) in own.iter().chain(SHARED) {
        for (line, _) in *examples {
            for (command, option) in given(program, line)? {
                if command == *name {
                    of_commands.insert(format!("{command} --{option}"));
                }
                if own.iter().any(|(own, _)| own == name) {
                    of_any.insert(option);
                }
            }
        }
    }
    let shared: BTreeSet<&str> = options(shared).map(|(_, option)| option).collect();
    let mut missing = Vec::new();
    let mut commands = vec![program];
    while let Some(command) = commands.pop() {
        for (_, option) in options(command) {
            let name = format!("{} --{option}", command.get_name());
            let is_shared = shared.contains(option) && of_any.contains(option);
            if !is_shared && !of_commands.contains(&name) {
                missing.push(name);
            }
        }
        commands.extend(command.get_subcommands());
    }
    Ok(missing)
}

/// A chapter of the manual: the commands of a program, and each option with its help and an example,
/// once where several commands have it.
///
/// # Errors
/// The mistake in an example that the program does not parse.
fn chapter(program: &Command, own: &Table) -> Result<String, clap::Error> {
    let mut lines = Vec::new();
    for (name, examples) in own.iter().chain(SHARED) {
        for (line, _) in *examples {
            let given = given(program, line)?;
            lines.extend(given.into_iter().map(|of| (*name, of, *line)));
        }
    }
    let mut built = program.clone();
    built.build();
    let (mut text, mut told) = (String::new(), BTreeSet::new());
    let mut commands = vec![(&built, built.get_name().to_owned())];
    while let Some((command, name)) = commands.pop() {
        let about = command.get_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        text.push_str(&format!("\n# `{name}`\n\n```text\n{about}\n"));
        for (arg, option) in options(command) {
            if ["help", "version"].contains(&option) {
                continue;
            }
            // Options that commands share need one example of any.
            let of = |own: bool| {
                lines.iter().find(|(row, (of, given), _)| {
                    given == option && (!own || of == command.get_name() && row == of)
                })
            };
            let example = of(true).or_else(|| of(false)).map(|(.., line)| *line);
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let short = arg.get_short().map(|short| format!("-{short}, "));
            let head = format!("\n{}{arg}\n", short.unwrap_or_default());
            if told.insert(head.clone() + &help) {
                text.push_str(&head);
                text.push_str(&indented(&help));
                text.push_str(&format!("    {}\n", example.unwrap_or_default()));
            }
        }
        text.push_str("```\n");
        let inner = command.get_subcommands();
        let inner: Vec<_> = inner.filter(|inner| inner.get_name() != "help").collect();
        let inner = inner.into_iter().rev();
        commands.extend(inner.map(|inner| (inner, format!("{name} {}", inner.get_name()))));
    }
    Ok(text)
}

/// Wraps a text in lines with an indent.
fn indented(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if line.len() + word.len() > 92 {
            lines.push_str(&format!("   {line}\n"));
            line.clear();
        }
        line.push_str(&format!(" {word}"));
    }
    lines + &format!("   {line}\n")
}

/// Compares the chapter of a program with its file in the sources, as [`check_file`].
///
/// # Errors
/// The way to update a file that differs, or the error of a file or an example.
pub fn check_chapter(program: &Command, own: &Table) -> Result<(), Box<dyn Error>> {
    check_file(program.get_name(), &chapter(program, own)?)
}

/// Compares a chapter with its file in the sources, or replaces that where `UPDATE_MANUAL` is set.
///
/// # Errors
/// The way to update a file that differs, or the error of the file.
pub fn check_file(name: &str, chapter: &str) -> Result<(), Box<dyn Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manual/options");
    let file = Path::new(folder).join(format!("{name}.md"));
    if std::env::var_os("UPDATE_MANUAL").is_some() {
        return Ok(std::fs::write(file, chapter)?);
    }
    match std::fs::read_to_string(&file)? == chapter {
        true => Ok(()),
        false => Err(format!("{}: out of date; set UPDATE_MANUAL=1", file.display()).into()),
    }
}

/// The options in the help of a command, with their long names.
fn options(command: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((arg, arg.get_long()?)))
}

/// The options that a line gives to commands of the program, by the names of both.
fn given(program: &Command, line: &str) -> Result<Vec<(String, String)>, clap::Error> {
    let mut program = program.clone();
    let all = program.try_get_matches_from_mut(words(line))?;
    let (mut command, mut matches) = (&program, &all);
    let mut given = Vec::new();
    loop {
        for arg in command.get_arguments() {
            let source = matches.value_source(arg.get_id().as_str());
            if let Some(option) = arg.get_long()
                && source == Some(ValueSource::CommandLine)
            {
                given.push((command.get_name().to_owned(), option.to_owned()));
            }
        }
        let inner = matches.subcommand();
        let inner = inner.and_then(|(name, found)| Some((command.find_subcommand(name)?, found)));
        let Some(inner) = inner else {
            return Ok(given);
        };
        (command, matches) = inner;
    }
}

/// The words of the first program of ours on the line of a shell, in which `'` quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    let is_other = |word: &String| !word.starts_with("gridftp");
    let is_word = |word: &String| !matches!(word.as_str(), "|" | "||" | ">" | ">>");
    let of_ours = words.into_iter().skip_while(is_other);
    of_ours.take_while(is_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_words_of_one_program() {
        for (line, expected) in [
            ("gridftp ls", &["gridftp", "ls"][..]),
            ("gridftp ls '/a b' c", &["gridftp", "ls", "/a b", "c"]),
            ("tar -c d | gridftp-cp - x", &["gridftp-cp", "-", "x"]),
            ("gridftp ls -x || gridftp rm", &["gridftp", "ls", "-x"]),
            ("gridftp-cp --man > f", &["gridftp-cp", "--man"]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn examples_stand_before_the_rest_of_the_long_help() {
        const OWN: &Table = &[("ls", &[("gridftp ls x", "lists x")])];
        let inner = Command::new("ls").after_help("The rest.");
        let program = Command::new("other").subcommand(inner);
        let program = with_examples(program, "other", OWN);
        let inner = program.find_subcommand("ls").unwrap();
        let text = |help: Option<&clap::builder::StyledStr>| help.unwrap().to_string();
        assert_eq!(text(inner.get_after_help()), "The rest.");
        assert_eq!(
            text(inner.get_after_long_help()),
            "Examples:\n  other ls x\n      lists x\n\nThe rest."
        );
    }

    #[test]
    fn options_without_an_example_are_told() {
        const OWN: &Table = &[
            ("gridftp", &[("gridftp ls --shared x", "lists x")]),
            ("ls", &[("gridftp ls --all x", "lists x")]),
        ];
        let flag = |name: &'static str| Arg::new(name).long(name).action(clap::ArgAction::SetTrue);
        let all = ["all", "shared", "other"].map(flag);
        let ls = Command::new("ls").args(all).arg(Arg::new("place"));
        let shared = Command::new("shared").arg(flag("shared"));
        let program = Command::new("gridftp").subcommand(ls);
        // The shared rows are of commands that this program lacks.
        assert!(missing(&program, OWN, &shared).is_err());
        let program = SHARED.iter().fold(program, |program, (name, _)| {
            let any = Arg::new("any").num_args(1..).allow_hyphen_values(true);
            program.subcommand(Command::new(*name).arg(any.trailing_var_arg(true)))
        });
        assert_eq!(missing(&program, OWN, &shared).unwrap(), ["ls --other"]);
    }
}
