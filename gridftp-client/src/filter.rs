//! `Filter`: rules in order that choose the files of a tree by their names.
//!
//! A rule takes or leaves the names that its pattern fits, and all that is in a directory of such a
//! name: unlike in rsync, a rule that takes `*/` takes all files below the first level, and none is
//! needed for the directories of files that are taken. The first rule that fits decides. A name that
//! no rule fits is taken, unless every rule takes: then only what they fit is.
//!
//! | Pattern | Fits |
//! | --- | --- |
//! | `*.tmp` | names that end so, in any directory |
//! | `/run7/*.root` | a path from the root of the copy: the leading slash ties it there |
//! | `raw/a?.dat` | the end of a path, from the begin of a component on |
//! | `cache/` | directories of that name, not files |
//! | `*` `?` `[a-z]` `[!a-z]` | any characters but `/`, one, one of a set, one that is not in it |
//! | `**` | any characters, `/` too; `/**/` fits one slash as well |
//! | `\*` | the character itself |

/// Rules in order; without any, everything is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    rules: Vec<Rule>,
}

/// The decision on a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is copied.
    Take,
    /// It is left out, but not all in it may be: it is made where a file of it is copied.
    Enter,
    /// It is left out with all in it.
    Leave,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    takes: bool,
    dirs_only: bool,
    tokens: Vec<Token>,
}

/// An element of a pattern, for one byte or for any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// The first byte of a character.
    One,
    /// The other bytes of a character.
    Rest,
    Set {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
    /// Any bytes but slashes.
    Star,
    /// Any bytes.
    All,
    /// Any number of whole components, each with its slash.
    Dirs,
}

impl Filter {
    /// Adds a rule that takes the names that `pattern` fits.
    ///
    /// # Errors
    /// When nothing can fit `pattern`: the reason.
    pub fn include(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        self.rules.push(Rule::parse(true, pattern)?);
        Ok(())
    }

    /// Adds a rule that leaves the names that `pattern` fits.
    ///
    /// # Errors
    /// As [`include`](Self::include).
    pub fn exclude(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        self.rules.push(Rule::parse(false, pattern)?);
        Ok(())
    }

    /// Adds the rules of a file, one a line: `+ PATTERN` and `- PATTERN`; `!` drops all before it, and
    /// empty lines and those that begin with `#` or `;` are comments.
    ///
    /// # Errors
    /// The number of the first line that is no rule, and the reason.
    pub fn add_rules(&mut self, text: &[u8]) -> Result<(), (usize, &'static str)> {
        for (number, line) in (1..).zip(text.split(|b| *b == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let added = match line {
                [] | [b'#' | b';', ..] => Ok(()),
                [b'!'] => {
                    self.rules.clear();
                    Ok(())
                }
                [b'+', b' ', pattern @ ..] => self.include(pattern),
                [b'-', b' ', pattern @ ..] => self.exclude(pattern),
                _ => Err("write + PATTERN or - PATTERN"),
            };
            added.map_err(|why| (number, why))?;
        }
        Ok(())
    }

    /// Says whether the file at `path`, relative to the root of the copy, is taken.
    pub(crate) fn takes_file(&self, path: &[u8]) -> bool {
        let first = self.rules.iter().find(|rule| rule.fits(path, false));
        first.map_or_else(|| self.takes_rest(), |rule| rule.takes)
    }

    /// Decides on the directory at `path`, relative to the root of the copy.
    pub(crate) fn dir(&self, path: &[u8]) -> Verdict {
        let Some(first) = self.rules.iter().position(|rule| rule.fits(path, true)) else {
            return match self.takes_rest() {
                true => Verdict::Take,
                false => Verdict::Enter,
            };
        };
        let takes = |rule: &Rule| rule.takes;
        match self.rules.split_at(first) {
            (_, [rule, ..]) if rule.takes => Verdict::Take,
            (before, _) if before.iter().any(takes) => Verdict::Enter,
            _ => Verdict::Leave,
        }
    }

    /// Whether a name that no rule fits is taken.
    fn takes_rest(&self) -> bool {
        self.rules.is_empty() || !self.rules.iter().all(|rule| rule.takes)
    }
}

impl Rule {
    fn parse(takes: bool, pattern: &[u8]) -> Result<Self, &'static str> {
        let bare = pattern.strip_suffix(b"/***").unwrap_or(pattern);
        let named = bare.strip_suffix(b"/").unwrap_or(bare);
        let (tied, mut rest) = match named.strip_prefix(b"/") {
            Some(rest) => (true, rest),
            None => (false, named),
        };
        if rest.is_empty() {
            return Err("the pattern names nothing");
        }
        let mut tokens = Vec::with_capacity(rest.len() + 1);
        if !tied {
            tokens.push(Token::Dirs);
        }
        while let Some((token, left)) = Token::parse(rest, tokens.last())? {
            let one = token == Token::One;
            tokens.push(token);
            if one {
                tokens.push(Token::Rest);
            }
            rest = left;
        }
        Ok(Self {
            takes,
            dirs_only: named.len() < pattern.len(),
            tokens,
        })
    }

