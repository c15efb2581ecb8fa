// SPDX-License-Identifier: Apache-2.0
//! Files that are whole and durable, or what they were before, whenever the power goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file, which gets these permissions.
///
/// # Errors
/// Those of the file system.
pub fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let _ = fs::remove_file(&part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_written_over_what_was_left_of_an_attempt() {
        let folder = std::env::temp_dir().join(format!("gdurable-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("one");
        fs::write(folder.join("one.part"), "half").expect("written");
        for text in ["first", "second"] {
            write_durably(&path, text.as_bytes(), 0o600).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!folder.join("one.part").exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
