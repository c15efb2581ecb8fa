// SPDX-License-Identifier: Apache-2.0
//! One mutant after another: the tests of its crate, then the storm.
//!
//! First everything runs once without a mutant. That says what each test takes, and which mutants
//! it reaches: a test that does not reach a mutant cannot notice it, and is not run for it.

use crate::build::{Built, TestProgram};
use crate::process::{ProcessEnd, Ran, run};
use crate::scan::Mutant;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A process may take so often what it takes without a mutant, and this much besides.
const TIMES: f64 = 5.0;
const BESIDES: f64 = 10.0;
/// Tests that take less are run together, in one process.
const SHORT: f64 = 0.2;
/// No bound for what runs without a mutant.
const UNBOUNDED: f64 = 36_000.0;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutantFate {
    /// A test of its crate failed, or did not end.
    Tests,
    /// The storm found something, or did not end.
    Storm,
    /// Nobody noticed.
    Survived,
    /// Neither tests nor storm evaluated it.
    Unreached,
}

impl MutantFate {
    pub const ALL: [MutantFate; 4] =
        [MutantFate::Tests, MutantFate::Storm, MutantFate::Survived, MutantFate::Unreached];
}

impl fmt::Display for MutantFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MutantFate::Tests => "tests",
            MutantFate::Storm => "storm",
            MutantFate::Survived => "survived",
            MutantFate::Unreached => "unreached",
        })
    }
}

/// How long to look, CPU seconds.
#[derive(Clone, Debug)]
pub struct Patience {
    /// For the tests of one mutant, by what they take without it. The shortest run first, and what
    /// would go beyond is not run.
    pub tests: f64,
    /// For the storm.
    pub storm: f64,
    /// The first seed of the storm.
    pub first: u64,
    /// Environment variables for tests and storm.
    pub set: Vec<(String, String)>,
}

/// One test, without a mutant.
pub struct Test {
    program: usize,
    pub name: String,
    pub seconds: f64,
    pub reaches: BTreeSet<u32>,
}

/// Everything that may notice.
pub struct Lookout {
    root: PathBuf,
    folder: PathBuf,
    programs: Vec<TestProgram>,
    /// The shortest first.
    pub tests: Vec<Test>,
    storm: PathBuf,
    seeds: u64,
    storm_seconds: f64,
    storm_reaches: BTreeSet<u32>,
    patience: Patience,
}

impl Lookout {
    /// Runs everything once without a mutant. `root` is the copy, `folder` is for files.
    ///
    /// A test that fails without a mutant is left out, and named.
    ///
    /// Errors: the storm finds something without a mutant.
    pub fn prepare(
        root: &Path,
        folder: &Path,
        built: Built,
        crates: &BTreeSet<String>,
        patience: Patience,
    ) -> Result<Lookout> {
        let programs: Vec<_> =
            built.tests.into_iter().filter(|one| crates.contains(&one.package)).collect();
        let mut lookout = Lookout {
            root: root.into(),
            folder: folder.into(),
            programs,
            tests: Vec::new(),
            storm: built.storm,
            seeds: 0,
            storm_seconds: 0.0,
            storm_reaches: BTreeSet::new(),
            patience,
        };
        let programs = if lookout.patience.tests > 0.0 { lookout.programs.len() } else { 0 };
        for program in 0..programs {
            for name in lookout.names(program)? {
                // One that fails here, or needs what this machine lacks, cannot tell anything.
                match lookout.record_test(program, name) {
                    Ok(test) => lookout.tests.push(test),
                    Err(error) => println!("left out: {error}"),
                }
            }
        }
        lookout.tests.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        lookout.record_storm()?;
        let seconds: f64 = lookout.tests.iter().map(|test| test.seconds).sum();
        println!(
            "without a mutant: {} tests in {seconds:.0} s, {} seeds in {:.0} s",
            lookout.tests.len(),
            lookout.seeds,
            lookout.storm_seconds
        );
        Ok(lookout)
    }