    /// Says whether the pattern fits `path` or a directory that it is in.
    ///
    /// Takes time of at most the product of both lengths: all ways to fit are followed at once.
    fn fits(&self, path: &[u8], is_dir: bool) -> bool {
        let mut at = vec![false; self.tokens.len() + 1];
        self.enter(&mut at, 0);
        for byte in path {
            if *byte == b'/' && at.last() == Some(&true) {
                return true;
            }
            let mut next = vec![false; at.len()];
            for (index, token) in self.tokens.iter().enumerate() {
                if at.get(index) == Some(&true) {
                    self.step(&mut next, index, token, *byte);
                }
            }
            at = next;
        }
        at.last() == Some(&true) && (is_dir || !self.dirs_only)
    }

    /// Takes one byte at the element `index`.
    fn step(&self, next: &mut [bool], index: usize, token: &Token, byte: u8) {
        let is_more = byte & 0xc0 == 0x80;
        let (stays, goes_on) = match token {
            Token::Byte(wanted) => (false, *wanted == byte),
            Token::One => (false, byte != b'/' && !is_more),
            Token::Rest => (is_more, false),
            Token::Set { negated, ranges } => {
                let is_in = ranges
                    .iter()
                    .any(|(low, high)| (low..=high).contains(&&byte));
                (false, byte != b'/' && is_in != *negated)
            }
            Token::Star => (byte != b'/', false),
            Token::All => (true, false),
            // The component that follows begins behind a slash.
            Token::Dirs => {
                if let Some(here) = next.get_mut(index) {
                    *here = true;
                }
                (false, byte == b'/')
            }
        };
        if stays {
            self.enter(next, index);
        }
        if goes_on {
            self.enter(next, index + 1);
        }
    }

    /// Marks the element `index`, and those behind it that may fit nothing.
    fn enter(&self, at: &mut [bool], index: usize) {
        let mut index = index;
        loop {
            if let Some(here) = at.get_mut(index) {
                *here = true;
            }
            match self.tokens.get(index) {
                Some(Token::Rest | Token::Star | Token::All | Token::Dirs) => index += 1,
                _ => return,
            }
        }
    }
}

