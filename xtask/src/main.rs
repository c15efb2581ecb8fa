// SPDX-License-Identifier: Apache-2.0
//! The project's own checks: what `./dev lint` runs beside rustfmt and clippy.
//!
//! Guarantees: reads only files that git tracks or would track; `tidy` changes nothing without
//! `--fix`. Non-guarantees: a small scanner reads the Rust code, not a parser. A function that a
//! macro hides from the scanner is not held to the limits.
#![forbid(unsafe_code)]

mod rust;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: xtask tidy [--fix]
       xtask sizes [FOLDER]

tidy    check line width, file and function length, licence headers, banned words, links,
        citations of rules, manifests, the direction of dependencies and their licences
--fix   sort the dependency lists that are not sorted, then check
sizes   print the sizes of this checkout, or of the one in FOLDER: lines and circles of each crate,
        the longest files and functions, names with several meanings, dead citations
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_fix = match arguments.as_slice() {
        ["tidy"] => false,
        ["tidy", "--fix"] => true,
        ["sizes"] => return print_sizes(&root()),
        ["sizes", folder] => return print_sizes(Path::new(folder)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&root(), is_fix) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(count) => {
            eprintln!("tidy: {count} findings");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The repository: the parent of this crate's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn print_sizes(root: &Path) -> ExitCode {
    match tidy::Tree::load(root) {
        Ok(tree) => {
            print!("{}", tidy::sizes(&tree));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("sizes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, is_fix: bool) -> std::io::Result<usize> {
    if is_fix {
        for path in tidy::sort_manifests(root)? {
            println!("sorted {path}");
        }
    }
    let tree = tidy::Tree::load(root)?;
    let findings = tidy::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to say", tree.files.len());
    }
    Ok(findings.len())
}
