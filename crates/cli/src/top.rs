// SPDX-License-Identifier: Apache-2.0
//! `gabion top`: what is done now, once or live.

use crate::Fail;
use crate::args::{Cli, Output, TopArgs};
use crate::client;
use crate::figures::columns;
use crate::output::{self, say};
use crate::target::{TargetHost, no_host};
use anyhow::{Context, Result};
use crossterm::event::{self, KeyCode, KeyEvent, KeyModifiers};
use crossterm::{cursor, execute, queue, style, terminal};
use operator::Command;
use operator::history::{PerformanceKind, PerformanceTop};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two questions.
const EVERY: Duration = Duration::from_secs(2);
/// Rows where the size of the terminal is not known.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// `gabion top`.
pub fn top(cli: &Cli, args: &TopArgs) -> Result<()> {
    let target = TargetHost::find(cli)?;
    let view = TopView::new(args)?;
    let is_live = !args.once && cli.output == Output::Table && std::io::stdout().is_terminal();
    if is_live {
        return live(&target, args, view);
    }
    let mut report = ask(&target, args, view.kind)?;
    view.sort(&mut report);
    output::print(cli.output, &report, |report| {
        say!("{}", summary(report));
        view.lines(report, true).iter().for_each(|line| say!("{line}"));
    })
}

fn ask(target: &TargetHost, args: &TopArgs, kind: PerformanceKind) -> Result<PerformanceTop> {
    let (seconds, limit) = (Some(args.over.as_secs()), Some(args.limit.into()));
    let command = Command::PerformanceTop { kind, seconds, limit };
    client::ask(&target.door(), &command).map_err(|error| match error.is::<Fail>() {
        true => error,
        false => no_host(target),
    })
}

/// What is shown, and how.
struct TopView {
    kind: PerformanceKind,
    /// The column that is sorted by, from 0 on.
    sorted_by: usize,
    is_reversed: bool,
}

impl TopView {
    fn new(args: &TopArgs) -> Result<Self> {
        let columns = columns(args.kind);
        let sorted_by = match &args.sort {
            None => 0,
            Some(wanted) => {
                let is_it = |heading: &str| {
                    let heading = heading.trim();
                    heading == wanted || heading.strip_suffix("/s") == Some(wanted)
                };
                let found = columns.iter().position(|column| is_it(column.heading));
                found.ok_or_else(|| {
                    let names: Vec<_> = columns.iter().map(|one| one.heading.trim()).collect();
                    Fail::usage(format!(
                        "there is no column '{wanted}': there are {}",
                        names.join(", ")
                    ))
                })?
            }
        };
        Ok(Self { kind: args.kind, sorted_by, is_reversed: false })
    }

    fn sort(&self, report: &mut PerformanceTop) {
        let columns = columns(self.kind);
        let Some(column) = columns.get(self.sorted_by) else { return };
        report.items.sort_by(|one, other| {
            let order = column.key(&other.point).total_cmp(&column.key(&one.point));
            if self.is_reversed { order.reverse() } else { order }
        });
    }

    fn lines(&self, report: &PerformanceTop, is_whole: bool) -> Vec<String> {
        let columns = columns(self.kind);
        let mark = |at: usize, heading: &str| match at == self.sorted_by && !is_whole {
            true => format!("{heading}*"),
            false => heading.to_owned(),
        };
        let headings = columns.iter().enumerate().map(|(at, column)| mark(at, column.heading));
        let headings: Vec<String> =
            std::iter::once(self.kind.name().to_owned()).chain(headings).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let rows = report.items.iter().map(|row| {
            let texts = columns.iter().map(|column| column.text(&row.point));
            std::iter::once(row.name.clone()).chain(texts).collect()
        });
        output::lines(&headings, rows.collect())
    }

    /// Takes in a key. False: it ends.
    fn key(&mut self, key: KeyEvent, is_held: &mut bool) -> bool {
        let count = columns(self.kind).len();
        let kind = match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('v') => PerformanceKind::Volume,
            KeyCode::Char('h') => PerformanceKind::Host,
            KeyCode::Char('s') => PerformanceKind::Shard,
            KeyCode::Char('g') => PerformanceKind::Group,
            KeyCode::Char('d') => PerformanceKind::Device,
            KeyCode::Char('c') => PerformanceKind::Cluster,
            other => {
                match other {
                    KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
                    KeyCode::Char('p') => *is_held = !*is_held,
                    KeyCode::Right => self.sorted_by = (self.sorted_by + 1) % count,
                    KeyCode::Left => self.sorted_by = (self.sorted_by + count - 1) % count,
                    _ => {}
                }
                return true;
            }
        };
        if kind != self.kind {
            *self = Self { kind, sorted_by: 0, is_reversed: false };
        }
        true
    }
}

/// What is shown, in one line.
fn summary(report: &PerformanceTop) -> String {
    let seconds = report.to.saturating_sub(report.from);
    let shown = report.items.len();
    let of = match report.total.cmp(&shown) {
        std::cmp::Ordering::Greater => format!("{shown} of {}", report.total),
        _ => shown.to_string(),
    };
    let left_out = match report.left_out {
        0 => "",
        _ => "; there are more volumes than figures are kept of",
    };
    let noun = report.kind.name();
    let plural = if shown == 1 { "" } else { "s" };
    format!("{of} {noun}{plural} did something in the last {seconds} s{left_out}")
}

/// A terminal that is as it was when this is gone.
struct Screen;

