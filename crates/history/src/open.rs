// SPDX-License-Identifier: Apache-2.0
//! How the file is opened. Nothing depends on what is in it: one that cannot be read is set aside
//! for somebody to look at, and a new one is begun.

use super::store::{HistoryStore, HistoryStoreError};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Opens the file, or begins it anew. `None`: nothing is kept, and the log says why.
pub(super) fn open(path: &Path) -> Option<HistoryStore> {
    match try_open(path) {
        Ok(store) => Some(store),
        Err(error) if error.is_of_the_file() => {
            tracing::error!(
                %error,
                path = %path.display(),
                aside = %aside(path).display(),
                "the performance of before cannot be read: its file is set aside, and a new one \
                 is begun"
            );
            begin_anew(path)
        }
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "performance is not kept");
            None
        }
    }
}

/// Sets the file aside, over the one that was set aside before, and begins a new one.
pub(super) fn begin_anew(path: &Path) -> Option<HistoryStore> {
    let begun = fs::rename(path, aside(path)).map_err(HistoryStoreError::from);
    match begun.and_then(|()| try_open(path)) {
        Ok(store) => Some(store),
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "performance is not kept");
            None
        }
    }
}

/// Where a file is that cannot be read.
fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".aside");
    PathBuf::from(aside)
}

/// Opens it. The database takes some files that are none for so good that it looks into them, and
/// ends in a panic: that is an error of the file, too.
fn try_open(path: &Path) -> Result<HistoryStore, HistoryStoreError> {
    catch_unwind(AssertUnwindSafe(|| HistoryStore::open(path)))
        .unwrap_or(Err(HistoryStoreError::Panic))
}
