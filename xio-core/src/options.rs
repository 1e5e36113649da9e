//! `options!`, `Options`, `Setting`: the options of a driver as one table, a row for each option.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::option_value::OptionValue;
use crate::plan::{Entry, Opt};
use crate::value::{BadValue, Value};

/// The options of a driver: a value with a string form, described by a table.
///
/// Made by [`options!`](crate::options!). `Display` prints the options that differ from their
/// defaults, in the form that `FromStr` reads.
pub trait Options:
    Clone + Default + PartialEq + fmt::Debug + fmt::Display + FromStr<Err = Error>
{
    /// The table: one row an option, in alphabetical order of the keys.
    const OPTIONS: &'static [Opt];

    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An unknown option, a value that is not accepted, or a contradiction between two options.
    fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        options.update(entry)?;
        Ok(options)
    }

    /// Sets the options that `entry` names, and leaves the others; sets none on an error.
    ///
    /// # Errors
    /// As [`from_entry`](Self::from_entry).
    fn update(&mut self, entry: &Entry) -> Result<()>;

    /// The value of an option in the form of a stack string, empty where it is not set; `None` for
    /// an unknown option.
    fn value(&self, key: &str) -> Option<String>;
}

/// The options of a driver without any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoOptions;

impl Options for NoOptions {
    const OPTIONS: &'static [Opt] = &[];

    fn update(&mut self, entry: &Entry) -> Result<()> {
        entry.apply(Self::OPTIONS, |_, _| Err(BadValue))
    }

    fn value(&self, _: &str) -> Option<String> {
        None
    }
}

impl FromStr for NoOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("none")?.with_options(text)?)
    }
}

impl fmt::Display for NoOptions {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Prints a driver with its options as a stack string names it, for `Debug`.
///
/// # Errors
/// As the formatter.
pub fn write_driver(f: &mut fmt::Formatter<'_>, name: &str, options: &impl Options) -> fmt::Result {
    match options.to_string().as_str() {
        "" => f.write_str(name),
        options => write!(f, "{name}:{options}"),
    }
}

/// One row of the table of [`options!`](crate::options!): an option with values of type `T`.
#[derive(Debug, Clone, Copy)]
pub struct Setting<T> {
    opt: Opt,
    read: fn(Value<'_>) -> Result<T, BadValue>,
    print: fn(&T) -> Option<String>,
    accepts: fn(&T) -> bool,
}

impl<T: OptionValue> Setting<T> {
    /// An option with the values of its type.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(T::TAKES, T::EXAMPLES, T::read, T::print)
    }
}

impl<T: OptionValue> Default for Setting<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Setting<T> {
    /// An option with this reader and printer.
    #[must_use]
    pub const fn with(
        takes: &'static str,
        examples: &'static [&'static str],
        read: fn(Value<'_>) -> Result<T, BadValue>,
        print: fn(&T) -> Option<String>,
    ) -> Self {
        Self {
            opt: Opt::new("", takes, "").examples(examples),
            read,
            print,
            accepts: |_| true,
        }
    }

