//! `MulticastOptions`: the receivers, and whether one of them may fail.

use xio_core::{Setting, Target};

use crate::Multicast;
use crate::intro::{MAX_RECEIVERS, MAX_TEXT};

xio_core::options! {
    /// The receivers, and whether one of them may fail.
    pub struct MulticastOptions for "multicast" [impl<T> Multicast<T>] {
        /// Whether this end forwards data to the receivers that a sender names.
        forward: bool = false, "forward", Setting::new().local();
        /// Whether failed receivers are dropped, as long as one is left.
        ignore_errors: bool = false, "ignore_errors";
        /// Number of receivers that one end serves by itself.
        p: u8 = 2, "p",
            Setting::new()
                .takes("a number, 1 to 64", &["1", "64"])
                .only(|p| (1..=64).contains(p));
        /// Contacts of the receivers beside the connected one.
        urls: Vec<String> = Vec::new(), "urls",
            Setting::new()
                .takes("a list, as #b:5000#c:5000", &["#b:5000#c:5000"])
                .only(|urls: &Vec<String>| {
                    let good = |url: &String| url.len() <= MAX_TEXT && url.parse::<Target>().is_ok();
                    urls.len() < MAX_RECEIVERS && urls.iter().all(good)
                })
                .local();
    }
}
