//! Instructions in user space for one round trip of a message, counted by valgrind.

use std::process::Command;

use workspace_tests::run;

use crate::Bench;
use crate::exchange::Exchange;
use crate::wrap::Wrap;

/// The flag of the process under valgrind.
pub(crate) const CHILD: &str = "--exchange";

/// Messages of a short and a long exchange, of which the difference is counted.
const TIMES: [u32; 2] = [200, 1200];

/// Bytes of a message: few enough for one system call.
const SIZE: usize = 1 << 10;

/// Prints a table.
pub(crate) fn count() {
    println!("instructions in user space for a round trip of 1 KiB, both ends together\n");
    println!("| Variant | Instructions | More than bare |");
    println!("| --- | ---: | ---: |");
    let mut bare = None;
    for (at, wrap) in Wrap::ALL.into_iter().enumerate() {
        let [Some(short), Some(long)] = TIMES.map(|times| counted(at, times)) else {
            println!("SKIPPED: needs valgrind (Debian package valgrind)");
            return;
        };
        let each = long.saturating_sub(short) / u64::from(TIMES[1] - TIMES[0]);
        let bare = *bare.get_or_insert(each);
        let more = i128::from(each) - i128::from(bare);
        println!("| {} | {each} | {more:+} |", wrap.name());
    }
}

/// Runs the exchange under valgrind and returns the number of instructions.
fn counted(wrap: usize, times: u32) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([CHILD, &wrap.to_string(), &times.to_string()]);
    let finished = run(&mut valgrind, std::time::Duration::from_secs(120)).ok()?;
    let output = &finished.stderr;
    let line = output.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Runs the exchange; the arguments are the index of the variant and the number of messages.
pub(crate) fn child(words: &[String]) {
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    let (Some(wrap), Some(times)) = (number(0), number(1)) else {
        return;
    };
    let wrap = Wrap::ALL.get(wrap as usize);
    let exchange = Exchange::PingPong { size: SIZE, times };
    Bench::new().run(*wrap.expect("an index of the list"), exchange);
}
