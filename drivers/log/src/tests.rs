//! Logged events and their levels, and contents, which are never logged.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use xio_testkit::Mem;

use super::*;

/// A subscriber that keeps every event as a line.
#[derive(Clone)]
struct Lines(Arc<Mutex<String>>, Level);

impl Lines {
    fn up_to(level: Level) -> Self {
        Self(Arc::default(), level)
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.1
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        write!(text, "{}", event.metadata().level()).unwrap();
        event.record(&mut Line(&mut text));
        text.push('\n');
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

async fn conversation(options: &str, lines: &Lines) {
    let guard = tracing::subscriber::set_default(lines.clone());
    let log = Log::new().with_options(options.parse().unwrap());
    let (near, mut far) = Mem::new().pair();
    let mut near = log.respond(near).await.unwrap();
    near.write_all(b"password").await.unwrap();
    near.shutdown().await.unwrap();
    far.write_all(b"secret").await.unwrap();
    drop(far);
    near.read_to_end(&mut Vec::new()).await.unwrap_err();
    drop(near);
    drop(guard);
}

#[tokio::test]
async fn operations_are_logged_and_contents_never() {
    let lines = Lines::up_to(Level::TRACE);
    conversation("tag=data", &lines).await;
    let text = lines.text();
    for part in [
        "DEBUG message=opened tag=\"data\"",
        "TRACE message=wrote tag=\"data\"",
        "bytes=8",
        "TRACE message=shut down",
        "TRACE message=read",
        "bytes=6",
        "DEBUG message=failed",
        "op=read",
        "read=6 written=8 how=\"closed\"",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(
        !text.contains("password") && !text.contains("secret"),
        "{text}"
    );
}

#[tokio::test]
async fn without_each_there_are_only_beginnings_errors_and_ends() {
    let lines = Lines::up_to(Level::TRACE);
    conversation("each=no", &lines).await;
    assert!(!lines.text().contains("TRACE"), "{}", lines.text());
    assert_eq!(lines.text().lines().count(), 3);
    let quiet = Lines::up_to(Level::INFO);
    conversation("", &quiet).await;
    assert_eq!(quiet.text(), "");
}

#[test]
fn a_tag_cannot_forge_a_line() {
    for bad in ["tag=", "tag=a%0Ab", "tag=%1B%5B31m"] {
        assert!(bad.parse::<LogOptions>().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn display_round_trips(each in any::<bool>(), tag in prop::option::of("[^\\pC]{1,16}")) {
        let options = LogOptions { each, tag };
        prop_assert_eq!(options.to_string().parse::<LogOptions>().unwrap(), options);
    }
}
