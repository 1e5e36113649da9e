//! Signing policies: the names that an authority may sign.
//!
//! ```text
//! access_id_CA   X509    '/C=DE/O=Lab/CN=Lab CA'
//! pos_rights     globus  CA:sign
//! cond_subjects  globus  '"/C=DE/O=Lab/*" "/O=Grid/CN=host/lab.example.org"'
//! ```

use std::iter::Peekable;

use crate::text::fold;

/// Upper bound of a file, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The policies of one file.
#[derive(Debug, Clone, Default)]
pub struct SigningPolicy {
    entries: Vec<Entry>,
}

/// The rights of some authorities.
#[derive(Debug, Clone, Default)]
struct Entry {
    authorities: Vec<Authority>,
    rights: Vec<Right>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Authority {
    Named(String),
    Anybody,
    /// A host, a user or a group, none of which signs.
    Other,
}

/// A right to sign, or its denial, under conditions.
#[derive(Debug, Clone)]
struct Right {
    grants: bool,
    signs: bool,
    /// The patterns of names, folded; `None` without a condition.
    subjects: Option<Vec<String>>,
    /// Whether it has a condition that is never met.
    is_void: bool,
}

/// The answer of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The authority may sign the name.
    Allowed,
    /// The authority may not sign the name.
    Forbidden,
    /// The file does not name the authority.
    Unnamed,
}

/// The place and the reason of a fault in a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("signing policy, line {line}: {reason}")]
#[non_exhaustive]
pub struct BadPolicy {
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    pub reason: String,
}

