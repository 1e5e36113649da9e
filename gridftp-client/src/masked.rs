//! `masked`: text without the signatures and tokens in the queries of its URLs, for files that are
//! kept: whoever reads such a URL may read the file.

/// Names of fields of a query, in lower case, whose values let anyone read a file; so do those that
/// end in `signature` or in `token`.
const SECRETS: [&str; 6] = ["sig", "authz", "password", "secret", "apikey", "api_key"];

/// The text with `***` for each of those values.
pub(crate) fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut is_query, mut is_within) = (false, false);
    for piece in text.split_inclusive(['?', '&', '#', '"', ' ', '\n']) {
        let (body, end) = match piece.char_indices().next_back() {
            Some((at, '?' | '&' | '#' | '"' | ' ' | '\n')) => piece.split_at(at),
            _ => (piece, ""),
        };
        let field = body.split_once('=').filter(|_| is_query);
        match field {
            _ if is_within => {}
            Some((name, value)) if is_secret(name) && !value.is_empty() => {
                is_within = true;
                let colon = if value.ends_with(':') { ":" } else { "" };
                out.extend([name, "=***", colon]);
            }
            _ => out.push_str(body),
        }
        // A value may hold another one.
        is_within &= end == "?";
        if !is_within {
            out.push_str(end);
        }
        is_query = match end {
            "?" => is_query || is_web(body),
            "&" => is_query,
            _ => false,
        };
    }
    out
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.contains(&name.as_str()) || name.ends_with("signature") || name.ends_with("token")
}

fn is_web(url: &str) -> bool {
    url.contains("http://") || url.contains("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_let_others_read_a_file_are_masked() {
        for (text, wanted) in [
            (
                "https://h/f?X-Amz-Date=1&X-Amz-Signature=ab%2F&x=2",
                "https://h/f?X-Amz-Date=1&X-Amz-Signature=***&x=2",
            ),
            (
                r#"{"source":"http://h:80/f?sig=a?b=","to":"f"}"#,
                r#"{"source":"http://h:80/f?sig=***","to":"f"}"#,
            ),
            (
                "https://h/f?authz=Mx: 403 Forbidden",
                "https://h/f?authz=***: 403 Forbidden",
            ),
            (
                "https://h/f?access_token=a b=c",
                "https://h/f?access_token=*** b=c",
            ),
        ] {
            assert_eq!(masked(text), wanted);
        }
        for text in [
            "https://h/f?key=1&token=",
            "/d/f?token=1&sig=2",
            "gsiftp://h/f?sig=1",
            "https://h/sig=1 ?token=1",
            "\u{e4}?",
            "",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
