// SPDX-License-Identifier: Apache-2.0
//! Rules that can be broken on purpose, to show that the campaign would find it.

use crate::story::Story;
use host::NodeOptions;

/// One broken rule. The names are those of the command line.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What to write behind `--mutation`.
    pub name: &'static str,
    /// The rule that it removes: of the protocol, or of the store where its name has underscores.
    pub rule: &'static str,
    /// The scenario that meets it, where any other hardly would.
    pub scenario: Option<Story>,
    apply: Apply,
}

#[derive(Clone, Copy, Debug)]
enum Apply {
    Object(fn(&mut NodeOptions)),
    Store(fn(&mut diskgroup::Mutations)),
}

macro_rules! object {
    ($name:literal, $rule:literal, $field:ident) => {
        object!($name, $rule, $field, None)
    };
    ($name:literal, $rule:literal, $field:ident, $scenario:expr) => {
        Mutation {
            name: $name,
            rule: $rule,
            scenario: $scenario,
            apply: Apply::Object(|o| o.object.mutations.$field = true),
        }
    };
}

impl Mutation {
    const OBJECT: &[Self] = &[
        object!("answer-before-all", "5", answer_before_all),
        object!("answer-when-received", "4", answer_when_received),
        object!("raise-commit-early", "6", raise_commit_early),
        object!("no-term-check", "8", no_term_check, Some(Story::LongAbsence)),
        object!("no-seat-check", "9", no_seat_check, Some(Story::LongAbsence)),
        object!("reads-do-not-wait", "10", reads_do_not_wait),
        object!("no-lease-check", "12", no_lease_check, Some(Story::Isolated)),
        object!("complete-before-absent", "15", complete_before_absent),
        object!("left-from-new-term", "17", left_from_new_term),
        object!("regain-without-look", "21", regain_without_look, Some(Story::OldOwner)),
        object!("fence-without-drain", "24", fence_without_drain, Some(Story::HeldWrites)),
        object!("term-not-durable", "24", term_not_durable),
        object!("serve-before-absent", "26", serve_before_absent),
        object!("no-reconcile", "27", no_reconcile),
        object!("forget-missed-write", "32", forget_missed_write, Some(Story::ResyncFault)),
        object!("clear-dirty-at-answer", "32", clear_dirty_at_answer),
        object!("forget-own-tail", "33", forget_own_tail, Some(Story::Severed)),
        object!("copy-without-lock", "34", copy_without_lock, Some(Story::ResyncFault)),
        object!("require-after-active", "35", require_after_active, Some(Story::JoinFault)),
        object!("joining-serves", "37", joining_serves),
        object!("no-client-term-check", "43", no_client_term_check, Some(Story::PingPong)),
        object!("write-again", "46", write_again, Some(Story::PingPong)),
        object!("unmarked-copies", "46", unmarked_copies, Some(Story::TakeOverFault)),
        object!("forget-clients", "46", forget_clients),
        object!("forget-unanswered", "14", forget_unanswered),
        object!("never-consent", "52b", never_consent),
        object!("hand-over-undrained", "53", hand_over_undrained, Some(Story::HandOverFault)),
        object!("repair-without-lock", "13", repair_without_lock, Some(Story::RottenData)),
        object!("forget-discarded", "30", forget_discarded, Some(Story::Trimmed)),
        object!("hide-loss", "19", hide_loss, Some(Story::LostDevice)),
        object!("believe-any-record", "25", believe_any_record, Some(Story::EtcdSnapshot)),
        object!("any-grant", "52a", any_grant, Some(Story::LoneReplica)),
        object!("fence-ignores-grants", "52b", fence_ignores_grants, Some(Story::LateIsolation)),
        object!("forget-grants", "52b", forget_grants, Some(Story::ForgottenGrant)),
    ];

    /// All of them: the protocol's, then the disk group's.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let store = diskgroup::Mutations::ALL.iter().map(|(name, rule, switch)| Self {
            name,
            rule,
            scenario: matches!(*name, "forget_copies" | "raise_inactive")
                .then_some(Story::LossAfterReturn),
            apply: Apply::Store(*switch),
        });
        Self::OBJECT.iter().copied().chain(store).collect()
    }

    /// The mutation of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|mutation| mutation.name == name)
    }

    /// Breaks the rule.
    pub fn apply(self, options: &mut NodeOptions) {
        match self.apply {
            Apply::Object(switch) => switch(options),
            Apply::Store(switch) => switch(&mut options.group.mutations),
        }
    }
}
