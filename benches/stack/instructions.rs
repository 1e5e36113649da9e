//! Instructions outside the kernel for one message there and back, counted by valgrind.

use std::process::Command;

use workspace_tests::run;

use crate::Bench;
use crate::talk::Order;
use crate::wrap::Wrap;

/// The word that makes this program the one whose instructions are counted.
pub(crate) const CHILD: &str = "--talk";

/// Messages of the short and of the long conversation, whose difference is counted.
const TIMES: [u32; 2] = [200, 1200];

/// What is exchanged: more would be written and read in several pieces, as the kernel likes.
const SIZE: usize = 1 << 10;

/// Prints a table.
pub(crate) fn count() {
    println!("instructions outside the kernel for 1 KiB there and back, both ends together\n");
    println!("| What | Instructions | More than bare |");
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

/// Runs the conversation under valgrind and returns how many instructions it took.
fn counted(wrap: usize, times: u32) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([CHILD, &wrap.to_string(), &times.to_string()]);
    let finished = run(&mut valgrind, std::time::Duration::from_secs(120)).ok()?;
    let said = &finished.stderr;
    let line = said.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Holds the conversation: the number of the wrap, and how many messages.
pub(crate) fn child(words: &[String]) {
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    let (Some(wrap), Some(times)) = (number(0), number(1)) else {
        return;
    };
    let wrap = Wrap::ALL.get(wrap as usize);
    let order = Order::PingPong { size: SIZE, times };
    Bench::new().run(*wrap.expect("a number of the list"), order);
}
