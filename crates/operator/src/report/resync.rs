// SPDX-License-Identifier: Apache-2.0
//! Components that are filled, or brought up to date.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a component is filled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResyncReason {
    /// It was away, or lost something, and gets what it lacks.
    Returns,
    /// It takes the place of one on this host, which is up: somebody moves it.
    Moves {
        /// Name of the host.
        from: String,
    },
    /// It takes the place of one on this host, which is not there.
    Repairs {
        /// Name of the host.
        from: String,
    },
    /// The volume is to have one copy more.
    OneMore,
}

impl ResyncReason {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Returns => "was away".to_owned(),
            Self::Moves { from } => format!("moves from {from}"),
            Self::Repairs { from } => format!("instead of {from}'s"),
            Self::OneMore => "one copy more".to_owned(),
        }
    }
}

/// One component that is filled, or that waits for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResyncReport {
    /// The volume.
    pub volume: String,
    /// Which object of the volume it is of, from 0.
    pub object: u64,
    /// Name of the host that it is on.
    pub host: String,
    /// Name of the host that owns the object and does the copying.
    pub by: String,
    /// Why.
    pub reason: ResyncReason,
    /// What it waits for; none: it is being copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Bytes that are still to be copied. More may become so while clients write. Not known yet
    /// while it waits.
    pub bytes_left: u64,
    /// Bytes that were copied.
    pub bytes_copied: u64,
    /// Bytes a second, of the last seconds.
    pub bytes_per_second: u64,
    /// Seconds since it began; 0 while it waits.
    pub seconds: u64,
    /// Seconds until it ends if it goes on like that; none where nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Client writes that wait for it.
    pub writes_waiting: u64,
}

impl ResyncReport {
    /// Which part of what it has to copy is copied, percent.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let all = self.bytes_copied.saturating_add(self.bytes_left);
        (self.bytes_copied.min(all) * 100).checked_div(all).unwrap_or(0)
    }
}

/// All of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncSum {
    /// Components that are being copied.
    pub copying: usize,
    /// Components that wait.
    pub waiting: usize,
    /// Bytes that are still to be copied.
    pub bytes_left: u64,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Seconds until all of it is copied, if it goes on like that.
    pub seconds_left: Option<u64>,
}

impl ResyncSum {
    /// Of these.
    #[must_use]
    pub fn of<'a>(all: impl IntoIterator<Item = &'a ResyncReport>) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.copying += usize::from(one.waits.is_none());
            sum.waiting += usize::from(one.waits.is_some());
            sum.bytes_left = sum.bytes_left.saturating_add(one.bytes_left);
            sum.bytes_per_second = sum.bytes_per_second.saturating_add(one.bytes_per_second);
        }
        sum.seconds_left = seconds_left(sum.bytes_left, sum.bytes_per_second);
        sum
    }
}

/// How long so many bytes take; `None` where nothing is copied now.
#[must_use]
pub fn seconds_left(bytes: u64, per_second: u64) -> Option<u64> {
    (per_second > 0).then(|| bytes.div_ceil(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_says_when_all_of_it_is_copied() {
        let one = ResyncReport {
            volume: "v".to_owned(),
            object: 0,
            host: "a".to_owned(),
            by: "b".to_owned(),
            reason: ResyncReason::Returns,
            waits: None,
            bytes_left: 300,
            bytes_copied: 100,
            bytes_per_second: 10,
            seconds: 3,
            seconds_left: Some(30),
            writes_waiting: 0,
        };
        assert_eq!(one.percent(), 25);
        let waits = ResyncReport {
            waits: Some("others".to_owned()),
            bytes_left: 0,
            bytes_copied: 0,
            bytes_per_second: 0,
            ..one.clone()
        };
        assert_eq!(waits.percent(), 0);
        let sum = ResyncSum::of(&[one.clone(), one, waits.clone()]);
        assert_eq!((sum.copying, sum.waiting, sum.bytes_left), (2, 1, 600));
        assert_eq!((sum.bytes_per_second, sum.seconds_left), (20, Some(30)));
        assert_eq!(ResyncSum::of(&[waits]).seconds_left, None);
    }
}
