//! `Control`: settings of and questions to an open handle, addressed by driver.

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::options::Options;
use crate::plan::Entry;
use crate::stream::Stream;

/// A request to one driver of an open handle; see [`Stream::control`].
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver that keeps no options must answer every request"
)]
pub enum Control<'a> {
    /// Sets options of the driver that the entry names.
    Set(&'a Entry),
    /// Asks a driver for the value of one of its options.
    Get {
        /// Name of the driver.
        driver: &'a str,
        /// Key of the option.
        option: &'a str,
    },
}

impl Control<'_> {
    /// Name of the driver that is addressed.
    #[must_use]
    pub fn driver(&self) -> &str {
        match self {
            Self::Set(entry) => entry.driver(),
            Self::Get { driver, .. } => driver,
        }
    }

    /// Answers for a driver that keeps its options with the handle; `open` are the keys of those
    /// that it reads again.
    pub fn answer<O: Options>(
        self,
        driver: &str,
        options: &mut O,
        open: &[&str],
    ) -> Option<Result<String>> {
        (self.driver() == driver).then(|| {
            self.check(open)?;
            match self {
                Self::Set(entry) => options.update(entry).map(|()| String::new()),
                Self::Get { option, .. } => Ok(options.value(option).unwrap_or_default()),
            }
        })
    }

    /// Checks that every option of the request is among `open`, those not fixed by opening.
    ///
    /// # Errors
    /// [`BadOption`](ErrorKind::BadOption).
    pub fn check(&self, open: &[&str]) -> Result<()> {
        let fixed = match self {
            Self::Set(entry) => entry
                .options()
                .map(|(key, _)| key)
                .find(|key| !open.contains(key)),
            Self::Get { option, .. } => Some(*option).filter(|key| !open.contains(key)),
        };
        fixed.map_or(Ok(()), |key| Err(self.refuse(key, open)))
    }

    /// The error for an option that is fixed once the handle is open.
    fn refuse(&self, option: &str, known: &[&str]) -> Error {
        let driver = self.driver().to_owned();
        let fact = format!(
            "option {option:?} is fixed once the handle is open; those that are not are {}",
            known.join(", ")
        );
        Error::new(ErrorKind::BadOption, driver, Operation::Control, fact)
    }
}

/// Settings of, and questions to, a handle of an erased type.
///
/// ```
/// # fn change(mut handle: xio_core::BoxStream) -> xio_core::Result<()> {
/// handle.set("tcp:nodelay=no")?;
/// assert_eq!(handle.get("tcp:nodelay")?, "no");
/// # Ok(())
/// # }
/// ```
impl dyn Stream {
    /// Sets options of one driver, in the form of a stack string: `tcp:nodelay=no;keepalive=yes`.
    ///
    /// # Errors
    /// A driver that is not in the stack, or an option that is fixed once the handle is open.
    pub fn set(&mut self, setting: &str) -> Result<()> {
        let entry = setting.parse()?;
        self.answer(Control::Set(&entry)).map(drop)
    }

    /// The value of an option of one driver: `tcp:nodelay`.
    ///
    /// # Errors
    /// A driver that is not in the stack, or an option without a value on an open handle.
    pub fn get(&mut self, question: &str) -> Result<String> {
        let (driver, option) = question.split_once(':').unwrap_or((question, ""));
        self.answer(Control::Get { driver, option })
    }

    fn answer(&mut self, control: Control<'_>) -> Result<String> {
        if let Some(answer) = self.control(control) {
            return answer;
        }
        let (driver, chain) = (control.driver(), self.info().chain);
        let fact = match chain.iter().any(|name| name == driver) {
            true => format!("the options of {driver} are fixed once the handle is open"),
            false => format!("no driver {driver:?} in {}", chain.join(",")),
        };
        let op = Operation::Control;
        Err(Error::new(ErrorKind::Unsupported, "xio", op, fact))
    }
}
