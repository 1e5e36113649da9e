//! `ModuleCall`: name and arguments of a module of ERET and ESTO.

/// A module of `ERET` or `ESTO`: `name="arguments"`, or `name=argument` for one without blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleCall<'a> {
    /// The name.
    pub name: &'a str,
    /// The arguments, without the quotes.
    pub arguments: &'a str,
}

impl<'a> ModuleCall<'a> {
    /// Reads the text of [`Eret::Module`](crate::command::Eret::Module) and
    /// [`Esto::Module`](crate::command::Esto::Module).
    pub fn parse(text: &'a str) -> Option<Self> {
        let (name, arguments) = text.split_once('=')?;
        let quoted = arguments.strip_prefix('"');
        let inner = quoted.map_or(Some(arguments), |rest| rest.strip_suffix('"'));
        Some(Self {
            name,
            arguments: inner?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_a_name_and_arguments() {
        for (text, name, arguments) in [
            ("tar=", "tar", ""),
            ("tar=\"\"", "tar", ""),
            ("m=a", "m", "a"),
            ("m=\"a=b c\"", "m", "a=b c"),
        ] {
            let call = ModuleCall::parse(text).unwrap();
            assert_eq!((call.name, call.arguments), (name, arguments), "{text}");
        }
        assert_eq!(ModuleCall::parse("m"), None);
        assert_eq!(ModuleCall::parse("m=\""), None);
    }
}