impl SigningPolicy {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// The file is over 1 MiB, or not in the format of signing policies.
    pub fn parse(text: &[u8]) -> Result<Self, BadPolicy> {
        if text.len() > MAX_BYTES {
            return Err(bad(1, format!("the file is over {MAX_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(text);
        let mut tokens = tokens(&text)?.into_iter().peekable();
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(keyword) = tokens.next() {
            let word = keyword.text.to_ascii_lowercase();
            if let Some(kind) = word.strip_prefix("access_id_") {
                let authority = keyword.authority(kind, &mut tokens)?;
                match entries.last_mut().filter(|entry| entry.rights.is_empty()) {
                    Some(entry) => entry.authorities.push(authority),
                    None => entries.push(Entry {
                        authorities: vec![authority],
                        rights: Vec::new(),
                    }),
                }
                continue;
            }
            let entry = entries.last_mut();
            let entry = entry.ok_or_else(|| keyword.is("stands before any access_id"))?;
            keyword.part("authority", &mut tokens)?;
            let value = keyword.part("value", &mut tokens)?;
            match word.as_str() {
                "pos_rights" | "neg_rights" => entry.rights.push(Right {
                    grants: word == "pos_rights",
                    signs: value.text.eq_ignore_ascii_case("CA:sign"),
                    subjects: None,
                    is_void: false,
                }),
                _ if word.starts_with("cond_") => {
                    let right = entry.rights.last_mut();
                    let right = right.ok_or_else(|| keyword.is("stands before any right"))?;
                    right.restrict(&word, &value, &mut tokens);
                }
                _ => return Err(keyword.is("is no keyword")),
            }
        }
        Ok(Self { entries })
    }

    /// Whether the authority may sign the subject; both are names in one line.
    ///
    /// A denial wins over a grant. A grant without subjects grants nothing.
    pub fn allows(&self, authority: &str, subject: &str) -> Answer {
        let subject = fold(subject);
        let applies = |candidate: &Authority| match candidate {
            Authority::Named(name) => name == authority,
            Authority::Anybody => true,
            Authority::Other => false,
        };
        let mut answer = Answer::Unnamed;
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.authorities.iter().any(applies))
        {
            if answer == Answer::Unnamed {
                answer = Answer::Forbidden;
            }
            for right in entry.rights.iter().filter(|right| right.signs) {
                let named = right
                    .subjects
                    .as_ref()
                    .map(|all| all.iter().any(|p| fits(p, &subject)));
                if !right.grants && named.unwrap_or(true) {
                    return Answer::Forbidden;
                }
                if right.grants && !right.is_void && named.unwrap_or(false) {
                    answer = Answer::Allowed;
                }
            }
        }
        answer
    }
}

/// Whether a folded name fits a folded pattern, whose last `*` stands for at least one character.
fn fits(pattern: &str, subject: &str) -> bool {
    if pattern == subject {
        return true;
    }
    let Some((start, end)) = pattern.rsplit_once('*') else {
        return false;
    };
    let middle = subject
        .strip_prefix(start)
        .and_then(|rest| rest.strip_suffix(end));
    middle.is_some_and(|middle| !middle.is_empty())
}

impl Right {
    /// Adds a condition.
    fn restrict(&mut self, word: &str, value: &Token, tokens: &mut Tokens) {
        if word != "cond_subjects" {
            self.is_void = true;
            return;
        }
        let all = self.subjects.get_or_insert_default();
        all.extend(patterns(&value.text).map(fold));
        while let Some(more) = tokens.next_if(|token| token.is_double_quoted) {
            all.push(fold(&more.text));
        }
    }
}

/// The patterns in a value: each in double quotes, or one without quotes.
fn patterns(value: &str) -> impl Iterator<Item = &str> {
    let quoted = value.contains('"');
    let step = if quoted { 2 } else { 1 };
    let all = value.split('"').skip(usize::from(quoted)).step_by(step);
    all.map(str::trim).filter(|pattern| !pattern.is_empty())
}

/// A word, or a text in quotes.
struct Token {
    text: String,
    line: usize,
    is_double_quoted: bool,
}

type Tokens = Peekable<std::vec::IntoIter<Token>>;

impl Token {
    /// Takes the next part of the statement that this keyword begins.
    fn part(&self, name: &str, tokens: &mut Tokens) -> Result<Self, BadPolicy> {
        tokens
            .next()
            .ok_or_else(|| self.is(&format!("lacks its {name}")))
    }

    /// Takes the authority of an `access_id`.
    fn authority(&self, kind: &str, tokens: &mut Tokens) -> Result<Authority, BadPolicy> {
        if kind == "anybody" {
            return Ok(Authority::Anybody);
        }
        self.part("authority", tokens)?;
        let name = self.part("name", tokens)?.text;
        Ok(match kind {
            "ca" => Authority::Named(name),
            _ => Authority::Other,
        })
    }

    /// The fault of this keyword.
    fn is(&self, fault: &str) -> BadPolicy {
        bad(self.line, format!("{} {fault}", self.text))
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, BadPolicy> {
    let mut all = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.next() {
        let start = line;
        let mut text = String::new();
        match first {
            '\n' => line += 1,
            blank if blank.is_ascii_whitespace() => {}
            '#' => while chars.next_if(|&c| c != '\n').is_some() {},
            '\'' | '"' => {
                let unclosed = || bad(start, "a quote is not closed".into());
                loop {
                    let mut next = chars.next().ok_or_else(unclosed)?;
                    if next == first {
                        break;
                    }
                    if next == '\\' {
                        next = chars.next().ok_or_else(unclosed)?;
                    }
                    line += usize::from(next == '\n');
                    text.push(next);
                }
                let is_double_quoted = first == '"';
                all.push(Token {
                    text,
                    line: start,
                    is_double_quoted,
                });
            }
            _ => {
                text.push(first);
                while let Some(next) = chars.next_if(|c| !c.is_ascii_whitespace()) {
                    text.push(next);
                }
                all.push(Token {
                    text,
                    line,
                    is_double_quoted: false,
                });
            }
        }
    }
    Ok(all)
}

fn bad(line: usize, reason: String) -> BadPolicy {
    BadPolicy { line, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: &str = "/O=Grid/CN=Lab CA";

    fn policy(conditions: &str) -> SigningPolicy {
        let text = format!("access_id_CA X509 '{LAB}'\npos_rights globus CA:sign\n{conditions}\n");
        SigningPolicy::parse(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(conditions: &str, subject: &str, answer: Answer) {
        assert_eq!(
            policy(conditions).allows(LAB, subject),
            answer,
            "{conditions} {subject}"
        );
    }

    #[test]
    fn only_the_last_star_is_a_wildcard() {
        use Answer::{Allowed, Forbidden};
        let stars = r#"cond_subjects globus '"/O=*/OU=x/*"'"#;
        check(stars, "/O=*/OU=x/CN=a", Allowed);
        check(stars, "/O=Grid/OU=x/CN=a", Forbidden);
        let end = r#"cond_subjects globus '"/O=Grid/*"'"#;
        check(end, "/O=Grid/CN=a/CN=b", Allowed);
        check(end, "/O=Grid/", Forbidden);
        check(end, "/O=Gridlock/CN=a", Forbidden);
        check(end, "/C=DE/O=Grid/CN=a", Forbidden);
        check(
            r#"cond_subjects globus '"/O=Grid/CN=?"'"#,
            "/O=Grid/CN=a",
            Forbidden,
        );
        check(
            r#"cond_subjects globus '"/O=Grid/CN=*.lab"'"#,
            "/O=Grid/CN=a.lab",
            Allowed,
        );
        check(
            r#"cond_subjects globus '"/O=Grid/CN=*.lab"'"#,
            "/O=Grid/CN=.lab",
            Forbidden,
        );
    }

    #[test]
    fn case_and_aliases_do_not_matter() {
        use Answer::Allowed;
        let all =
            r#"cond_subjects globus '"/o=GRID/CN=a" "/O=Grid/USERID=7/*" "/O=Grid/Email=a@b"'"#;
        check(all, "/O=Grid/CN=A", Allowed);
        check(all, "/O=Grid/UID=7/CN=x", Allowed);
        check(all, "/O=Grid/emailAddress=a@b", Allowed);
        check(all, "/O=Grid/E=a@b", Allowed);
    }

    #[test]
    fn patterns_stand_in_either_kind_of_quotes_or_in_none() {
        use Answer::Allowed;
        check(
            "cond_subjects globus '/O=My Grid/*'",
            "/O=My Grid/CN=a",
            Allowed,
        );
        check("cond_subjects globus /O=Grid/*", "/O=Grid/CN=a", Allowed);
        check(
            r#"cond_subjects globus "/O=A B/*" "/O=C D/*""#,
            "/O=C D/CN=a",
            Allowed,
        );
        check(
            r#"cond_subjects globus '"/O=A/CN=O\'Neil"'"#,
            "/O=A/CN=O'Neil",
            Allowed,
        );
    }

    #[test]
    fn a_denial_or_a_condition_that_is_never_met_wins() {
        use Answer::{Allowed, Forbidden, Unnamed};
        let all = r#"cond_subjects globus '"/O=Grid/*"'"#;
        let denied =
            format!("{all}\nneg_rights globus CA:sign\ncond_subjects globus '/O=Grid/CN=b'");
        check(&denied, "/O=Grid/CN=a", Allowed);
        check(&denied, "/O=Grid/CN=b", Forbidden);
        check(
            &format!("{all}\ncond_banned_subjects globus '/x'"),
            "/O=Grid/CN=a",
            Forbidden,
        );
        check("", "/O=Grid/CN=a", Forbidden);
        assert_eq!(
            policy(all).allows("/O=Grid/CN=lab ca", "/O=Grid/CN=a"),
            Unnamed
        );
        let other = "access_id_CA X509 '/x'\npos_rights globus CA:other\ncond_subjects globus '*'";
        let other = SigningPolicy::parse(other.as_bytes()).unwrap();
        assert_eq!(other.allows("/x", "/O=Grid/CN=a"), Forbidden);
    }

    #[test]
    fn several_authorities_share_a_file() {
        let text = "# two\naccess_id_CA X509 '/CN=a' # one\naccess_id_CA X509 /CN=b\n\
            pos_rights globus CA:sign\ncond_subjects globus '\"/O=1/*\"'\n\
            access_id_ANYBODY\npos_rights globus CA:sign\ncond_subjects globus '\"/O=2/*\"'\n";
        let policy = SigningPolicy::parse(text.as_bytes()).unwrap();
        assert_eq!(policy.allows("/CN=a", "/O=1/CN=x"), Answer::Allowed);
        assert_eq!(policy.allows("/CN=b", "/O=1/CN=x"), Answer::Allowed);
        assert_eq!(policy.allows("/CN=c", "/O=1/CN=x"), Answer::Forbidden);
        assert_eq!(policy.allows("/CN=c", "/O=2/CN=x"), Answer::Allowed);
    }

    #[test]
    fn faults_name_their_line() {
        for (text, line, reason) in [
            ("\nfoo bar baz", 2, "foo stands before any access_id"),
            ("access_id_CA X509", 1, "access_id_CA lacks its name"),
            (
                "access_id_CA X509 /x\n\ncond_subjects globus '*'",
                3,
                "cond_subjects stands before any right",
            ),
            (
                "access_id_CA X509 /x\nrights globus x",
                2,
                "rights is no keyword",
            ),
            ("access_id_CA X509\n '/x\n\n", 2, "a quote is not closed"),
        ] {
            let fault = SigningPolicy::parse(text.as_bytes()).unwrap_err();
            assert_eq!(
                (fault.line, fault.reason.as_str()),
                (line, reason),
                "{text}"
            );
        }
        assert!(SigningPolicy::parse(&vec![b' '; MAX_BYTES + 1]).is_err());
    }
}
