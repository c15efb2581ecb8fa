// SPDX-License-Identifier: Apache-2.0
//! The lock of a cluster's folder: whoever reads, creates or runs what is in it holds the lock.
//!
//! The file of the lock may be removed when a creation is undone. So a lock counts only if the
//! locked file is still the one in the folder.

use super::layout::Layout;
use crate::Fail;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// Attempts, because others may make and remove the folder at the same moment.
const ATTEMPTS_MAX: u32 = 100;

/// The lock of a folder, and what had to be made to take it.
pub struct FolderClaim {
    file: File,
    is_new_folder: bool,
    is_new_file: bool,
}

impl FolderClaim {
    /// Makes the folder if it is missing, and takes its lock before anything in it is looked at.
    pub fn take(layout: &Layout) -> Result<Self> {
        let root = layout.root();
        let is_new_folder = !root.exists();
        for _ in 0..ATTEMPTS_MAX {
            fs::create_dir_all(root)
                .with_context(|| format!("cannot make the folder '{}'", root.display()))?;
            let new = File::options().create_new(true).write(true).open(layout.lock());
            let is_new_file = new.is_ok();
            let opened = new.or_else(|error| match error.kind() {
                ErrorKind::AlreadyExists => File::options().write(true).open(layout.lock()),
                _ => Err(error),
            });
            let file = match opened {
                Ok(file) => file,
                // Its maker has just given up and removed it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| cannot_write(layout)),
            };
            file.try_lock().map_err(|_| running(layout))?;
            if is_current(&file, layout) {
                return Ok(Self { file, is_new_folder, is_new_file });
            }
        }
        Err(running(layout))
    }

    /// Takes over the lock that `gabion up --detach` holds and passes on as standard input. So
    /// there is no moment in which another process could take it.
    pub fn inherit(layout: &Layout) -> Result<Self> {
        let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        if is_current(&file, layout) && file.try_lock().is_ok() {
            return Ok(Self { file, is_new_folder: false, is_new_file: false });
        }
        Self::take(layout)
    }

    /// Removes what [`FolderClaim::take`] made, after the creation failed.
    pub fn undo(self, layout: &Layout) {
        if self.is_new_file {
            let _ = fs::remove_file(layout.lock());
        }
        if self.is_new_folder {
            // Only an empty folder is removed.
            let _ = fs::remove_dir(layout.root());
        }
    }

    /// The lock's file. The lock is held until the file is closed in every process.
    pub fn into_file(self) -> File {
        self.file
    }
}

/// Whether any process holds the lock of a folder.
pub fn is_held(layout: &Layout) -> bool {
    File::options().write(true).open(layout.lock()).is_ok_and(|file| file.try_lock().is_err())
}

fn is_current(file: &File, layout: &Layout) -> bool {
    let (Ok(mine), Ok(there)) = (file.metadata(), fs::metadata(layout.lock())) else {
        return false;
    };
    (mine.dev(), mine.ino()) == (there.dev(), there.ino())
}

fn cannot_write(layout: &Layout) -> String {
    format!("cannot write in '{}': choose another folder with --data", layout.root().display())
}

fn running(layout: &Layout) -> anyhow::Error {
    let root = layout.root().display();
    let message = if layout.cluster_file().exists() {
        format!(
            "the cluster in '{root}' is running already: see 'gabion status', end it with 'gabion \
             down'"
        )
    } else {
        format!("another 'gabion up' is making a cluster in '{root}': wait for it")
    };
    Fail::failed(message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str) -> Layout {
        let name = format!("gabion-{name}-{}", std::process::id());
        Layout::new(&std::env::temp_dir().join(name)).expect("a short path")
    }

    #[test]
    fn one_claim_at_a_time_and_nothing_is_left_of_one_undone() {
        let layout = layout("claim");
        let first = FolderClaim::take(&layout).expect("a new folder");
        assert!(FolderClaim::take(&layout).is_err(), "a second claim while the first is held");
        assert!(is_held(&layout));
        first.undo(&layout);
        assert!(!layout.root().exists());
        assert!(!is_held(&layout));
    }

    #[test]
    fn a_lock_on_a_file_that_was_removed_counts_for_nothing() {
        let layout = layout("stale");
        let first = FolderClaim::take(&layout).expect("a new folder");
        fs::remove_file(layout.lock()).expect("the lock's file");
        assert!(!is_current(&first.file, &layout));
        let second = FolderClaim::take(&layout).expect("a file of its own");
        assert!(is_current(&second.file, &layout));
        second.undo(&layout);
        fs::remove_dir_all(layout.root()).expect("the folder");
    }
}
