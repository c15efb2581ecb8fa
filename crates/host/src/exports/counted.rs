// SPDX-License-Identifier: Apache-2.0
//! The counters of the volumes that clients used through this host. They outlive the use, so that
//! clients who come and go lose nothing of what is read twice a minute.

use base::{Map, VolumeId};
use std::rc::Rc;
use volume::{Traffic, TrafficCount};

/// So many volumes are counted one by one, about a kilobyte each, and beyond them those that
/// clients use now. Then those that nobody uses are given up, which what reads them takes for a
/// restart.
const VOLUMES_MAX: usize = 1024;

/// The counters of one host.
#[derive(Default)]
pub(super) struct Counters {
    volumes: Map<VolumeId, Rc<Traffic>>,
    /// What those counted that were given up.
    gone: TrafficCount,
}

impl Counters {
    /// Those of one volume. They are in use as long as what is returned.
    pub(super) fn of(&mut self, volume: VolumeId) -> Rc<Traffic> {
        if self.volumes.len() >= VOLUMES_MAX && !self.volumes.contains_key(&volume) {
            let gone = &mut self.gone;
            self.volumes.retain(|_, one| {
                let is_used = Rc::strong_count(one) > 1;
                if !is_used {
                    gone.merge(&one.read());
                }
                is_used
            });
        }
        Rc::clone(self.volumes.entry(volume).or_default())
    }

    /// What each volume did, and all of them together, the ones of before too.
    pub(super) fn read(&self) -> (Map<VolumeId, TrafficCount>, TrafficCount) {
        let each: Map<_, _> = self.volumes.iter().map(|(id, one)| (*id, one.read())).collect();
        let mut all = self.gone;
        each.values().for_each(|one| all.merge(one));
        (each, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use volume::Operation;

    #[test]
    fn volumes_that_nobody_uses_are_given_up_and_stay_in_the_sum() {
        let mut counters = Counters::default();
        let write = |traffic: &Traffic| {
            traffic.count(Operation::Write, 512, Duration::from_micros(1), true);
        };
        let used = counters.of(VolumeId(1));
        let most = u64::try_from(VOLUMES_MAX).expect("a number");
        (1..=most).for_each(|id| write(&counters.of(VolumeId(id))));
        let (each, all) = counters.read();
        assert_eq!((each.len(), all.of(Operation::Write).requests()), (VOLUMES_MAX, most));

        write(&counters.of(VolumeId(1)));
        assert_eq!(counters.read().0.len(), VOLUMES_MAX, "it is known");
        write(&counters.of(VolumeId(most + 1)));
        let (each, all) = counters.read();
        assert_eq!(each.keys().copied().collect::<Vec<_>>(), [VolumeId(1), VolumeId(most + 1)]);
        assert_eq!(all.of(Operation::Write).bytes, 512 * (most + 2), "nothing is lost");
        assert_eq!(used.read().of(Operation::Write).requests(), 2);
    }
}