impl Token {
    /// Reads the next element of a pattern, behind `before`; gives the rest.
    fn parse<'p>(
        pattern: &'p [u8],
        before: Option<&Self>,
    ) -> Result<Option<(Self, &'p [u8])>, &'static str> {
        let begins = matches!(before, None | Some(Self::Dirs | Self::Byte(b'/')));
        Ok(Some(match pattern {
            [] => return Ok(None),
            [b'*', b'*', b'/', rest @ ..] if begins => (Self::Dirs, rest),
            [b'*', b'*', rest @ ..] => (Self::All, rest),
            [b'*', rest @ ..] => (Self::Star, rest),
            [b'?', rest @ ..] => (Self::One, rest),
            [b'[', rest @ ..] => Self::set(rest)?,
            [b'\\', byte, rest @ ..] => (Self::Byte(*byte), rest),
            [b'\\'] => return Err("nothing follows its last backslash"),
            [byte, rest @ ..] => (Self::Byte(*byte), rest),
        }))
    }

    /// Reads a set behind its bracket.
    fn set(pattern: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        const OPEN: &str = "a [ has no ]; write \\[ for the character";
        const CLASS: &str = "names of classes, as [:digit:], are not known; write 0-9 or the like";
        let (negated, mut rest) = match pattern {
            [b'!' | b'^', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut ranges = Vec::new();
        loop {
            let (low, left) = match rest {
                // The first one is a member.
                [b']', left @ ..] if !ranges.is_empty() => {
                    return Ok((Self::Set { negated, ranges }, left));
                }
                [b'[', rest @ ..] if opens_class(rest) => return Err(CLASS),
                [b'\\', byte, left @ ..] | [byte, left @ ..] => (*byte, left),
                [] => return Err(OPEN),
            };
            let (high, left) = match left {
                [b'-', b']', ..] => (low, left),
                [b'-', b'\\', high, left @ ..] | [b'-', high, left @ ..] => (*high, left),
                _ => (low, left),
            };
            ranges.push((low, high));
            rest = left;
        }
    }
}

/// Says whether a `[` in a set, before this rest, begins the name of a class (`[:alpha:]`), a
/// collating symbol (`[.-.]`) or an equivalence class (`[=a=]`): only where its end follows (POSIX,
/// XCU 2.13.1 and XBD 9.3.5). Else it is a member.
fn opens_class(rest: &[u8]) -> bool {
    match rest {
        [kind @ (b':' | b'.' | b'='), name @ ..] => {
            name.windows(2).any(|end| end == [*kind, b']'].as_slice())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether one pattern fits a path.
    fn fits(pattern: &str, path: &str) -> bool {
        let (path, is_dir) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, false),
        };
        let rule = Rule::parse(true, pattern.as_bytes()).unwrap();
        rule.fits(path.as_bytes(), is_dir)
    }

    #[test]
    fn patterns_fit_paths() {
        for (pattern, yes, no) in [
            (
                "*.tmp",
                &["a.tmp", "d/e/a.tmp", ".tmp", "x.tmp/in"][..],
                &["a.tmp2", "tmp"][..],
            ),
            ("/a", &["a", "a/b"], &["d/a", "ab"]),
            ("/a/*.c", &["a/x.c", "a/.c"], &["a/b/x.c", "d/a/x.c"]),
            ("a/b", &["a/b", "x/a/b", "a/b/c"], &["xa/b", "a/bc", "a"]),
            (
                "cache/",
                &["cache/", "d/cache/", "cache/x"],
                &["cache", "d/cache"],
            ),
            ("cache/***", &["cache/", "cache/x"], &["cache"]),
            ("d/**", &["d/x", "d/x/y"], &["d/", "d"]),
            ("d/*", &["d/x", "d/x/y"], &["d"]),
            (
                "a/**/z",
                &["a/z", "a/b/z", "x/a/b/c/z"],
                &["az", "a/bz", "a/b"],
            ),
            ("**/z", &["z", "a/z", "a/b/z"], &["az"]),
            ("/**/z", &["z", "a/z"], &["az"]),
            ("a**z", &["az", "a/z", "a/b/xz"], &["a/zb"]),
            (
                "a?c",
                &["abc", "a\u{fc}c", "a\u{20ac}c"],
                &["ac", "a/c", "abbc"],
            ),
            ("??", &["ab", "\u{fc}x"], &["\u{fc}"]),
            ("[a-c]x[!0-9]", &["axx", "cx-"], &["dxx", "ax0", "ax/"]),
            ("[]]", &["]"], &["["]),
            ("[[]", &["["], &["]"]),
            ("[a-]", &["a", "-"], &["b"]),
            // POSIX, XCU 2.13.1: `[:` is special only before `:]`, `[.` before `.]`, `[=` before `=]`.
            ("[a[:]", &["a", "[", ":"], &["]", "a:", "a]"]),
            ("[![:]", &["a", "]"], &["[", ":"]),
            ("[[:alpha]", &["[", ":", "a", "h"], &["b"]),
            ("[a[.]", &["a", "[", "."], &["]", "b"]),
            ("[a[=]=", &["a=", "[=", "=="], &["a", "]="]),
            ("[\\]x]", &["]", "x"], &["\\"]),
            ("\\*\\?", &["*?"], &["ab"]),
            ("*", &["a", "d/a"], &[]),
        ] {
            for path in yes {
                assert!(fits(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!fits(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn patterns_that_fit_nothing_are_refused() {
        let mut filter = Filter::default();
        for bad in [
            "",
            "/",
            "[a",
            "[]",
            "a\\",
            "[[:digit:]]",
            "[^x[:alpha:]]",
            "[[:x:]",
            "[[:]x:]",
            "[[.-.]]",
            "[[.].]]",
            "[[=a=]b]",
        ] {
            assert!(filter.include(bad.as_bytes()).is_err(), "{bad}");
            assert!(filter.exclude(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(filter, Filter::default());
    }

    #[test]
    fn a_pattern_of_stars_takes_no_time_without_end() {
        assert!(!fits(
            &"*a".repeat(60),
            &["a"; 3000].concat().replace("aaaa", "aaab")
        ));
        assert!(!fits(&"**a".repeat(60), &"b/".repeat(1500)));
    }

    fn rules(text: &str) -> Filter {
        let mut filter = Filter::default();
        filter.add_rules(text.as_bytes()).unwrap();
        filter
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        for (text, taken, left) in [
            ("", &["a", "d/a"][..], &[][..]),
            ("- *.o", &["a.c", "d/a.c"], &["a.o", "d/a.o"]),
            ("+ *.c", &["a.c", "d/e/a.c"], &["a.o", "d/a"]),
            ("+ *.c\n- *", &["a.c", "d/e/a.c"], &["a.o", "d/a"]),
            ("+ keep.o\n- *.o", &["keep.o", "d/keep.o", "x"], &["a.o"]),
            ("- d/\n+ *.c", &["a.c", "x"], &["d/a.c"]),
            ("+ *.c\n- d/", &["d/a.c", "x"], &["d/x"]),
            ("+ docs\n- *", &["docs", "docs/a/b"], &["a"]),
            ("# c\n; c\n\r\n- *.o\n!\n- *.c\r\n", &["a.o"], &["a.c"]),
        ] {
            let filter = rules(text);
            for path in taken {
                assert!(filter.takes_file(path.as_bytes()), "{text:?} {path}");
            }
            for path in left {
                assert!(!filter.takes_file(path.as_bytes()), "{text:?} {path}");
            }
        }
    }

    #[test]
    fn a_directory_is_left_only_where_nothing_in_it_can_be_taken() {
        for (text, path, verdict) in [
            ("", "d", Verdict::Take),
            ("- d", "d", Verdict::Leave),
            ("- d", "d/e", Verdict::Leave),
            ("- d/**", "d", Verdict::Take),
            ("- d/**", "d/e", Verdict::Leave),
            ("+ *.c", "d", Verdict::Enter),
            ("+ d", "d", Verdict::Take),
            ("+ *.c\n- *", "d", Verdict::Enter),
            ("+ d/\n- *", "d/e", Verdict::Take),
            ("- x\n- d\n+ *.c", "d", Verdict::Leave),
        ] {
            assert_eq!(rules(text).dir(path.as_bytes()), verdict, "{text:?} {path}");
        }
    }

    #[test]
    fn a_bad_rule_is_told_by_its_line() {
        let mut filter = Filter::default();
        for (text, line) in [("- a\nb", 2), ("-a", 1), ("+ a\n\n- [", 3)] {
            let told = filter.add_rules(text.as_bytes()).unwrap_err();
            assert_eq!(told.0, line, "{text:?}");
        }
    }
}
