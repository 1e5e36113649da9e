//! `PopenOptions`: the program with its arguments and variables.

use xio_core::{BadValue, Setting, Value, print_list};

use crate::Popen;

xio_core::options! {
    /// The program with its arguments and variables.
    pub struct PopenOptions for "popen" [impl Popen] {
        /// The program and its arguments; if empty, the path of the contact is the program.
        argv: Vec<String> = Vec::new(), "argv",
            Setting::new()
                .takes("a list, as #/bin/cat#-n", &["#/bin/cat#-n"])
                .only(|argv| argv.first().is_some_and(|program| !program.is_empty()));
        /// Changes nothing, since this driver never blocks.
        blocking: bool = false, "blocking";
        /// Variables to set.
        env: Vec<(String, String)> = Vec::new(), "env",
            Setting::with("a list, as #HOME=/#LANG=C", &["#HOME=/#LANG=C"], variables, |env| {
                let env: Vec<_> = env.iter().map(|(key, value)| format!("{key}={value}")).collect();
                Some(print_list(&env))
            });
        /// Whether the program stays in the process group of this one, from which it can read the
        /// terminal, and gets its signals.
        foreground: bool = false, "foreground";
        /// Whether any exit status is a clean end.
        ignore_errors: bool = false, "ignore_errors";
        /// Whether the program inherits the environment.
        pass_env: bool = false, "pass_env";
    }
}

fn variables(value: Value<'_>) -> Result<Vec<(String, String)>, BadValue> {
    let pair = |text: &str| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(BadValue),
    };
    value.list()?.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "argv=",
            "argv=#",
            "env=#A",
            "env=#=x",
            "pass_env=maybe",
            "blocking=x",
        ] {
            assert!(bad.parse::<PopenOptions>().is_err(), "{bad}");
        }
        let options: PopenOptions = "argv=#/bin/cat#a%2Cb;env=|A=1|B=2".parse().unwrap();
        assert_eq!(options.argv, ["/bin/cat", "a,b"]);
        assert_eq!(options.env.len(), 2);
    }
}
