// SPDX-License-Identifier: Apache-2.0
//! Watches the log of the code under test. A line of level ERROR that nobody expects is a
//! violation.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Once;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// How ERROR lines begin that any run may have, because an injected fault must lead to them.
const EXPECTED: &[&str] = &[];
/// How ERROR lines begin that a run may have after its directory was set back or lost.
const EXPECTED_BACK: &[&str] = &[
    "a fence is refused: its record does not descend",
    "a replica has seen",
    "a replica knows another owner of the term",
    "the directory does not account for it",
    "the directory holds an older record",
    "the directory went back in time",
    "vanished with its cluster's record: data is kept",
];

thread_local! {
    /// Where the lines of the run on this thread are kept.
    static CURRENT: RefCell<Option<LogWatch>> = const { RefCell::new(None) };
}

static INSTALL: Once = Once::new();

/// The unexpected ERROR lines of one run, and whether its directory was set back.
#[derive(Clone, Debug, Default)]
pub struct LogWatch(Rc<RefCell<Vec<String>>>, Rc<Cell<bool>>);

impl LogWatch {
    /// Calls `run`, and keeps the unexpected ERROR lines that it logs on this thread.
    pub fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        install(None);
        CURRENT.with(|current| *current.borrow_mut() = Some(self.clone()));
        let outcome = run();
        CURRENT.with(|current| *current.borrow_mut() = None);
        outcome
    }

    /// From now on hosts may say that the directory went back in time.
    pub fn may_go_back(&self) {
        self.1.set(true);
    }

    /// Whether that is so.
    #[must_use]
    pub fn went_back(&self) -> bool {
        self.1.get()
    }

    /// The first line that nobody expected.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        self.0.borrow().first().cloned()
    }
}

/// Prints the log to standard error as well. To be called before the first run.
pub fn print_log(filter: EnvFilter) {
    install(Some(filter));
}

fn install(print: Option<EnvFilter>) {
    INSTALL.call_once(|| {
        let printer = print.map(|filter| {
            let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
            layer.with_timer(VirtualTime).with_ansi(false).with_filter(filter)
        });
        let keeper = Keeper.with_filter(LevelFilter::ERROR);
        // A test may have a subscriber of its own. Then that one gets the errors.
        let _ = tracing_subscriber::registry().with(keeper).with(printer).try_init();
    });
}

/// Seconds since the simulated world began.
struct VirtualTime;

impl FormatTime for VirtualTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:>14.6}", Duration::from_nanos(sim::time_of_log()).as_secs_f64())
    }
}

struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if *event.metadata().level() > Level::ERROR {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        if EXPECTED.iter().any(|expected| text.0.starts_with(expected)) {
            return;
        }
        CURRENT.with(|current| {
            if let Some(watch) = &*current.borrow() {
                let is_back = EXPECTED_BACK.iter().any(|line| text.0.starts_with(line));
                if is_back && watch.1.get() {
                    return;
                }
                watch.0.borrow_mut().push(text.0);
            }
        });
    }
}

/// The message of an event, followed by its fields.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        let written = match field.name() {
            "message" => {
                let rest = std::mem::take(&mut self.0);
                write!(self.0, "{value:?}{rest}")
            }
            name => write!(self.0, " {name}={value:?}"),
        };
        let Ok(()) = written else { unreachable!("a string takes everything") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_and_warnings_are_not() {
        let watch = LogWatch::default();
        watch.during(|| {
            tracing::warn!("a warning");
            tracing::error!(device = "cache", "on fire");
        });
        tracing::error!("of nobody's run");
        assert_eq!(watch.first().as_deref(), Some("on fire device=\"cache\""));
        assert_eq!(watch.0.borrow().len(), 1);
    }
}
