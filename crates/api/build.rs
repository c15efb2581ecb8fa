// SPDX-License-Identifier: Apache-2.0
//! Makes the built page a part of the program: a table of all files in `page/dist`, or an empty
//! one where the page was not built. A build without npm goes on working.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../page/dist");
    let mut files = Vec::new();
    if built.is_dir() {
        println!("cargo::rerun-if-changed={}", built.display());
        collect(&built, "", &mut files)?;
    } else {
        // The folder above: one that is not there would count as changed each time.
        println!("cargo::rerun-if-changed={}", built.with_file_name("").display());
    }
    files.sort();
    let mut table = String::from("static FILES: &[(&str, &[u8])] = &[\n");
    for (name, path) in files {
        let _ = writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display());
    }
    table.push_str("];\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo says no OUT_DIR"))?;
    fs::write(Path::new(&out).join("page_files.rs"), table)
}

/// Adds the files of a folder and of those in it, each with its path below the first.
fn collect(folder: &Path, below: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path().canonicalize()?;
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{below}/{name}");
        match path.is_dir() {
            true => collect(&path, &name, files)?,
            false => files.push((name, path)),
        }
    }
    Ok(())
}
