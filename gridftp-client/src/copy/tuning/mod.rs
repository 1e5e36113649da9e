//! `Tuning`: the streams of a file and the files at once, chosen while a copy runs.

mod climb;
