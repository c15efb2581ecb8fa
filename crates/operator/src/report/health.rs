// SPDX-License-Identifier: Apache-2.0
//! How something is at a glance, and what health checks found, as the API answers it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a volume, a disk group or the cluster at a glance.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As redundant as its policy asks for.
    #[default]
    Green,
    /// Serves I/O with less redundancy than its policy asks for, or needs to be looked at.
    Yellow,
    /// Cannot serve I/O.
    Red,
}

/// The state of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Nothing is wrong.
    Green,
    /// Nobody says what it looks at.
    Unknown,
    /// It is wrong, and somebody said that this is known. It does not count in the whole.
    Silenced,
    /// Something is to be looked at.
    Yellow,
    /// I/O does not work, data is at risk, or nobody can tell.
    Red,
}

impl CheckState {
    /// As JSON says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Unknown => "unknown",
            Self::Silenced => "silenced",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

impl From<Health> for CheckState {
    fn from(health: Health) -> Self {
        match health {
            Health::Green => Self::Green,
            Health::Yellow => Self::Yellow,
            Health::Red => Self::Red,
        }
    }
}

/// One check, and what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckReport {
    /// What it is named by.
    pub id: String,
    /// What it is about: the first word of its id.
    pub group: String,
    /// Its title.
    pub title: String,
    /// Its state.
    pub state: CheckState,
    /// What its state would be if it were not silenced; only where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<CheckState>,
    /// What it found, in one sentence.
    pub summary: String,
    /// What was seen, one line each; empty where it is green.
    pub evidence: Vec<String>,
    /// When this state began: a time of RFC 3339, UTC.
    pub since: String,
    /// What it means for the user's data.
    pub means: String,
    /// Commands that mend it, or show what to mend. NEW stands for a device that nobody uses yet.
    pub mend: Vec<String>,
    /// Until when it is silenced, RFC 3339; none where it is not.
    pub silenced_until: Option<String>,
    /// Why, and who said so; only where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced_because: Option<String>,
}

/// How a cluster is, as one host sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthReport {
    /// The worst of all checks that are not silenced.
    pub state: Health,
    /// All checks, group by group.
    pub checks: Vec<CheckReport>,
}

/// A check went from one state to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthChange {
    /// Its number on this machine, from 1 on.
    pub number: u64,
    /// When: a time of RFC 3339, UTC.
    pub time: String,
    /// The check.
    pub check: String,
    /// What it was.
    pub from: CheckState,
    /// What it is from then on.
    pub to: CheckState,
    /// What was seen then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

/// A page of what changed, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthHistory {
    /// The changes of this page.
    pub items: Vec<HealthChange>,
    /// How many there are on all pages together.
    pub total: usize,
    /// Where the next page begins: its `after`; none behind the last.
    pub next: Option<String>,
}
