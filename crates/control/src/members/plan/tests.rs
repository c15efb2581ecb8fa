// SPDX-License-Identifier: Apache-2.0
//! A world of hosts that fail, come back and leave, moved by nothing but [`next_step`].

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PATIENCE: Duration = Duration::from_secs(600);

/// Hosts and members as they are, and what the steps do to them.
#[derive(Clone, Debug, Default)]
struct World {
    hosts: Vec<Host>,
    members: Vec<Member>,
    next_id: u64,
}

impl World {
    /// Hosts in these racks (0: in none), all of them ready; the first one has the directory.
    fn new(racks: &[u8]) -> Self {
        let domains = |rack: &u8| match rack {
            0 => Vec::new(),
            rack => vec![format!("room{}", rack % 2), format!("rack{rack}")],
        };
        let host = |(rank, rack): (u32, &u8)| Host {
            name: format!("host{rank}"),
            rank,
            domains: domains(rack),
            is_ready: true,
        };
        let hosts: Vec<Host> = (1..).zip(racks).map(host).collect();
        let first = hosts.first().map(|host| host.name.clone());
        let member = Member { id: 1, host: first, is_voter: true, is_leader: true, silent: None };
        Self { hosts, members: vec![member], next_id: 2 }
    }

    fn picture(&self) -> Picture {
        let (hosts, members) = (self.hosts.clone(), self.members.clone());
        Picture { hosts, members, patience: PATIENCE }
    }

    fn is_up(&self, member: &Member) -> bool {
        self.hosts.iter().any(|host| member.host.as_ref() == Some(&host.name) && host.is_ready)
    }

    /// Members answer as their hosts do, and the first one that does leads.
    fn look(&mut self) {
        let up: Vec<bool> = self.members.iter().map(|member| self.is_up(member)).collect();
        let leader = self.members.iter().zip(&up).position(|(it, up)| *up && it.is_voter);
        for (at, (member, up)) in self.members.iter_mut().zip(up).enumerate() {
            member.silent = (!up).then_some(PATIENCE);
            member.is_leader = leader == Some(at);
        }
    }

    fn has_majority(&self) -> bool {
        let voters = self.members.iter().filter(|member| member.is_voter);
        let (up, all) =
            voters.fold((0, 0), |(up, all), it| (up + usize::from(self.is_up(it)), all + 1));
        up > all / 2
    }

    /// Carries out steps until there is none. Returns how many there were.
    fn settle(&mut self) -> usize {
        for steps in 0..100 {
            self.look();
            let had_majority = self.has_majority();
            if !had_majority {
                return steps;
            }
            let Some(step) = next_step(&self.picture()) else { return steps };
            match step {
                DirectoryStep::Add(host) => {
                    assert!(self.members.iter().all(|it| it.host.as_ref() != Some(&host)));
                    assert!(self.members.iter().all(|it| it.is_voter), "a second learner");
                    let id = self.next_id;
                    self.next_id += 1;
                    self.members.push(Member {
                        id,
                        host: Some(host),
                        is_voter: false,
                        is_leader: false,
                        silent: None,
                    });
                }
                DirectoryStep::Promote(id) => {
                    let learner = self.members.iter_mut().find(|it| it.id == id);
                    let learner = learner.expect("a member");
                    assert!(!learner.is_voter && learner.silent.is_none());
                    learner.is_voter = true;
                }
                DirectoryStep::Remove(id) => self.members.retain(|it| it.id != id),
            }
            assert!(self.has_majority(), "a step cost the majority: {self:?}");
        }
        panic!("no end of steps: {self:?}");
    }

    fn names(&self) -> BTreeSet<String> {
        self.members.iter().filter_map(|member| member.host.clone()).collect()
    }

    fn domains_of_members(&self) -> BTreeSet<Vec<String>> {
        let names = self.names();
        let hosts = self.hosts.iter().filter(|host| names.contains(&host.name));
        hosts.map(|host| host.domains.clone()).collect()
    }

    fn set(&mut self, rank: u32, is_ready: bool) {
        for host in self.hosts.iter_mut().filter(|host| host.rank == rank) {
            host.is_ready = is_ready;
        }
    }
}

fn names(ranks: &[u32]) -> BTreeSet<String> {
    ranks.iter().map(|rank| format!("host{rank}")).collect()
}

#[test]
fn the_first_one_three_or_five_hosts_are_members() {
    let members = |hosts: usize| {
        let mut world = World::new(&vec![0; hosts]);
        world.settle();
        world.names()
    };
    assert_eq!(members(1), names(&[1]));
    assert_eq!(members(2), names(&[1]));
    assert_eq!(members(3), names(&[1, 2, 3]));
    assert_eq!(members(4), names(&[1, 2, 3]));
    assert_eq!(members(9), names(&[1, 2, 3, 4, 5]));
}

