//! The flags of `gridftp-cp` in messages, in words of `globus-url-copy`.

/// Phrases of messages, and flags, each with its words there. A phrase stands before the flags in it.
const WORDS: &[(&str, &str)] = &[
    (
        "--dcau none --protect clear leaves",
        "-nodcau, without -dcsafe and -dcpriv, leaves",
    ),
    (
        "--protect clear leaves data",
        "without -dcsafe and -dcpriv data is",
    ),
    (
        "leave out --dcau none, or write --protect clear",
        "leave out -nodcau, or -dcsafe and -dcpriv",
    ),
    (
        "leave --mode out, or use --mode stream",
        "leave out -fast and -p",
    ),
    (
        "with --user or --netrc",
        "in the URL, as USER:PASSWORD@HOST",
    ),
    (" or with --netrc", ", as USER:PASSWORD@HOST"),
    ("use --netrc", "write it in the URL, as USER:PASSWORD@HOST"),
    (
        "; --dcau names the identity of both ends of data connections",
        "",
    ),
    (", or give --security tls", ""),
    ("write ftp:// and --security tls", "write ftp://"),
    ("; --security none sends it in clear text", ""),
    ("--security implicit begins", "ftps:// begins"),
    (
        "--ca FILE or FOLDER names",
        "SSL_CERT_FILE or SSL_CERT_DIR names",
    ),
    ("; give it longer by --timeout", ""),
    (
        "use --sync, which compares sizes and times",
        "use -sync-level 2, which compares times",
    ),
    (": --delegation none --data-cred auto does without", ""),
    ("; --data-cred own does without", ""),
    ("--fail-fast is set", "-c is not set"),
    ("--block-size", "-bs"),
    ("--checksum", "-sync-level 3"),
    ("--concurrency", "-cc"),
    ("--cred", "-cred"),
    ("--data-cred", "-data-cred"),
    ("--data-ports", "GLOBUS_TCP_PORT_RANGE"),
    ("--dcau none", "-nodcau"),
    ("--debug", "-dbg"),
    ("--disk-stack", "-fsstack"),
    ("--dry-run", "-do"),
    ("--dst-cred", "-dst-cred"),
    ("--length", "-len"),
    ("--mode extended", "-fast"),
    ("--no-clobber", "-sync-level 0"),
    ("--offset", "-off"),
    ("--parallel", "-p"),
    ("--preserve", "-preserve"),
    ("--protect", "-dcpriv"),
    ("--quiet", "-q"),
    ("--recursive", "-r"),
    ("--relay always", "-notpt"),
    ("--remote-program", "GLOBUS_REMOTE_SSHFTP"),
    ("--retries", "-rst-retries"),
    ("--retry-for", "-rst-timeout"),
    ("--src-cred", "-src-cred"),
    ("--stack", "-dcstack"),
    ("--stripe-block", "-sbs"),
    ("--stripe-layout", "-sbs"),
    ("--subject", "-s"),
    ("--sync", "-sync"),
    ("--tcp-buffer", "-tcp-bs"),
    ("--verify", "-verify-checksum"),
];

/// A message in words of `globus-url-copy`.
pub(super) fn told(text: &str) -> String {
    // Most messages name no flag.
    if !text.contains("--") {
        return text.to_owned();
    }
    WORDS.iter().fold(text.to_owned(), |text, (ours, theirs)| {
        replace(&text, ours, theirs)
    })
}

/// Replaces whole words: a path or a longer flag may hold them.
fn replace(text: &str, ours: &str, theirs: &str) -> String {
    let (mut told, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(ours) {
        told.push_str(before);
        let begins = !ours.starts_with(goes_on) || !told.ends_with(goes_on);
        let is_whole = begins && !after.starts_with(goes_on);
        told.push_str(if is_whole { theirs } else { ours });
        rest = after;
    }
    told + rest
}

/// Says whether a character belongs to the word beside it.
fn goes_on(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '.')
}

#[cfg(test)]
mod tests {
    use super::super::table::{Meaning, OPTIONS};
    use super::*;

    #[test]
    fn messages_name_options_of_the_other_program() {
        for (ours, theirs) in [
            (
                "invalid value 'x' for '--parallel <N>'",
                "invalid value 'x' for '-p <N>'",
            ),
            (
                "source: /d: is a directory; add --recursive to copy it",
                "source: /d: is a directory; add -r to copy it",
            ),
            (
                "login as joe: 530 no; check the account, or name one with --user or --netrc",
                "login as joe: 530 no; check the account, or name one in the URL, as USER:PASSWORD@HOST",
            ),
            (
                "connection lost, trying again for 1:00 (--retry-for): h:21: gone",
                "connection lost, trying again for 1:00 (-rst-timeout): h:21: gone",
            ),
            (
                "--offset 9 and --length=3, with a smaller --concurrency",
                "-off 9 and -len=3, with a smaller -cc",
            ),
            (
                "h:21: login: not done within 9 s; give it longer by --timeout",
                "h:21: login: not done within 9 s",
            ),
            (
                "PROT P: 534 no; --protect clear leaves data in clear text",
                "PROT P: 534 no; without -dcsafe and -dcpriv data is in clear text",
            ),
            (
                "no DCSC; --dcau none --protect clear leaves data in clear text, or --relay always has it pass this machine",
                "no DCSC; -nodcau, without -dcsafe and -dcpriv, leaves data in clear text, or -notpt has it pass this machine",
            ),
            // Names and the words of a server stay.
            (
                "local: read /d/--user: no such file",
                "local: read /d/--user: no such file",
            ),
            ("a--parallel --parallel-x", "a--parallel --parallel-x"),
            ("550 see --third-party", "550 see --third-party"),
        ] {
            assert_eq!(told(ours), theirs);
        }
    }

    #[test]
    fn flags_that_options_stand_for_have_their_words() {
        for (_, meaning) in OPTIONS {
            let words = match meaning {
                Meaning::Flag(flag) => (*flag).to_owned(),
                Meaning::Words(words) => words.join(" "),
                _ => continue,
            };
            assert!(!told(&words).contains("--"), "{words}");
        }
    }

    #[test]
    fn phrases_stand_in_messages() {
        let messages = [
            include_str!("../../../connect_error.rs"),
            include_str!("../../../copy/admission.rs"),
            include_str!("../../../copy/third/protect.rs"),
            include_str!("../../../error/remedies.rs"),
            include_str!("../../../grid.rs"),
            include_str!("../../../guard.rs"),
            include_str!("../../../program/accounts.rs"),
            include_str!("../../../progress.rs"),
            include_str!("../../../web/fault.rs"),
            include_str!("../../../web/request.rs"),
        ];
        for (phrase, _) in WORDS.iter().filter(|(phrase, _)| phrase.contains(' ')) {
            // A remedy stands behind a separator that is no part of it.
            let phrase = phrase.trim_start_matches([';', ':']).trim_start();
            let is_told = messages.iter().any(|message| message.contains(phrase));
            let is_flag = ["--dcau none", "--mode extended", "--relay always"].contains(&phrase);
            assert!(is_told || is_flag, "{phrase}");
        }
    }
}
