//! Replies and chains of errors as one line for a person, of bounded length.

use std::fmt;

use ftp_wire::reply::Reply;

use crate::url::show;

/// Bytes of a reply that an error repeats: no server fills a screen.
const LONGEST_TEXT: usize = 1000;

/// Prints a reply for a person: its code and what it says, without protocol dressing.
pub(crate) struct Text<'a>(pub(crate) &'a Reply);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(reply) = self;
        write!(f, "{} ", reply.code().number())?;
        let told = ["GridFTP-Error-String", "GridFTP-Reason"]
            .iter()
            .find_map(|name| reply.field(name));
        if let Some(why) = told {
            return f.write_str(cut(&show(why.as_bytes()), LONGEST_TEXT));
        }
        let mut first = true;
        let mut room = LONGEST_TEXT;
        for line in reply.lines() {
            let line = line.trim_ascii();
            if line.is_empty()
                || matches!(line, b"End." | b"End")
                || line.starts_with(b"GlobusError:")
            {
                continue;
            }
            if !std::mem::take(&mut first) {
                f.write_str(": ")?;
            }
            let line = show(line.get(..room).unwrap_or(line));
            let line = cut(&line, room);
            f.write_str(line)?;
            room -= line.len();
            if room == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rfind(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Prints an error and what caused it on one line, each said once.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            next = error.source();
        }
        Ok(())
    }
}