#[test]
fn a_member_moves_when_its_host_is_lost_and_not_before() {
    let mut world = World::new(&[0; 4]);
    world.settle();
    world.set(2, false);
    world.look();
    let mut picture = world.picture();
    for member in picture.members.iter_mut().filter(|member| member.silent.is_some()) {
        member.silent = Some(PATIENCE - Duration::from_secs(1));
    }
    assert_eq!(next_step(&picture), None, "it may come back");
    world.settle();
    assert_eq!(world.names(), names(&[1, 3, 4]));
    world.set(2, true);
    assert_eq!(world.settle(), 0, "nothing moves because it is back");
}

#[test]
fn without_another_host_a_lost_member_keeps_its_place() {
    let mut world = World::new(&[0; 3]);
    world.settle();
    world.set(3, false);
    assert_eq!(world.settle(), 0);
    // Taken out of the cluster: two hosts, and one member.
    world.hosts.pop();
    world.settle();
    assert_eq!(world.names(), names(&[1]));
}

#[test]
fn a_member_that_lost_what_it_had_begins_anew_on_its_host() {
    let mut world = World::new(&[0; 3]);
    world.settle();
    let mut picture = world.picture();
    let member = picture.members.iter_mut().find(|it| it.host.as_deref() == Some("host2"));
    let member = member.expect("a member");
    (member.silent, member.is_leader) = (Some(PATIENCE), false);
    let id = member.id;
    assert_eq!(next_step(&picture), Some(DirectoryStep::Remove(id)));
    picture.members.retain(|it| it.id != id);
    assert_eq!(next_step(&picture), Some(DirectoryStep::Add("host2".to_owned())));
}

#[test]
fn members_spread_over_fault_domains_also_when_these_are_made_later() {
    let mut world = World::new(&[0; 6]);
    world.settle();
    for (host, rack) in world.hosts.iter_mut().zip([1, 1, 1, 2, 2, 3]) {
        host.domains = vec![format!("rack{rack}")];
    }
    world.hosts.retain(|host| host.rank != 5);
    world.settle();
    // Five hosts, five members: no choice. With three, one for each rack.
    world.hosts.retain(|host| host.rank != 3);
    world.settle();
    assert_eq!(wanted(world.hosts.len()), 3);
    assert_eq!(world.domains_of_members().len(), 3, "{world:?}");
}

/// What happens to the host of this rank.
#[derive(Clone, Copy, Debug)]
enum Event {
    Down(u32),
    Up(u32),
    Leaves(u32),
    Moves(u32, u8),
}

fn event() -> impl Strategy<Value = Event> {
    let rank = 1..=8u32;
    prop_oneof![
        rank.clone().prop_map(Event::Down),
        rank.clone().prop_map(Event::Up),
        rank.clone().prop_map(Event::Leaves),
        (rank, 0..5u8).prop_map(|(rank, rack)| Event::Moves(rank, rack)),
    ]
}

proptest! {
    #[test]
    fn steps_keep_the_majority_and_end_in_an_odd_number_that_is_spread(
        racks in proptest::collection::vec(0..5u8, 1..8),
        events in proptest::collection::vec(event(), 0..20),
    ) {
        let mut world = World::new(&racks);
        world.settle();
        for event in events {
            let before = world.clone();
            match event {
                Event::Down(rank) => world.set(rank, false),
                Event::Up(rank) => world.set(rank, true),
                Event::Leaves(rank) if world.hosts.len() > 1 => {
                    world.hosts.retain(|host| host.rank != rank);
                }
                Event::Leaves(_) => {}
                Event::Moves(rank, rack) => {
                    for host in world.hosts.iter_mut().filter(|host| host.rank == rank) {
                        host.domains = World::new(&[rack]).hosts.remove(0).domains;
                    }
                }
            }
            // What would take the majority away at once is not what steps can answer for.
            if !world.has_majority() {
                world = before;
                continue;
            }
            world.settle();
        }
        for rank in 1..=8 {
            world.set(rank, true);
        }
        world.settle();
        prop_assert!(world.members.iter().all(|member| member.is_voter));
        prop_assert_eq!(world.members.len(), wanted(world.hosts.len()), "{:?}", world);
        let picture = world.picture();
        prop_assert_eq!(picture.better_place(), None);
        // With enough racks, and nobody outside of them, no two members share one.
        let all: BTreeSet<_> = world.hosts.iter().map(|host| host.domains.clone()).collect();
        if all.len() >= world.members.len() && !all.contains(&Vec::new()) {
            prop_assert_eq!(world.domains_of_members().len(), world.members.len(), "{:?}", world);
        }
    }
}