    fn names(&self, program: usize) -> Result<Vec<String>> {
        let output =
            std::process::Command::new(&self.programs[program].program).arg("--list").output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect())
    }

    /// Runs tests of one program with `GABION_MUTANT` as given.
    fn run_tests(&self, program: usize, names: &[&str], mutant: &str, max: f64) -> Result<Ran> {
        let of = &self.programs[program];
        let mut arguments = vec!["--exact", "--test-threads=1"];
        arguments.extend(names);
        let record = self.record_file().to_string_lossy().into_owned();
        let set = self.set(mutant, &record);
        let folder = self.root.join("crates").join(&of.package);
        let is_failure = |line: &str| line.starts_with("test ") && line.ends_with("FAILED");
        run(&of.program, &arguments, &folder, &set, max, is_failure)
    }

    fn run_storm(&self, seeds: u64, mutant: &str, max: f64) -> Result<Ran> {
        let (first, seeds) = (self.patience.first.to_string(), seeds.to_string());
        let arguments = ["run", "--jobs", "1", "--first", &first, "--seeds", &seeds];
        let record = self.record_file().to_string_lossy().into_owned();
        let set = self.set(mutant, &record);
        run(&self.storm, &arguments, &self.root, &set, max, |line| line.starts_with("seed "))
    }

    fn set<'a>(&'a self, mutant: &'a str, record: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut set = vec![("GABION_MUTANT", mutant), ("GABION_MUTANT_RECORD", record)];
        set.extend(self.patience.set.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        set
    }

    fn record_file(&self) -> PathBuf {
        self.folder.join("reached")
    }

    /// What was recorded since the last time.
    fn take_record(&self) -> Result<BTreeSet<u32>> {
        let path = self.record_file();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Runs `again` and says what it reached and took, unless that was done with the same program.
    fn record(
        &self,
        what: &str,
        program: &Path,
        again: impl FnOnce() -> Result<Ran>,
    ) -> Result<(f64, BTreeSet<u32>)> {
        let modified = std::fs::metadata(program)?.modified()?;
        let modified = modified.duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let key = format!("{program} {modified} {:?} {what}", self.patience.set);
        let path = self.folder.join("baseline.tsv");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for line in text.lines() {
            let mut fields = line.split('\t');
            if fields.next() == Some(key.as_str()) {
                let seconds = fields.next().unwrap_or("").parse()?;
                let numbers = fields.next().unwrap_or("").split(' ');
                return Ok((seconds, numbers.filter_map(|number| number.parse().ok()).collect()));
            }
        }
        self.take_record()?;
        let ran = again()?;
        ensure!(ran.end == ProcessEnd::Exit(true), "without a mutant, {what}: {:?}", ran.end);
        let reaches = self.take_record()?;
        let numbers: Vec<String> = reaches.iter().map(u32::to_string).collect();
        let line = format!("{key}\t{}\t{}\n", ran.seconds, numbers.join(" "));
        append(&path, &line)?;
        Ok((ran.seconds, reaches))
    }

    fn record_test(&self, program: usize, name: String) -> Result<Test> {
        let again = || self.run_tests(program, &[&name], "record", UNBOUNDED);
        let (seconds, reaches) = self.record(&name, &self.programs[program].program, again)?;
        Ok(Test { program, name, seconds, reaches })
    }

    /// Finds how many seeds the storm has time for, and what they reach.
    fn record_storm(&mut self) -> Result<()> {
        if self.patience.storm == 0.0 {
            return Ok(());
        }
        let few = 5_u32;
        let what = |seeds: u64| format!("{seeds} seeds from {}", self.patience.first);
        let again = || self.run_storm(few.into(), "0", UNBOUNDED);
        let (seconds, _) = self.record(&what(few.into()), &self.storm, again)?;
        let per_seed = (seconds / f64::from(few)).max(0.01);
        let (mut seeds, mut expected) = (1, per_seed);
        while expected + per_seed < self.patience.storm {
            expected += per_seed;
            seeds += 1;
        }
        let again = || self.run_storm(seeds, "record", UNBOUNDED);
        let (seconds, reaches) = self.record(&what(seeds), &self.storm, again)?;
        (self.seeds, self.storm_seconds, self.storm_reaches) = (seeds, seconds, reaches);
        Ok(())
    }

    /// What becomes of `mutant`, and who noticed.
    pub fn fate(&self, mutant: &Mutant) -> Result<(MutantFate, String)> {
        let is_own = |test: &&Test| test.reaches.contains(&mutant.number);
        let reaching: Vec<&Test> = self.tests.iter().filter(is_own).collect();
        let is_stormy = self.storm_reaches.contains(&mutant.number);
        if reaching.is_empty() && !is_stormy {
            return Ok((MutantFate::Unreached, String::new()));
        }
        if let Some(by) = self.noticed_by_tests(mutant, &reaching)? {
            return Ok((MutantFate::Tests, by));
        }
        if is_stormy {
            let max = self.storm_seconds * TIMES + BESIDES;
            let ran = self.run_storm(self.seeds, &mutant.number.to_string(), max)?;
            if let Some(by) = noticed(&ran) {
                return Ok((MutantFate::Storm, by));
            }
        }
        let by = format!("{} tests, storm: {is_stormy}", reaching.len());
        Ok((MutantFate::Survived, by))
    }

    /// Whether this test alone notices a mutant.
    pub fn is_noticed(&self, test: &Test, mutant: u32) -> Result<bool> {
        let max = test.seconds * TIMES + BESIDES;
        let ran = self.run_tests(test.program, &[&test.name], &mutant.to_string(), max)?;
        Ok(noticed(&ran).is_some())
    }

    /// The crate of a test, and its name there.
    pub fn label(&self, test: &Test) -> String {
        format!("{}: {}", self.programs[test.program].package, test.name)
    }

    fn noticed_by_tests(&self, mutant: &Mutant, reaching: &[&Test]) -> Result<Option<String>> {
        let number = mutant.number.to_string();
        let short = reaching.iter().take_while(|test| test.seconds < SHORT).count();
        let mut left = self.patience.tests;
        for program in 0..self.programs.len() {
            let of_program = reaching[..short].iter().filter(|test| test.program == program);
            let tests: Vec<&Test> = of_program.copied().collect();
            if let Some(by) = self.noticed_by(&tests, &number, &mut left)? {
                return Ok(Some(by));
            }
        }
        for test in &reaching[short..] {
            if let Some(by) = self.noticed_by(&[test], &number, &mut left)? {
                return Ok(Some(by));
            }
        }
        Ok(None)
    }

    /// Runs tests of one program together, if there is time `left` for them.
    fn noticed_by(&self, tests: &[&Test], number: &str, left: &mut f64) -> Result<Option<String>> {
        let Some(first) = tests.first() else { return Ok(None) };
        let seconds: f64 = tests.iter().map(|test| test.seconds).sum();
        if seconds > *left {
            return Ok(None);
        }
        *left -= seconds;
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let ran = self.run_tests(first.program, &names, number, seconds * TIMES + BESIDES)?;
        let is_alone = tests.len() == 1;
        Ok(noticed(&ran).map(|by| if is_alone { format!("{}: {by}", names[0]) } else { by }))
    }
}

