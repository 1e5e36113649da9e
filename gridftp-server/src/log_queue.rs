//! `LogQueue`: log lines for a writer that may be slow; lines over its bound are dropped and
//! counted.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Bytes of lines that may wait.
const MOST: usize = 1 << 20;

/// Memory for lines that an idle queue keeps.
const KEEP: usize = 64 << 10;

/// Whole lines for a thread that writes them.
#[derive(Debug, Default)]
pub(crate) struct LogQueue {
    lines: Mutex<Lines>,
    changed: Condvar,
    /// The writing thread, whose own lines about dropped ones are always queued.
    writer: OnceLock<ThreadId>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: Vec<u8>,
    /// Whether some are being written.
    writing: bool,
    dropped: u64,
}

impl LogQueue {
    /// Starts a thread that writes the queue to `out`. When lines can be written again after a
    /// loss, it calls `tell` with the number of lost lines.
    ///
    /// # Errors
    /// The errors of making a thread.
    pub(crate) fn start(
        out: impl Write + Send + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self::default());
        let writer = Arc::clone(&queue);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || writer.write_out(out, tell))?;
        Ok(queue)
    }

    /// Waits until all lines are written, for at most so long.
    pub(crate) fn flush(&self, within: Duration) {
        let busy = |lines: &mut Lines| lines.writing || !lines.waiting.is_empty();
        // Over in any case.
        drop(
            self.changed
                .wait_timeout_while(self.lines(), within, busy)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Adds a line or drops it, without waiting.
    fn push(&self, line: &[u8]) {
        let mut lines = self.lines();
        if lines.waiting.len() + line.len() > MOST
            && self.writer.get() != Some(&thread::current().id())
        {
            lines.dropped += 1;
            return;
        }
        lines.waiting.extend_from_slice(line);
        drop(lines);
        self.changed.notify_all();
    }

    fn write_out(&self, mut out: impl Write, tell: impl Fn(u64)) {
        let _ = self.writer.set(thread::current().id());
        let mut chunk = Vec::new();
        let mut broken = false;
        loop {
            let mut lines = self.lines();
            lines.writing = false;
            self.changed.notify_all();
            lines = self
                .changed
                .wait_while(lines, |lines| lines.waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            lines.writing = true;
            std::mem::swap(&mut lines.waiting, &mut chunk);
            drop(lines);
            let lost = write_lines(&mut out, &chunk, &mut broken);
            chunk.clear();
            chunk.shrink_to(KEEP);
            let mut lines = self.lines();
            lines.dropped += lost;
            let dropped = if lost == 0 {
                std::mem::take(&mut lines.dropped)
            } else {
                0
            };
            drop(lines);
            if dropped > 0 {
                tell(dropped);
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of `write` is one line.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines as far as possible, behind one that may be `broken`; returns the number of lost
/// lines.
fn write_lines(out: &mut impl Write, lines: &[u8], broken: &mut bool) -> u64 {
    // A truncated line is ended, so that the next one does not continue it.
    let ended = !*broken || write_some(out, b"\n") > 0;
    let written = if ended { write_some(out, lines) } else { 0 };
    let (written, rest) = lines.split_at_checked(written).unwrap_or((lines, &[]));
    *broken = written.last().map_or(!ended, |last| *last != b'\n');
    rest.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Writes as far as possible; returns the number of bytes.
fn write_some(out: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(n) if n > 0 => written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A writer that obeys a command for each chunk, and passes the chunk on.
    struct Slow {
        then: mpsc::Receiver<io::Result<()>>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.then.recv().unwrap_or(Ok(()))?;
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A disk with room for so many more bytes.
    struct Disk {
        written: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.get(..self.room).unwrap_or(bytes);
            if taken.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= taken.len();
            self.written.extend_from_slice(taken);
            Ok(taken.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_cut_off_ends_before_the_next_one() {
        let (mut disk, mut broken) = (
            Disk {
                written: Vec::new(),
                room: 9,
            },
            false,
        );
        let mut write = |room, lines: &str| {
            disk.room += room;
            let lost = write_lines(&mut disk, lines.as_bytes(), &mut broken);
            (lost, String::from_utf8(disk.written.clone()).unwrap())
        };
        assert_eq!(write(0, "first\nsecond\nthird\n"), (2, "first\nsec".into()));
        assert_eq!(write(0, "fourth\n"), (1, "first\nsec".into()));
        assert_eq!(write(1, "fifth\n"), (1, "first\nsec\n".into()));
        assert_eq!(write(6, "sixth\n"), (0, "first\nsec\nsixth\n".into()));
    }

    #[test]
    fn lines_over_the_bound_are_dropped_and_the_count_is_told() {
        let ((go, then), (written, wrote)) = (mpsc::channel(), mpsc::channel());
        let (tell, told) = mpsc::channel();
        let queue = LogQueue::start(Slow { then, written }, move |dropped| {
            let _ = tell.send(dropped);
        })
        .unwrap();
        queue.push(b"first\n");
        // The writer holds this line, and accepts no more.
        while !queue.lines().writing {
            thread::yield_now();
        }
        let line = [b"x".repeat(1023).as_slice(), b"\n"].concat();
        for _ in 0..2 * MOST / line.len() {
            queue.push(&line);
        }
        assert_eq!(queue.lines().waiting.len(), MOST);
        go.send(Ok(())).unwrap();
        assert_eq!(wrote.recv_timeout(PATIENCE).unwrap(), b"first\n");
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 1024);
        // No room on the disk: the lines are lost and counted.
        go.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        while !queue.lines().waiting.is_empty() {
            thread::yield_now();
        }
        queue.push(b"last\n");
        drop(go);
        assert_eq!(wrote.recv_timeout(PATIENCE).unwrap(), b"last\n");
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 1024);
        queue.flush(PATIENCE);
        assert!(!queue.lines().writing);
    }
}
