// SPDX-License-Identifier: Apache-2.0
//! Questions before what cannot be undone. They are asked only on a terminal; a script says
//! `--yes`.

use crate::Fail;
use anyhow::Result;
use std::io::{BufRead, IsTerminal, Write};

/// What is about to be done, for good.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Delete,
    Remove,
    /// From copies that are behind.
    Recover,
}

impl Deed {
    /// "This ... it", "it was not ...".
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Delete => ("deletes", "deleted"),
            Self::Remove => ("removes", "removed"),
            Self::Recover => ("recovers", "recovered"),
        }
    }
}

/// Asks the operator to type the name of what is going to be deleted or removed.
pub fn confirm_name(deed: Deed, what: &str, name: &str) -> Result<()> {
    let is_terminal = is_terminal();
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stderr());
    confirm(&mut input, &mut output, is_terminal, deed, (what, name))
}

/// Whether a person can see a question and answer it.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn confirm(
    input: &mut impl BufRead,
    output: &mut impl Write,
    is_terminal: bool,
    deed: Deed,
    (what, name): (&str, &str),
) -> Result<()> {
    let (does, done) = deed.words();
    if !is_terminal {
        return Err(Fail::usage(format!(
            "{what} was not {done}: without a terminal to ask on, --yes is needed"
        ))
        .into());
    }
    write!(output, "This {does} {what}. Type its name to go on: ")?;
    output.flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    if line.trim() == name {
        return Ok(());
    }
    Err(Fail::failed(format!("nothing was {done}: that is not '{name}'")).into())
}

/// Asks whether what was just shown is to be done.
///
/// # Errors
/// A usage error where there is no terminal to ask on.
pub fn confirm_shown(what: &str) -> Result<bool> {
    if !is_terminal() {
        let why = format!("{what} was not changed: without a terminal to ask on, --yes is needed");
        return Err(Fail::usage(why).into());
    }
    go_on()
}

/// Asks whether to go on. Yes without a question where nobody can be asked.
pub fn go_on() -> Result<bool> {
    if !is_terminal() {
        return Ok(true);
    }
    let mut output = std::io::stderr();
    write!(output, "Go on? [Y/n] ")?;
    output.flush()?;
    is_yes(&mut std::io::stdin().lock())
}

/// An empty line means yes; the end of the input does not.
fn is_yes(input: &mut impl BufRead) -> Result<bool> {
    let mut line = String::new();
    let read = input.read_line(&mut line)?;
    let answer = line.trim().to_ascii_lowercase();
    Ok(read > 0 && ["", "y", "yes"].contains(&answer.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_deletes_and_only_on_a_terminal() {
        let answer = |text: &str, is_terminal| {
            let mut asked = Vec::new();
            let what = ("volume 'db'", "db");
            let done = confirm(&mut text.as_bytes(), &mut asked, is_terminal, Deed::Delete, what);
            (done.map_err(|error| error.to_string()), String::from_utf8(asked).expect("text"))
        };
        let (done, asked) = answer("db\n", true);
        assert_eq!(done, Ok(()));
        assert!(asked.contains("volume 'db'"), "{asked}");
        for wrong in ["", "\n", "y\n", "yes\n", "DB\n", "db2\n"] {
            let error = answer(wrong, true).0.expect_err(wrong);
            assert!(error.contains("nothing was deleted"), "{error}");
        }
        let (done, asked) = answer("db\n", false);
        assert!(done.expect_err("no terminal").contains("--yes"));
        assert_eq!(asked, "", "nobody is asked");
    }

    #[test]
    fn disk_space_is_taken_unless_somebody_says_no() {
        let yes = |text: &str| is_yes(&mut text.as_bytes()).expect("text");
        assert!(yes("\n") && yes("Y\n") && yes("yes\n"));
        assert!(!yes("n\n") && !yes("what\n") && !yes(""));
    }
}
