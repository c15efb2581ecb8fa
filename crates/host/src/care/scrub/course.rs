// SPDX-License-Identifier: Apache-2.0
//! The order in which a scrub pass looks at the components of a group. A pass begins at some place,
//! goes to the end, goes on at the beginning, and is over when it is at its first place again.
//! Components may come and go meanwhile; those that stay are all looked at. No clock, no I/O.

use base::ComponentId;
use serde::{Deserialize, Serialize};

/// A place on the way: first by device, then by component, then by sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ScrubPlace {
    pub(crate) device: usize,
    #[serde(with = "hex")]
    pub(crate) component: u64,
    pub(crate) sector: u64,
}

/// An identity as all records have it.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{id:x}"))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom("not a hexadecimal number"))
    }
}

/// How far a pass is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Course {
    /// Where it began, and where it ends.
    pub(crate) from: ScrubPlace,
    /// What comes next.
    at: ScrubPlace,
    /// The end of the last component is behind it.
    has_wrapped: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScrubLeg {
    pub(crate) device: usize,
    pub(crate) component: ComponentId,
    pub(crate) sector: u64,
    /// Where it ends within the component; `None`: with it.
    until: Option<u64>,
}

impl ScrubLeg {
    /// Where it goes on, after what was looked at up to `next`; `None`: it is over.
    pub(crate) fn next(&self, next: Option<u64>) -> Option<u64> {
        next.filter(|next| self.until.is_none_or(|until| *next < until))
    }
}

impl Course {
    pub(crate) fn new(from: ScrubPlace) -> Self {
        Self { from, at: from, has_wrapped: false }
    }

    /// The next leg over `components`, sorted by device and id; `None`: the pass is over.
    pub(crate) fn next(&mut self, components: &[(usize, ComponentId)]) -> Option<ScrubLeg> {
        let at = (self.at.device, ComponentId(self.at.component));
        let Some((device, component)) = components.iter().find(|place| **place >= at).copied()
        else {
            if self.has_wrapped {
                return None;
            }
            (self.at, self.has_wrapped) = (ScrubPlace::default(), true);
            return self.next(components);
        };
        let sector = if (device, component) == at { self.at.sector } else { 0 };
        self.at = ScrubPlace { device, component: component.0, sector };
        if self.has_wrapped && self.at >= self.from {
            return None;
        }
        let is_last =
            self.has_wrapped && (device, component.0) == (self.from.device, self.from.component);
        let until = is_last.then_some(self.from.sector);
        Some(ScrubLeg { device, component, sector, until })
    }

    /// A leg was looked at up to `next`, or to the end of its component.
    pub(crate) fn passed(&mut self, leg: &ScrubLeg, next: Option<u64>) {
        self.at = match (leg.next(next), leg.component.0.checked_add(1)) {
            (Some(sector), _) => ScrubPlace { sector, ..self.at },
            (None, Some(component)) => ScrubPlace { component, sector: 0, ..self.at },
            (None, None) => ScrubPlace { device: leg.device + 1, ..ScrubPlace::default() },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECTORS: u64 = 4;

    fn numbers() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..9, Just(u64::MAX)]
    }

    proptest! {
        /// From any place, with a restart from what was stored at any step, everything that stays
        /// is looked at.
        #[test]
        fn a_pass_looks_at_everything_once(
            ids in prop::collection::btree_set((0_usize..3, numbers()), 0..8),
            from in (0_usize..4, 0_u64..10, 0_u64..SECTORS + 2),
            restart in 0_usize..20,
            leaves in 0_usize..20,
        ) {
            let mut components: Vec<_> =
                ids.into_iter().map(|(device, id)| (device, ComponentId(id))).collect();
            let from = ScrubPlace { device: from.0, component: from.1, sector: from.2 };
            let mut course = Course::new(from);
            let mut seen = std::collections::BTreeMap::new();
            let mut gone = None;
            for step in 0..100 {
                if step == restart {
                    let stored = serde_json::to_string(&course).expect("JSON");
                    course = serde_json::from_str(&stored).expect("as stored");
                }
                if step == leaves && !components.is_empty() {
                    gone = Some(components.remove(step % components.len()));
                }
                let Some(leg) = course.next(&components) else { break };
                prop_assert!(step < 99, "it never ends");
                // A start behind the end of a component is looked at as its end.
                if leg.sector < SECTORS {
                    *seen.entry((leg.device, leg.component, leg.sector)).or_insert(0) += 1;
                }
                course.passed(&leg, Some(leg.sector + 1).filter(|next| *next < SECTORS));
            }
            for (device, id) in components.into_iter().filter(|place| Some(*place) != gone) {
                for sector in 0..SECTORS {
                    prop_assert_eq!(seen.get(&(device, id, sector)), Some(&1), "{} {}", id, sector);
                }
            }
        }
    }
}