fn noticed(ran: &Ran) -> Option<String> {
    match &ran.end {
        ProcessEnd::Exit(true) => None,
        ProcessEnd::Exit(false) => Some("the process ended".into()),
        ProcessEnd::Line(line) => Some(line.chars().take(160).collect()),
        ProcessEnd::Hang => Some("it did not end".into()),
    }
}

pub fn append(path: &Path, line: &str) -> Result<()> {
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    Ok(file.write_all(line.as_bytes())?)
}

/// The results of a run, one line each, so that a run can go on where another ended.
pub struct Results {
    path: PathBuf,
    /// By label.
    pub lines: Vec<(String, MutantFate, String)>,
}

impl Results {
    /// Reads those of before.
    pub fn load(path: &Path) -> Result<Results> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines = Vec::new();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (fate, label) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
            let fate = MutantFate::ALL.into_iter().find(|one| one.to_string() == fate);
            let fate = fate.with_context(|| format!("{}: {line}", path.display()))?;
            lines.push((label.into(), fate, fields.next().unwrap_or("").into()));
        }
        Ok(Results { path: path.into(), lines })
    }

    /// The newest fate of a mutant.
    pub fn of(&self, label: &str) -> Option<(MutantFate, &str)> {
        let found = self.lines.iter().rev().find(|(one, _, _)| one == label);
        found.map(|(_, fate, by)| (*fate, by.as_str()))
    }

    pub fn add(&mut self, label: String, fate: MutantFate, by: String) -> Result<()> {
        let by = by.replace('\t', " ");
        append(&self.path, &format!("{fate}\t{label}\t{by}\n"))?;
        self.lines.push((label, fate, by));
        Ok(())
    }
}
