// SPDX-License-Identifier: Apache-2.0
//! How far scrub is. The directory keeps it, so that a pass goes on after a restart: else a host
//! that is restarted more often than a pass takes would never finish one. The mark is only a hint.
//! Where it is wrong, something is looked at once more.

use super::course::Course;
use base::{GroupId, ShardId};
use directory::{Directory, DirectoryError, Transaction};
use serde::{Deserialize, Serialize};

/// The form of the record; a record of another one is as good as none.
const FORMAT: u32 = 1;

/// What is kept of a group's scrub. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScrubMark {
    pub(super) format: u32,
    /// The pass under way, or the last one.
    pub(crate) course: Course,
    /// When the pass under way began; none between passes.
    pub(crate) began: Option<u64>,
    /// When the last whole pass began and ended.
    pub(crate) last: Option<(u64, u64)>,
    /// Chunks of each capacity device that the pass under way is done with.
    pub(crate) chunks_done: Vec<u64>,
    /// Blocks that could not be repaired when they were last looked at.
    pub(crate) unrepaired: u64,
}

impl ScrubMark {
    pub(crate) fn new(course: Course) -> Self {
        let (began, last, chunks_done) = (None, None, Vec::new());
        Self { format: FORMAT, course, began, last, chunks_done, unrepaired: 0 }
    }
}

/// The place of a group's mark.
#[derive(Clone)]
pub(crate) struct ScrubMarks {
    pub(crate) directory: Directory,
    pub(crate) shard: ShardId,
}

fn decode(value: &[u8]) -> Option<ScrubMark> {
    let mark: ScrubMark = serde_json::from_slice(value).ok()?;
    (mark.format == FORMAT).then_some(mark)
}

impl ScrubMarks {
    fn key(&self, group: GroupId) -> String {
        format!("{}scrub/{}/{group}", directory::PREFIX, self.shard)
    }

    /// What was kept; none where nothing was, or nothing that this version understands.
    pub(crate) async fn read(&self, group: GroupId) -> Result<Option<ScrubMark>, DirectoryError> {
        let entry = self.directory.get(&self.key(group)).await?;
        Ok(entry.and_then(|entry| decode(&entry.value)))
    }

    /// Keeps it. A directory that is away is no reason to stop: the next one tells more.
    pub(crate) async fn write(&self, group: GroupId, mark: &ScrubMark) {
        let Ok(value) = serde_json::to_vec(mark) else { return };
        let put = Transaction::new().put(self.key(group), value);
        if let Err(error) = self.directory.transact(put).await {
            tracing::debug!(%group, %error, "how far scrub is was not kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::ScrubPlace;
    use super::*;

    const STORED: &str = concat!(
        r#"{"format":1,"#,
        r#""course":{"from":{"device":1,"component":"ffffffffffffffff","sector":2048},"#,
        r#""at":{"device":1,"component":"ffffffffffffffff","sector":2048},"has_wrapped":false},"#,
        r#""began":1795368000,"last":[1795000000,1795100000],"chunks_done":[0,7],"unrepaired":2}"#,
    );

    #[test]
    fn the_record_is_as_documented_and_another_form_is_none() {
        let from = ScrubPlace { device: 1, component: u64::MAX, sector: 2048 };
        let mark = ScrubMark {
            began: Some(1_795_368_000),
            last: Some((1_795_000_000, 1_795_100_000)),
            chunks_done: vec![0, 7],
            unrepaired: 2,
            ..ScrubMark::new(Course::new(from))
        };
        assert_eq!(serde_json::to_string(&mark).expect("JSON"), STORED);
        assert_eq!(decode(STORED.as_bytes()), Some(mark));
        for (good, bad) in
            [(":1,", ":2,"), ("ffff\"", "fffg\""), ("\"last\"", "\"lost\""), ("7]", "-7]")]
        {
            assert_eq!(decode(STORED.replacen(good, bad, 1).as_bytes()), None, "{bad}");
        }
    }
}
