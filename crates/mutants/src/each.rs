// SPDX-License-Identifier: Apache-2.0
//! One test after another: a test that notices none of the changes that it reaches may be one that
//! cannot fail.
//!
//! What a test is there for is what it runs and others do not. So it gets the mutants that the
//! fewest tests reach, at most [`PER_FUNCTION`] of one function. A test that notices one of them
//! can fail, which is not yet to say that it fails for the reason that its name gives: only
//! somebody who reads it can tell.

use crate::lookout::{Lookout, Test, append};
use crate::scan::Mutant;
use crate::shuffle;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Mutants of one function for one test. Those of a function that nobody looks at would be all that
/// a test gets.
const PER_FUNCTION: usize = 3;

/// Asks each test of `lookout` for `each` of the `viable` mutants, until it notices one. `path` is
/// a file with the results; what is in it is not asked again.
///
/// Errors: a process or a file.
pub fn look(
    lookout: &Lookout,
    viable: &[&Mutant],
    each: usize,
    seed: u64,
    path: &Path,
) -> Result<()> {
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let mut reached: BTreeMap<u32, usize> = BTreeMap::new();
    for number in lookout.tests.iter().flat_map(|test| &test.reaches) {
        *reached.entry(*number).or_default() += 1;
    }
    let by_number: BTreeMap<u32, &Mutant> = viable.iter().map(|one| (one.number, *one)).collect();
    for test in &lookout.tests {
        let label = lookout.label(test);
        if known.lines().any(|line| line.split('\t').nth(1) == Some(label.as_str())) {
            continue;
        }
        let chosen = rarest(test, &by_number, &reached, each, seed);
        let mut by = None;
        for mutant in &chosen {
            if lookout.is_noticed(test, mutant.number)? {
                by = Some(*mutant);
                break;
            }
        }
        let others = |one: &Mutant| reached.get(&one.number).copied().unwrap_or(1) - 1;
        let line = match by {
            Some(one) => format!("notices\t{label}\t{} others\t{}", others(one), one.label()),
            None => {
                let all: Vec<String> = chosen.iter().map(|one| one.label()).collect();
                format!("nothing\t{label}\t{} asked\t{}", chosen.len(), all.join(" | "))
            }
        };
        println!("{line}");
        append(path, &format!("{line}\n"))?;
    }
    Ok(())
}

/// The mutants that `test` reaches and the fewest others do, in an order that `seed` decides.
fn rarest<'a>(
    test: &Test,
    by_number: &BTreeMap<u32, &'a Mutant>,
    reached: &BTreeMap<u32, usize>,
    each: usize,
    seed: u64,
) -> Vec<&'a Mutant> {
    let mut all: Vec<&Mutant> =
        test.reaches.iter().filter_map(|number| by_number.get(number).copied()).collect();
    shuffle(&mut all, seed);
    all.sort_by_key(|one| reached.get(&one.number));
    let mut of_function: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    all.retain(|one| {
        let count = of_function.entry((&one.path, one.function)).or_default();
        *count += 1;
        *count <= PER_FUNCTION
    });
    all.truncate(each);
    all
}
