// SPDX-License-Identifier: Apache-2.0
//! Which connections get a place when more clients want one than there is room for. Pure.
//!
//! - No address can take all places. The last [`CONNECTIONS_RESERVED`] are for addresses that hold
//!   fewer than [`ADDRESS_RESERVED`].
//! - Nobody shuts others out by connecting and saying nothing. In a crowd, a client that keeps the
//!   server waiting in the handshake loses its place to a newcomer.

use crate::options::{
    ADDRESS_RESERVED, CONNECTIONS_MAX, CONNECTIONS_RESERVED, CROWD_IDLE_MAX, HANDSHAKES_CROWD,
    HANDSHAKES_MAX,
};
use base::{Instant, Map};
use env::Caller;
use std::net::{IpAddr, Ipv6Addr};

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the handshake. The server has waited for the client since this moment.
    Owed(Instant),
    /// In the handshake. The client waits for the server.
    Owing,
    /// The connection uses an export.
    Open,
}

struct Place {
    address: Caller,
    stage: Stage,
}

/// All connections of a server, by number.
#[derive(Default)]
pub(crate) struct Crowd {
    places: Map<u64, Place>,
    next: u64,
}

/// What counts as one address: a local user, an IPv4 address, or an IPv6 network of 64 bits, which
/// is the least that one customer gets.
fn address_of(caller: Caller) -> Caller {
    match caller {
        Caller::Remote(IpAddr::V6(ip)) => {
            let net = ip.to_bits() >> 64 << 64;
            Caller::Remote(IpAddr::V6(Ipv6Addr::from_bits(net)))
        }
        other => other,
    }
}

impl Crowd {
    /// Gives a newcomer a place, if there is room. Returns the number of that place, and the
    /// numbers of the connections that lost theirs. The caller closes those. Some may have lost
    /// their place even if the newcomer got none.
    pub(crate) fn enter(&mut self, caller: Caller, now: Instant) -> (Option<u64>, Vec<u64>) {
        let address = address_of(caller);
        let mut evicted = Vec::new();
        if self.handshakes() >= HANDSHAKES_CROWD {
            let late = |place: &Place| match place.stage {
                Stage::Owed(since) => since + CROWD_IDLE_MAX <= now,
                Stage::Owing | Stage::Open => false,
            };
            evicted.extend(self.places.iter().filter(|(_, p)| late(p)).map(|(id, _)| *id));
            for id in &evicted {
                self.places.remove(id);
            }
        }
        while self.handshakes() >= HANDSHAKES_MAX || self.places.len() >= CONNECTIONS_MAX {
            let Some(id) = self.longest(|_| true) else { return (None, evicted) };
            self.places.remove(&id);
            evicted.push(id);
        }
        while !self.has_room(address) {
            let Some(id) = self.longest(|other| other == address) else {
                return (None, evicted);
            };
            self.places.remove(&id);
            evicted.push(id);
        }
        self.next += 1;
        self.places.insert(self.next, Place { address, stage: Stage::Owed(now) });
        (Some(self.next), evicted)
    }

    /// Connection `id` is at `stage` from now on. Nothing happens if it has lost its place.
    pub(crate) fn set(&mut self, id: u64, stage: Stage) {
        if let Some(place) = self.places.get_mut(&id) {
            place.stage = stage;
        }
    }

    /// Connection `id` has ended.
    pub(crate) fn leave(&mut self, id: u64) {
        self.places.remove(&id);
    }