impl Screen {
    fn new() -> Result<Self> {
        terminal::enable_raw_mode().context("cannot read keys of this terminal")?;
        let screen = Self;
        execute!(std::io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)
            .context("cannot write to this terminal")?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn live(target: &TargetHost, args: &TopArgs, mut view: TopView) -> Result<()> {
    let mut report = ask(target, args, view.kind);
    let _screen = Screen::new()?;
    let (mut asked, mut is_held) = (Instant::now(), false);
    loop {
        if let Ok(report) = &mut report {
            view.sort(report);
        }
        draw(&view, &report, is_held)?;
        let left = EVERY.saturating_sub(asked.elapsed());
        let kind = view.kind;
        if event::poll(left).context("cannot read keys of this terminal")? {
            let event = event::read().context("cannot read keys of this terminal")?;
            let pressed = event.as_key_press_event();
            if pressed.is_some_and(|key| !view.key(key, &mut is_held)) {
                return Ok(());
            }
        }
        let is_due = asked.elapsed() >= EVERY;
        if view.kind != kind || (is_due && !is_held) {
            report = ask(target, args, view.kind);
        }
        if is_due || view.kind != kind {
            asked = Instant::now();
        }
    }
}

fn draw(view: &TopView, report: &Result<PerformanceTop>, is_held: bool) -> Result<()> {
    let (width, height) = terminal::size().unwrap_or(SIZE_DEFAULT);
    let (width, height) = (usize::from(width), usize::from(height));
    let held = if is_held { " (held)" } else { "" };
    let lines = match report {
        Ok(report) => {
            let mut lines = vec![format!("{}{held}", summary(report)), String::new()];
            lines.extend(view.lines(report, false));
            lines
        }
        Err(error) => vec![format!("{error:#}")],
    };
    let mut out = std::io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0))?;
    // The last line has the keys.
    for line in lines.iter().take(height.saturating_sub(1)) {
        let line: String = line.chars().take(width).collect();
        queue!(out, style::Print(line), terminal::Clear(terminal::ClearType::UntilNewLine))?;
        queue!(out, style::Print("\r\n"))?;
    }
    queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    let keys = "v volumes h hosts s shards g groups d devices c cluster  < > sort  r reverse  \
                p hold  q quit";
    let keys: String = keys.chars().take(width).collect();
    let last = u16::try_from(height.saturating_sub(1)).unwrap_or(u16::MAX);
    queue!(out, cursor::MoveTo(0, last), style::Print(keys))?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use operator::history::{HistoryRecord, PerformancePoint, PerformanceRow};
    use operator::{OperationKind, OperationReport};

    fn row(name: &str, operation: OperationKind, count: u64) -> PerformanceRow {
        let mut latencies = vec![0; 18];
        latencies[2] = count;
        let (bytes, took_us) = (count * 4096, count * 200);
        let mut record = HistoryRecord::default();
        record.add_operation(&OperationReport { operation, failed: 0, bytes, took_us, latencies });
        let point = PerformancePoint::of(PerformanceKind::Volume, 0, 10_000, &record);
        PerformanceRow { name: name.to_owned(), point }
    }

    fn report() -> PerformanceTop {
        let items = vec![
            row("a", OperationKind::Read, 900),
            row("b", OperationKind::Write, 500),
            row("c", OperationKind::Write, 100),
        ];
        let kind = PerformanceKind::Volume;
        PerformanceTop { kind, from: 0, to: 10, items, total: 3, left_out: 0 }
    }

    fn press(view: &mut TopView, code: KeyCode) -> bool {
        view.key(KeyEvent::new(code, KeyModifiers::NONE), &mut false)
    }

    fn names(view: &TopView) -> String {
        let mut report = report();
        view.sort(&mut report);
        report.items.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn keys_choose_what_is_shown_and_in_which_order() {
        let kind = PerformanceKind::Volume;
        let mut view = TopView { kind, sorted_by: 0, is_reversed: false };
        assert_eq!(names(&view), "abc");
        assert!(press(&mut view, KeyCode::Right) && press(&mut view, KeyCode::Right));
        assert_eq!(names(&view), "bca", "by writes");
        assert!(press(&mut view, KeyCode::Char('r')));
        assert_eq!(names(&view), "acb");
        assert!(press(&mut view, KeyCode::Left) && press(&mut view, KeyCode::Char('x')));
        assert!(press(&mut view, KeyCode::Char('g')));
        assert_eq!((view.kind, view.sorted_by), (PerformanceKind::Group, 0));
        assert!(press(&mut view, KeyCode::Left));
        assert_eq!(view.sorted_by, columns(PerformanceKind::Group).len() - 1);
        assert!(!press(&mut view, KeyCode::Char('q')) && !press(&mut view, KeyCode::Esc));
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!view.key(end, &mut false));
    }

    #[test]
    fn a_table_says_what_was_done() {
        let view = TopView { kind: PerformanceKind::Volume, sorted_by: 0, is_reversed: false };
        let lines = view.lines(&report(), true);
        assert_eq!(lines.len(), 4);
        let first: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(first[..4], ["a", "90", "90", "0"]);
        assert!(view.lines(&report(), false)[0].contains("REQUESTS/S*"));
        assert_eq!(summary(&report()), "3 volumes did something in the last 10 s");
        let more = PerformanceTop { total: 9, left_out: 1, ..report() };
        assert!(summary(&more).starts_with("3 of 9 volumes") && summary(&more).contains("more"));
    }
}
