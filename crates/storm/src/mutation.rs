// SPDX-License-Identifier: Apache-2.0
//! Rules that can be broken on purpose, to show that the campaign would notice.

use crate::plan::WRITERS_FROM;
use crate::plan::growth::{AFFINITY_FROM, LIFE_FROM};
use crate::plan::shards::{DOMAINS_FROM, SHARDS_FROM};
use crate::story::Story;
use host::NodeOptions;

/// A way to break a rule.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// The name for `--mutation`.
    pub name: &'static str,
    /// The rule that it breaks: of the store if the name has underscores, else of the protocol, or
    /// what the care for copies goes by.
    pub rule: &'static str,
    /// The scenario that meets it, if hardly any other would.
    pub scenario: Option<Story>,
    /// Seeds from here on can meet it.
    pub first: u64,
    apply: Apply,
}

#[derive(Clone, Copy, Debug)]
enum Apply {
    Object(fn(&mut object::Mutations)),
    Store(fn(&mut diskgroup::Mutations)),
    Host(fn(&mut host::Mutations)),
}

impl Mutation {
    /// Ways to break the protocol's rules, with [`Mutation::scenario`].
    const OBJECT: &[(&str, Option<Story>)] = &[
        ("answer-before-all", None),
        ("answer-when-received", None),
        ("raise-commit-early", None),
        ("no-term-check", Some(Story::LongAbsence)),
        ("no-seat-check", Some(Story::LongAbsence)),
        ("reads-do-not-wait", None),
        ("no-lease-check", Some(Story::Isolated)),
        ("complete-before-absent", None),
        ("left-from-new-term", None),
        ("regain-without-look", Some(Story::OldOwner)),
        ("fence-without-drain", Some(Story::HeldWrites)),
        ("term-not-durable", None),
        ("serve-before-absent", None),
        ("no-reconcile", None),
        ("forget-missed-write", Some(Story::ResyncFault)),
        ("clear-dirty-at-answer", None),
        ("forget-own-tail", Some(Story::Severed)),
        ("copy-without-lock", Some(Story::ResyncFault)),
        ("require-after-active", Some(Story::JoinFault)),
        ("joining-serves", None),
        ("no-client-term-check", Some(Story::PingPong)),
        ("write-again", Some(Story::PingPong)),
        ("number-as-before", Some(Story::EtcdSnapshot)),
        ("unmarked-copies", Some(Story::TakeOverFault)),
        ("clients-of-another", Some(Story::Twins)),
        ("forget-clients", None),
        ("forget-unanswered", None),
        ("never-consent", None),
        ("hand-over-undrained", Some(Story::HandOverFault)),
        ("repair-without-lock", Some(Story::RottenData)),
        ("forget-discarded", Some(Story::Trimmed)),
        ("hide-loss", Some(Story::LostDevice)),
        ("believe-any-record", Some(Story::EtcdSnapshot)),
        ("any-grant", Some(Story::LoneReplica)),
        ("fence-ignores-grants", Some(Story::LateIsolation)),
        ("forget-grants", Some(Story::ForgottenGrant)),
        ("complete-before-replaced", Some(Story::Moves)),
        ("join-unfilled", Some(Story::Moves)),
        ("move-as-it-was", Some(Story::Moves)),
        ("delete-before-replaced", Some(Story::Moves)),
        ("admit-any-epoch", None),
        ("told-before-done", None),
        ("write-before-done", None),
    ];

    /// Ways to break the rules of a cluster's care for its copies, with what meets them.
    const HOST: &[(&str, Option<Story>, u64)] = &[
        ("ignore-domains", Some(Story::Moves), DOMAINS_FROM),
        ("ignore-machines", Some(Story::Moves), SHARDS_FROM),
        ("ignore-affinity", None, AFFINITY_FROM),
        ("delete-unnamed", Some(Story::OldBackup), 0),
        ("settle-early", None, LIFE_FROM),
    ];

    /// All ways to break a rule: first the protocol's rules, then those of a cluster's care, then
    /// the store's.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let object = Self::OBJECT.iter().filter_map(|&(name, scenario)| {
            let field = name.replace('-', "_");
            let known = object::Mutations::ALL.iter().find(|(known, ..)| *known == field);
            known.map(|&(_, rule, switch)| Self {
                name,
                rule,
                scenario,
                first: first_seed(rule),
                apply: Apply::Object(switch),
            })
        });
        let store = diskgroup::Mutations::ALL.iter().map(|(name, rule, switch)| Self {
            name,
            rule,
            scenario: matches!(*name, "forget_copies" | "raise_inactive")
                .then_some(Story::LossAfterReturn),
            first: 0,
            apply: Apply::Store(*switch),
        });
        object.chain(Self::of_hosts()).chain(store).collect()
    }

    fn of_hosts() -> impl Iterator<Item = Self> {
        Self::HOST.iter().filter_map(|&(name, scenario, first)| {
            let field = name.replace('-', "_");
            let known = host::Mutations::ALL.iter().find(|(known, ..)| *known == field);
            let of = |&(_, rule, switch)| Self {
                name,
                rule,
                scenario,
                first,
                apply: Apply::Host(switch),
            };
            known.map(of)
        })
    }

    /// The mutation of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|mutation| mutation.name == name)
    }

    /// Turns the switch on that breaks the rule.
    pub fn apply(self, options: &mut NodeOptions) {
        match self.apply {
            Apply::Object(switch) => switch(&mut options.object.mutations),
            Apply::Store(switch) => switch(&mut options.group.mutations),
            Apply::Host(switch) => switch(&mut options.mutations),
        }
    }
}

/// Seeds from here on can meet a broken rule of the protocol.
fn first_seed(rule: &str) -> u64 {
    if matches!(rule, "54" | "56" | "57") { WRITERS_FROM } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_has_a_name() {
        let hosts = host::Mutations::ALL.len();
        let switches = object::Mutations::ALL.len() + diskgroup::Mutations::ALL.len() + hosts;
        assert_eq!(Mutation::all().len(), switches);
    }
}
