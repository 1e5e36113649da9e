//! `TuningFlags`: the part of the command line on the streams of a file and the files at once.

use std::num::NonZero;

use clap::Args;
use gridftp_client::options::CopyOptions;

/// The streams of a file and the files at once: exact numbers, or bounds of those that are chosen.
#[derive(Debug, Args)]
pub(crate) struct TuningFlags {
    /// Data connections of one file in MODE E, to each node of a server [default: by size, distance
    /// and nodes, then by the rate of files with more or fewer]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parallel: Option<u32>,

    /// Most data connections of one file, to each node of a server, where --parallel leaves their number
    /// open; more than 16 are never chosen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    max_parallel: Option<u32>,

    /// Control connections, that is files at once [default: by number of files, and distance in
    /// MODE S, then by the rate with more or fewer]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: Option<u32>,

    /// Most files at once, where --concurrency leaves their number open; more than 16 in MODE E, and
    /// 32 in MODE S, are never chosen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    max_concurrency: Option<u32>,
}

impl TuningFlags {
    /// Refuses exact numbers beyond their bounds.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for (name, exact, most) in [
            ("parallel", self.parallel, self.max_parallel),
            ("concurrency", self.concurrency, self.max_concurrency),
        ] {
            if let (Some(exact), Some(most)) = (exact, most) {
                anyhow::ensure!(
                    exact <= most,
                    "usage: --{name} {exact}: more than --max-{name} {most} allows; write --{name} {most}, \
                     or a larger --max-{name}"
                );
            }
        }
        Ok(())
    }

    /// Sets the numbers in the options of copies.
    pub(crate) fn set(&self, options: &mut CopyOptions) {
        options.parallel = self.parallel;
        options.max_parallel = self.max_parallel.and_then(NonZero::new);
        options.concurrency = self.concurrency;
        options.max_concurrency = self.max_concurrency.and_then(NonZero::new);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Flags;

    #[test]
    fn an_exact_number_stays_within_its_bound() {
        let parse = |args: &[&str]| {
            let flags = Flags::try_parse_from([&["gridftp-cp"], args, &["a", "b"]].concat());
            let flags = flags.map_err(|error| error.to_string())?;
            flags.check().map_err(|error| error.to_string())?;
            let options = flags.copy_options().map_err(|error| error.to_string())?;
            let [streams, files] = [options.max_parallel, options.max_concurrency];
            Ok::<_, String>([streams, files].map(|most| most.map_or(0, NonZero::get)))
        };
        assert_eq!(parse(&[]), Ok([0, 0]));
        assert_eq!(parse(&["-p", "4", "--max-parallel", "4"]), Ok([4, 0]));
        assert_eq!(parse(&["-p", "9", "--max-concurrency", "3"]), Ok([0, 3]));
        for (flag, name) in [("-p", "parallel"), ("-j", "concurrency")] {
            let told = parse(&[flag, "5", &format!("--max-{name}=4")]).unwrap_err();
            let fact = format!("--{name} 5: more than --max-{name} 4 allows");
            assert!(told.contains(&fact), "{told}");
        }
    }
}
