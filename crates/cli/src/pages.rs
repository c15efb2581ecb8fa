// SPDX-License-Identifier: Apache-2.0
//! What a package has beside the program: completions for shells, and manual pages. Both are made
//! from the command line's grammar, so they are never behind it.

use crate::args::{Cli, PagesCommand};
use crate::output;
use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::Path;

/// The section of manuals for programs that users call.
const SECTION: &str = "1";

/// What `gabion(1)` says beside what the grammar has.
const OF_ALL: [(&str, &[(&str, &str)]); 3] = [
    (
        "EXIT STATUS",
        &[
            ("0", "It is done."),
            ("1", "It could not be done."),
            ("2", "The request itself is wrong."),
            ("3, 4", "Of gabion health alone: something is yellow, something is red."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            (
                "GABION_DATA, GABION_CONFIG",
                "What --data and --config say where they are not given.",
            ),
            (
                "GABION_LOG",
                "What a daemon logs: error, warn, info, debug or trace [default: info].",
            ),
        ],
    ),
    (
        "FILES",
        &[
            ("/etc/gabion/host.toml", "This machine as a host of a cluster of several machines."),
            ("./gabion-data", "The cluster of 'gabion up', where --data names no other folder."),
        ],
    ),
];

/// `gabion completions` and `gabion man`.
pub fn pages(command: &PagesCommand) -> Result<()> {
    match command {
        PagesCommand::Completions { shell } => {
            // First into a buffer, because the generator panics where its output is closed.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "gabion", &mut script);
            output::write(&script)
        }
        PagesCommand::Man { folder } => write_manual(folder)
            .with_context(|| format!("cannot write manual pages into '{}'", folder.display())),
    }
}

fn write_manual(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Each command has its own help; one called help would be a page about nothing.
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    write_page(&root, None, folder)
}

/// Writes the page of a command, and those of the commands below it.
fn write_page(command: &Command, above: Option<&str>, folder: &Path) -> io::Result<()> {
    let name = name_of(command);
    fs::write(folder.join(format!("{name}.{SECTION}")), page(command, above)?)?;
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    below.into_iter().try_for_each(|command| write_page(command, Some(name), folder))
}

/// The name of a command's page, as `gabion-volume-create`.
fn name_of(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command, above: Option<&str>) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .title(name_of(command).to_uppercase())
        .section(SECTION)
        .source(concat!("gabion ", env!("CARGO_PKG_VERSION")))
        .manual("Gabion");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    if let Some(help) = command.get_after_help() {
        notes(&mut roff, &help.to_string());
    }
    match above {
        Some(above) => {
            roff.control("SH", ["SEE ALSO"]);
            roff.text([bold(above), roman(format!("({SECTION})"))]);
        }
        None => of_all(&mut roff),
    }
    roff.to_writer(&mut out)?;
    Ok(out)
}

/// What stands below a command's help: indented lines are commands to be kept as they are, the
/// others are text.
fn notes(roff: &mut Roff, help: &str) {
    let mut is_example = false;
    let lines = help.lines();
    let has_examples = help.starts_with("Example");
    roff.control("SH", [if has_examples { "EXAMPLES" } else { "NOTES" }]);
    for line in lines.skip(usize::from(has_examples)) {
        let example = line.strip_prefix("  ");
        if example.is_some() != is_example {
            is_example = example.is_some();
            roff.control(if is_example { "EX" } else { "EE" }, []);
            if !is_example {
                roff.control("PP", []);
            }
        }
        roff.text([roman(example.unwrap_or(line))]);
    }
    if is_example {
        roff.control("EE", []);
    }
}

fn of_all(roff: &mut Roff) {
    for (heading, entries) in OF_ALL {
        roff.control("SH", [heading]);
        for (what, meaning) in entries {
            roff.control("TP", []);
            roff.text([bold(*what)]);
            roff.text([roman(*meaning)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the pages that there must be, from the grammar.
    fn wanted(command: &Command, above: &str) -> Vec<String> {
        let name = format!("{above}{}", command.get_name());
        let below = command.get_subcommands().filter(|it| !it.is_hide_set());
        let below = below.flat_map(|it| wanted(it, &format!("{name}-"))).collect::<Vec<_>>();
        std::iter::once(name).chain(below).collect()
    }

    #[test]
    fn each_command_has_a_page_with_its_examples() {
        let folder = std::env::temp_dir().join(format!("gabion-man-{}", std::process::id()));
        write_manual(&folder).expect("written");
        let text = |name: &str| fs::read_to_string(folder.join(format!("{name}.1"))).expect(name);
        let names = wanted(&Cli::command(), "");
        assert!(names.len() > 60, "{names:?}");
        for name in &names {
            let page = text(name);
            let said = name.replace('-', r"\-");
            assert!(page.contains(&format!("\n.SH NAME\n{said} \\- ")), "{name}: {page}");
        }
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), names.len());
        let up = text("gabion-up");
        assert!(up.contains("\n.SH EXAMPLES\n.EX\ngabion up "), "{up}");
        assert!(up.contains("\n.EE\n.SH \"SEE ALSO\"\n\\fBgabion\\fR(1)\n"), "{up}");
        assert!(!up.contains("background\\fR"), "what is hidden is in no page: {up}");
        // What stands below the examples is text, and flows as such.
        let create = text("gabion-cluster-create");
        assert!(create.contains("\n.EE\n.PP\nThe hosts keep the directory"), "{create}");
        assert!(text("gabion").contains("\n.SH \"EXIT STATUS\"\n"));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
