//! The help of `globus-url-copy`: its syntax, differences from the original, and each option.

use super::table::{Meaning, OPTIONS, PIPELINED};

/// The command line in short, for mistakes too.
pub(super) const SYNTAX: &str = "\
Syntax: globus-url-copy [-help] [-vb] [-dbg] [-r] [-rst] [-s <subject>]
                        [-p <parallelism>] [-tcp-bs <size>] [-bs <size>]
                        -f <filename> | <sourceURL> <destURL>";

const HELP: &str = "
Takes the options of globus-url-copy, as its manual page tells them. Files are copied by gridftp-cp:
they get their names when they are whole, and digests are compared where servers have them. Data
connections are clear unless -dcsafe or -dcpriv is there, directories are made without -cd, and -cp
carries over times too. An option that cannot be honoured is an error. http:// and https:// URLs are
sources only, of one file each; $SSL_CERT_DIR and $SSL_CERT_FILE name other authorities for them than
those of the system, and $http_proxy, $https_proxy, $all_proxy and $no_proxy the proxies before them.

Environment: GLOBUS_FTP_CLIENT_DATA_IP, or else GLOBUS_HOSTNAME, is told to servers that connect to
this end; GLOBUS_TCP_PORT_RANGE and GLOBUS_TCP_SOURCE_RANGE are the ports of data connections here.
With GLOBUS_FTP_CLIENT_SOURCE_PASV set, downloads use MODE S, and uploads, copies between servers,
-fast and -p are errors; with GLOBUS_FTP_CLIENT_NO_SERVER_PASV, downloads without -fast and -p are.
GLOBUS_DOMAIN_NAME is an error. GLOBUS_REMOTE_SSHFTP is the program behind ssh, and GUC_STALL_TIMEOUT
the default of -st.

Other than globus-url-copy: -r copies a directory whose URL has no slash at its end, under its name.
-list of a name or of wildcards that are not there is an error. A password in a URL of the command
line shows in the list of processes; one in a file of -f does not.
";

/// Options with another effect than in `globus-url-copy`, by their names.
const NOTES: [(&str, &str); 5] = [
    ("ppq", PIPELINED),
    ("data-cred", "auto alone, for a credential of this copy"),
    ("preserve", "As in globus-url-copy, and times too"),
    ("r", "As in globus-url-copy, but for a URL without a slash"),
    (
        "list",
        "As in globus-url-copy, but for names that are not there",
    ),
];

/// The whole help.
pub(super) fn text() -> String {
    let options: String = OPTIONS.iter().map(line).collect();
    format!("\n{SYNTAX}\n{HELP}\nOptions:\n{options}")
}

/// The names of an option, and below them its meaning.
fn line((names, meaning): &(&[&str], Meaning)) -> String {
    let mut notes = NOTES.iter();
    let note = notes.find(|(name, _)| names.contains(name));
    let names: Vec<_> = names.iter().map(|name| format!("-{name}")).collect();
    let value = match meaning {
        Meaning::Flag(_) | Meaning::Takes(_) | Meaning::RefusesValue(_) => " <value>",
        _ => "",
    };
    let meaning = match meaning {
        Meaning::Always(why) => format!("No effect: {why}"),
        Meaning::Words(words) => format!("As {} of gridftp-cp", words.join(" ")),
        Meaning::Flag(flag) => format!("As {flag} of gridftp-cp"),
        Meaning::Sets(_) | Meaning::Takes(_) => note
            .map_or("As in globus-url-copy", |(_, note)| note)
            .to_owned(),
        Meaning::Refuses(why) | Meaning::RefusesValue(why) => format!("An error: {why}"),
    };
    format!("  {}{value}\n      {meaning}\n", names.join(" | "))
}

#[cfg(test)]
mod tests {
    use gridftp_client::program::examples::check_file;

    use super::*;
    use crate::globus::options::Options;

    #[test]
    fn each_note_is_of_an_option() {
        for (name, note) in NOTES {
            let mut options = OPTIONS.iter();
            let option = options.find(|(names, _)| names.contains(&name)).unwrap();
            assert!(line(option).contains(note), "{name}");
        }
    }

    #[test]
    fn the_chapter_of_the_manual_is_the_help() {
        let example =
            "gridftp-cp --globus -vb -p 4 gsiftp://dtn.example.org/data/file file:///tmp/file";
        let words = example.split(' ').skip(2).map(Into::into);
        assert_eq!(Options::parse(words).unwrap().urls.len(), 2);
        let chapter = format!(
            "\n# `globus-url-copy`\n\nBy a link of that name to `gridftp-cp`, or by `--globus` as the \
             first word:\n\n```sh\n{example}\n```\n\n```text{}```\n",
            text()
        );
        check_file("globus-url-copy", &chapter).unwrap();
    }
}
