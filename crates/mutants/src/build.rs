// SPDX-License-Identifier: Apache-2.0
//! Builds the copy: again and again, each time without the sites that the compiler refused.

use crate::copy::Copy;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds until one succeeds. More than this means that something else is wrong.
const ROUNDS_MAX: usize = 40;
/// One profile for tests and storm, so that everything is built once. Arithmetic that overflows
/// panics, as in `cargo test`.
const PROFILE: [&str; 6] = [
    "profile.mutants.inherits=\"release\"",
    "profile.mutants.opt-level=2",
    "profile.mutants.lto=\"off\"",
    "profile.mutants.codegen-units=16",
    "profile.mutants.debug=false",
    "profile.mutants.overflow-checks=true",
];

/// A program with tests.
#[derive(Clone, Debug)]
pub struct TestProgram {
    /// The crate that it belongs to.
    pub package: String,
    /// What cargo calls it: the crate itself, or a file in `tests`.
    pub target: String,
    pub program: PathBuf,
}

/// What a build gave.
pub struct Built {
    pub tests: Vec<TestProgram>,
    /// `gabion-storm`.
    pub storm: PathBuf,
}

/// Builds tests and storm of the copy. `not_viable` of the copy grows by what does not compile.
///
/// Errors: cargo, or a complaint of the compiler that is about no site.
pub fn build(copy: &mut Copy, crates: &[String], target: &Path) -> Result<Built> {
    for round in 1..=ROUNDS_MAX {
        let messages = cargo(copy, crates, target)?;
        let errors: Vec<&Value> = messages.iter().filter_map(error_of).collect();
        if errors.is_empty() {
            return programs(&messages);
        }
        let refused = refused(copy, &errors)?;
        println!("build {round}: {} errors, {} mutants left out", errors.len(), refused.len());
        copy.not_viable.extend(refused);
        copy.write()?;
    }
    bail!("the copy does not build after {ROUNDS_MAX} rounds")
}

fn cargo(copy: &Copy, crates: &[String], target: &Path) -> Result<Vec<Value>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&copy.root).arg("build").args(["--profile", "mutants"]);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    command.args(["--message-format", "json", "--keep-going", "--tests", "--bins", "-p", "storm"]);
    for name in crates {
        command.args(["-p", name]);
    }
    let output = command.arg("--target-dir").arg(target).stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let messages: Vec<Value> = messages.collect();
    if !output.status.success() && !messages.iter().any(|one| error_of(one).is_some()) {
        bail!("cargo failed without an error of the compiler: try it in {}", copy.root.display());
    }
    Ok(messages)
}

/// The compiler's message, if it is an error.
fn error_of(message: &Value) -> Option<&Value> {
    let message = message.get("message")?;
    (message.get("level")? == "error").then_some(message)
}

/// Labels of the mutants that the errors are about.
fn refused(copy: &Copy, errors: &[&Value]) -> Result<BTreeSet<String>> {
    let mut labels = BTreeSet::new();
    let mut strange = None;
    for error in errors {
        let mut about = about(copy, error, true);
        if about.is_empty() {
            about = self::about(copy, error, false);
        }
        if about.is_empty() {
            strange = error.get("rendered").and_then(Value::as_str).or(strange);
        }
        labels.extend(about);
    }
    if labels.is_empty() {
        bail!("an error that is about no mutant:\n{}", strange.unwrap_or("without words"));
    }
    Ok(labels)
}

fn about(copy: &Copy, error: &Value, is_near: bool) -> Vec<String> {
    let empty = Vec::new();
    let spans = error.get("spans").and_then(Value::as_array).unwrap_or(&empty);
    let mut labels = Vec::new();
    // First what the error points at, then what its notes point at, then the function around it.
    for is_primary in [true, false] {
        for span in spans.iter().filter(|span| span["is_primary"] == is_primary) {
            let Some(path) = span["file_name"].as_str() else { continue };
            let Some(file) = copy.files.get(path) else { continue };
            let byte = |name: &str| span[name].as_u64().and_then(|at| usize::try_from(at).ok());
            let (Some(start), Some(end)) = (byte("byte_start"), byte("byte_end")) else { continue };
            let spot = start..end.max(start + 1);
            let sites = if is_near {
                file.rendered.sites_at(&spot)
            } else {
                file.rendered.sites_of_function(&file.sites, &spot)
            };
            let sites = sites.iter().map(|index| &file.sites[*index]);
            labels.extend(sites.flat_map(|site| &site.mutants).map(|mutant| mutant.label()));
        }
        if !labels.is_empty() {
            break;
        }
    }
    labels
}

fn programs(messages: &[Value]) -> Result<Built> {
    let (mut tests, mut storm) = (Vec::new(), None);
    for message in messages {
        let Some(program) = message["executable"].as_str() else { continue };
        let target = message["target"]["name"].as_str().unwrap_or_default().to_owned();
        let is_test = message["profile"]["test"] == true;
        if target == "gabion-storm" && !is_test {
            storm = Some(program.into());
        }
        // `path+file:///.../crates/object#0.1.0`: the last folder is the crate.
        let id = message["package_id"].as_str().unwrap_or_default();
        let folder = id.split(['#', '@']).next().unwrap_or_default();
        let package = folder.rsplit('/').next().unwrap_or_default().to_owned();
        if is_test {
            tests.push(TestProgram { package, target, program: program.into() });
        }
    }
    tests.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(Built { tests, storm: storm.context("cargo built no gabion-storm")? })
}