    /// Describes the accepted values, with examples.
    #[must_use]
    pub const fn takes(mut self, takes: &'static str, examples: &'static [&'static str]) -> Self {
        self.opt.takes = takes;
        self.opt.examples = examples;
        self
    }

    /// Refuses values for which `accepts` is false.
    #[must_use]
    pub const fn only(mut self, accepts: fn(&T) -> bool) -> Self {
        self.accepts = accepts;
        self
    }

    /// Reads values by `read` instead of the reader of the type.
    #[must_use]
    pub const fn read_by(mut self, read: fn(Value<'_>) -> Result<T, BadValue>) -> Self {
        self.read = read;
        self
    }

    /// Marks the option as [local](Opt::local) to this machine.
    #[must_use]
    pub const fn local(mut self) -> Self {
        self.opt = self.opt.local();
        self
    }

    /// The row of the table that users read, with the documentation of the field.
    #[doc(hidden)]
    #[must_use]
    pub const fn row(self, name: &'static str, about: &'static str) -> Opt {
        Opt {
            name,
            about: about.trim_ascii(),
            ..self.opt
        }
    }

    /// Reads a value into `field`.
    ///
    /// # Errors
    /// [`BadValue`] when it is not accepted.
    #[doc(hidden)]
    pub fn set(self, value: Value<'_>, field: &mut T) -> Result<(), BadValue> {
        let read = (self.read)(value)?;
        if !(self.accepts)(&read) {
            return Err(BadValue);
        }
        *field = read;
        Ok(())
    }

    /// Prints the value where it is not the default.
    #[doc(hidden)]
    #[must_use]
    pub fn print(self, value: &T, default: &T) -> Option<String>
    where
        T: PartialEq,
    {
        (value != default).then(|| (self.print)(value)).flatten()
    }

    /// Prints the value.
    #[doc(hidden)]
    #[must_use]
    pub fn text(self, value: &T) -> String {
        (self.print)(value).unwrap_or_default()
    }
}

impl<T: Copy + From<u64> + Into<Option<u64>>> Setting<T> {
    /// A number of bytes, which may be zero.
    #[must_use]
    pub const fn bytes() -> Self {
        let read = |value: Value<'_>| Ok(value.size()?.bytes().into());
        let print = |bytes: &T| Some((*bytes).into()?.to_string());
        Self::with("bytes, as 1M", &["1M", "0"], read, print)
    }
}

/// Defines the options of a driver from one table.
///
/// Each row has the field with its documentation, its type and its default, the key in strings and,
/// where the type has too many values, a [`Setting`]. It expands to the struct with [`Options`],
/// `Default`, `FromStr` and `Display`, a chained setter for each field, on the options and on the
/// driver, and the driver's `with_options`.
///
/// The driver has a field `options`. A path after `check` is optional: a function that refuses
/// contradictory options.
///
/// ```
/// use xio_core::{Options as _, Setting};
///
/// #[derive(Debug, Default)]
/// pub struct Slow {
///     options: SlowOptions,
/// }
///
/// xio_core::options! {
///     /// Options of a layer that waits.
///     pub struct SlowOptions for "slow" [impl Slow] {
///         /// Number of bytes between two pauses.
///         every: u32 = 64, "every";
///         /// Device whose clock is read.
///         clock: Option<String> = None, "clock", Setting::new().local();
///     }
/// }
///
/// let options: SlowOptions = "every=7".parse()?;
/// assert_eq!(options, SlowOptions::default().every(7_u32));
/// assert_eq!(options.to_string(), "every=7");
/// assert!(SlowOptions::OPTIONS[1].local);
/// # Ok::<(), xio_core::Error>(())
/// ```
#[macro_export]
macro_rules! options {
    (@setting) => { $crate::Setting::new() };
    (@setting $setting:expr) => { $setting };
    // The setters of the driver, which has the options in its field `options`.
    (@driver $vis:vis $name:ident [$($over:tt)*] $($(#[doc = $doc:literal])* $field:ident: $type:ty;)*) => {
        $($over)* {
            /// Takes these options in place of the present ones.
            #[must_use]
            $vis fn with_options(mut self, options: $name) -> Self {
                self.options = options;
                self
            }

            /// The options.
            #[must_use]
            $vis const fn options(&self) -> &$name {
                &self.options
            }

            $($(#[doc = $doc])*
            #[must_use]
            $vis fn $field(mut self, $field: impl ::std::convert::Into<$type>) -> Self {
                self.options.$field = $field.into();
                self
            })*
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident for $driver:literal [$($over:tt)*] $(check $check:path)? {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty = $default:expr, $key:literal $(, $setting:expr)?;)*
        }
    ) => {
        $crate::options! {
            $(#[$meta])*
            $vis struct $name for $driver $(check $check)? {
                $($(#[doc = $doc])* $field: $type = $default, $key $(, $setting)?;)*
            }
        }
        $crate::options!(@driver $vis $name [$($over)*] $($(#[doc = $doc])* $field: $type;)*);
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident for $driver:literal $(check $check:path)? {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty = $default:expr, $key:literal $(, $setting:expr)?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        $vis struct $name {
            $($(#[doc = $doc])*
            ///
            #[doc = ::std::concat!("Option `", $key, "`; default `", ::std::stringify!($default), "`.")]
            pub $field: $type,)*
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        #[allow(dead_code, reason = "nobody needs every setter")]
        impl $name {
            $($(#[doc = $doc])*
            #[must_use]
            $vis fn $field(mut self, $field: impl ::std::convert::Into<$type>) -> Self {
                self.$field = $field.into();
                self
            })*
        }

        impl $crate::Options for $name {
            const OPTIONS: &'static [$crate::Opt] = &[$({
                const SETTING: $crate::Setting<$type> = $crate::options!(@setting $($setting)?);
                SETTING.row($key, ::std::concat!($($doc),*))
            }),*];

            fn update(&mut self, entry: &$crate::Entry) -> $crate::Result<()> {
                let mut options = self.clone();
                entry.apply(Self::OPTIONS, |key, value| match key {
                    $($key => {
                        const SETTING: $crate::Setting<$type> = $crate::options!(@setting $($setting)?);
                        SETTING.set(value, &mut options.$field)
                    })*
                    _ => Err($crate::BadValue),
                })?;
                $($check(&options)?;)?
                *self = options;
                Ok(())
            }

            fn value(&self, key: &str) -> Option<String> {
                match key {
                    $($key => {
                        const SETTING: $crate::Setting<$type> = $crate::options!(@setting $($setting)?);
                        Some(SETTING.text(&self.$field))
                    })*
                    _ => None,
                }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                let entry = $crate::Entry::new($driver)?.with_options(text)?;
                <Self as $crate::Options>::from_entry(&entry)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let default = Self::default();
                let text = $crate::OptionText::new();
                $(let text = {
                    const SETTING: $crate::Setting<$type> = $crate::options!(@setting $($setting)?);
                    text.add($key, SETTING.print(&self.$field, &default.$field))
                };)*
                ::std::fmt::Display::fmt(&text, f)
            }
        }
    };
}

/// Gives an enumeration the words that stand for its values in options.
///
/// ```
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Pace { Fast, Slow }
///
/// xio_core::words! { Pace: "fast or slow", Fast = "fast", Slow = "slow" }
///
/// assert_eq!("slow".parse(), Ok(Pace::Slow));
/// assert_eq!(Pace::Fast.to_string(), "fast");
/// ```
#[macro_export]
macro_rules! words {
    ($name:ident: $takes:literal, $($variant:ident = $word:literal),* $(,)?) => {
        impl ::std::str::FromStr for $name {
            type Err = $crate::BadValue;

            fn from_str(text: &str) -> ::std::result::Result<Self, $crate::BadValue> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err($crate::BadValue),
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)*
                })
            }
        }

        impl $crate::OptionValue for $name {
            const TAKES: &'static str = $takes;
            const EXAMPLES: &'static [&'static str] = &[$($word),*];

            fn read(value: $crate::Value<'_>) -> ::std::result::Result<Self, $crate::BadValue> {
                value.parse()
            }

            fn print(&self) -> ::std::option::Option<::std::string::String> {
                Some(::std::string::ToString::to_string(self))
            }
        }
    };
}
