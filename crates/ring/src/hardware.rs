// SPDX-License-Identifier: Apache-2.0
//! What the kernel says of a block device in sysfs. It is told to people and compared with what an
//! operator declared. No data depends on it.

use crate::helpers::HelperAnswer;
use crate::{RingDriver, disks};
use env::{Hardware, Token};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest model name that is kept, characters. The rest is cut off.
const MODEL_MAX: usize = 64;

impl RingDriver {
    /// Lets a helper thread look whether a path still leads to an open device.
    pub(crate) fn look(&mut self, token: Token, disk: u32, path: String) {
        match self.files.share(disk) {
            Ok((fd, lane)) => {
                self.call(
                    token,
                    &lane,
                    Box::new(move || HelperAnswer::Size(disks::look(&fd, &path))),
                );
            }
            Err(error) => self.finish(token, Err(error)),
        }
    }
}

/// Reads what is known of the device at `path`. For helper threads: it may hang.
pub(crate) fn ask(path: &str) -> HelperAnswer {
    HelperAnswer::Hardware(block_device(Path::new(path)).unwrap_or_default())
}

/// What is known of the block device at `path`; `None` if no block device stands there. The call
/// may block, so a shard must not make it.
#[must_use]
pub fn block_device(path: &Path) -> Option<Hardware> {
    let metadata = fs::metadata(path).ok()?;
    let (major, minor) = numbers(metadata.rdev());
    metadata.file_type().is_block_device().then(|| look(Path::new("/sys"), major, minor))
}

/// Unpacks the major and minor number of a device.
fn numbers(device: u64) -> (u64, u64) {
    let major = device >> 8 & 0xFFF | device >> 32 & !0xFFF;
    let minor = device & 0xFF | device >> 12 & !0xFF;
    (major & 0xFFFF_FFFF, minor & 0xFFFF_FFFF)
}

fn look(sys: &Path, major: u64, minor: u64) -> Hardware {
    let node = sys.join(format!("dev/block/{major}:{minor}"));
    let Ok(node) = fs::canonicalize(node) else { return Hardware::default() };
    // A partition has neither queue nor model. Its disk, one folder up, has them.
    let disk: PathBuf = match (node.join("partition").exists(), node.parent()) {
        (true, Some(disk)) => disk.to_owned(),
        _ => node,
    };
    let read = |name: &str| fs::read_to_string(disk.join(name)).ok();
    let is_rotational = match read("queue/rotational").as_deref().map(str::trim) {
        Some("0") => Some(false),
        Some("1") => Some(true),
        _ => None,
    };
    Hardware { is_rotational, model: read("device/model").and_then(|text| plain(&text)) }
}

/// A name that fits into a table: single spaces, no control characters, not too long.
fn plain(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let name: String =
        words.join(" ").chars().filter(|c| !c.is_control()).take(MODEL_MAX).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_disk_and_its_partition_say_the_same() {
        let sys = std::env::temp_dir().join(format!("gabion-sys-{}", std::process::id()));
        let disk = sys.join("devices/pci0/nvme0n1");
        for folder in
            [disk.join("queue"), disk.join("device"), disk.join("p1"), sys.join("dev/block")]
        {
            fs::create_dir_all(folder).expect("a folder");
        }
        fs::write(disk.join("queue/rotational"), "0\n").expect("a file");
        fs::write(disk.join("device/model"), " ACME  Fast\t1 \n").expect("a file");
        fs::write(disk.join("p1/partition"), "1\n").expect("a file");
        symlink(&disk, sys.join("dev/block/259:0")).expect("a link");
        symlink(disk.join("p1"), sys.join("dev/block/259:1")).expect("a link");
        let model = Some("ACME Fast 1".to_owned());
        let known = Hardware { is_rotational: Some(false), model };
        assert_eq!(look(&sys, 259, 0), known);
        assert_eq!(look(&sys, 259, 1), known);
        fs::write(disk.join("queue/rotational"), "1\n").expect("a file");
        assert_eq!(look(&sys, 259, 1).is_rotational, Some(true));
        assert_eq!(look(&sys, 8, 0), Hardware::default());
        fs::remove_dir_all(&sys).expect("removed");
    }

    #[test]
    fn numbers_are_unpacked_as_linux_packs_them() {
        assert_eq!(numbers(259 << 8 | 0x45 | 0x123 << 20), (259, 0x12345));
        assert_eq!(numbers(259 << 8 | 5), (259, 5));
        assert_eq!(numbers(8 << 8 | 17), (8, 17));
    }

    #[test]
    fn a_file_is_no_block_device() {
        assert_eq!(block_device(Path::new("/proc/self/status")), None);
        assert_eq!(block_device(Path::new("/nonexistent")), None);
    }
}