    /// Connections with a place.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn handshakes(&self) -> usize {
        self.places.values().filter(|place| place.stage != Stage::Open).count()
    }

    fn has_room(&self, address: Caller) -> bool {
        let mine = self.places.values().filter(|place| place.address == address).count();
        let is_scarce = self.places.len() >= CONNECTIONS_MAX - CONNECTIONS_RESERVED;
        !is_scarce || mine < ADDRESS_RESERVED
    }

    /// The connection that is to make room. Of the addresses for which `is_meant` holds, it takes
    /// the one with the most handshakes; of its connections, the one that has kept the server
    /// waiting longest. `None` where no such connection keeps the server waiting.
    fn longest(&self, is_meant: impl Fn(Caller) -> bool) -> Option<u64> {
        let mut handshakes = Map::new();
        for place in self.places.values().filter(|place| place.stage != Stage::Open) {
            *handshakes.entry(place.address).or_insert(0_usize) += 1;
        }
        let owed = self.places.iter().filter_map(|(id, place)| match place.stage {
            Stage::Owed(since) if is_meant(place.address) => {
                let crowd = handshakes.get(&place.address).copied().unwrap_or(0);
                Some((std::cmp::Reverse(crowd), since, *id))
            }
            _ => None,
        });
        owed.min().map(|(_, _, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Instant {
        Instant(0) + Duration::from_secs(seconds)
    }

    fn remote(number: u8) -> Caller {
        Caller::Remote(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn a_whole_network_of_ipv6_is_one_address() {
        let of = |text: &str| address_of(Caller::Remote(text.parse().expect("an address")));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }

    #[test]
    fn one_address_leaves_room_for_others_and_silence_takes_none() {
        let mut crowd = Crowd::default();
        for _ in 0..2000 {
            if let (Some(id), _) = crowd.enter(remote(1), at(0)) {
                crowd.set(id, Stage::Open);
            }
        }
        assert_eq!(crowd.len(), CONNECTIONS_MAX - CONNECTIONS_RESERVED);
        for number in 2..12 {
            for _ in 0..ADDRESS_RESERVED {
                let (entered, evicted) = crowd.enter(remote(number), at(0));
                crowd.set(entered.expect("the reserve is for others"), Stage::Open);
                assert_eq!(evicted, [0; 0], "open connections stay");
            }
            assert_eq!(crowd.enter(remote(number), at(0)).0, None);
        }
        let mut silent = Crowd::default();
        for _ in 0..HANDSHAKES_MAX {
            assert!(silent.enter(remote(1), at(0)).0.is_some());
        }
        let (entered, evicted) = silent.enter(remote(2), at(1));
        assert_eq!((entered.is_some(), evicted.len()), (true, 1), "the longest silent one goes");
        let (entered, evicted) = silent.enter(remote(2), at(2));
        assert_eq!((entered.is_some(), evicted.len()), (true, HANDSHAKES_MAX - 1), "all are late");
        assert_eq!(silent.len(), 2, "who came at 1 s is not late at 2 s");
    }

    proptest! {
        /// Whatever happens, the bounds hold, and only connections that keep the server waiting are
        /// closed. An address that holds few connections gets another one unless the whole server
        /// is in use.
        #[test]
        fn no_crowd_shuts_the_door(
            steps in prop::collection::vec((0u8..20, 0u8..4, any::<u16>()), 1..3000),
        ) {
            let mut crowd = Crowd::default();
            let mut alive: Vec<(u64, u8, Stage)> = Vec::new();
            for (index, (address, what, pick)) in steps.into_iter().enumerate() {
                let now = Instant(0) + Duration::from_millis(index as u64 * 5);
                let address = address / 4 * (address % 4); // some come much more often
                let picked = usize::from(pick) % alive.len().max(1);
                match what {
                    0 if !alive.is_empty() && pick % 3 == 0 => {
                        crowd.leave(alive.swap_remove(picked).0);
                    }
                    1 if !alive.is_empty() => {
                        let stage = [Stage::Owed(now), Stage::Owing, Stage::Open]
                            [usize::from(pick >> 8) % 3];
                        if alive[picked].2 != Stage::Open {
                            alive[picked].2 = stage;
                            crowd.set(alive[picked].0, stage);
                        }
                    }
                    _ => {
                        let (entered, evicted) = crowd.enter(remote(address), now);
                        for id in evicted {
                            let place = alive.iter().position(|place| place.0 == id);
                            let gone = alive.swap_remove(place.expect("it was there"));
                            prop_assert!(matches!(gone.2, Stage::Owed(_)), "{gone:?}");
                        }
                        let mine = alive.iter().filter(|place| place.1 == address).count();
                        let owing = alive.iter().filter(|place| place.2 == Stage::Owing).count();
                        let is_full = alive.len() >= CONNECTIONS_MAX || owing >= HANDSHAKES_MAX;
                        prop_assert!(entered.is_some() || mine >= ADDRESS_RESERVED || is_full);
                        alive.extend(entered.map(|id| (id, address, Stage::Owed(now))));
                    }
                }
                prop_assert_eq!(crowd.len(), alive.len());
                prop_assert!(crowd.len() <= CONNECTIONS_MAX);
                prop_assert!(crowd.handshakes() <= HANDSHAKES_MAX);
            }
        }
    }
}
