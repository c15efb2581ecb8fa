// SPDX-License-Identifier: Apache-2.0
//! Results for people and for programs.

use crate::args::Output;
use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde::Serialize;
use std::io::Write;

/// Prints a line on standard output. It is no failure if the reader has gone (a closed pipe).
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}
pub(crate) use say;

/// Writes `bytes` to standard output. It is no failure if the reader has gone, but a full disk is.
pub fn write(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the output")
        }
        _ => Ok(()),
    }
}

/// Prints `value`: as JSON, or for people by `table`.
pub fn print<T: Serialize>(output: Output, value: &T, table: impl FnOnce(&T)) -> Result<()> {
    match output {
        Output::Json => say!("{}", serde_json::to_string_pretty(value)?),
        Output::Table => table(value),
    }
    Ok(())
}

/// Prints a table with a heading line.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>) {
    lines(heading, rows).iter().for_each(|line| say!("{line}"));
}

/// The lines of a table, the heading first.
pub fn lines(heading: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heading.iter().map(|h| h.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    table.to_string().lines().map(|line| line.trim_end().to_owned()).collect()
}
