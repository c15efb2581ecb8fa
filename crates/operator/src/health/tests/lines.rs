// SPDX-License-Identifier: Apache-2.0
//! How much a check says.

use super::*;

/// Somebody who is told of everything.
pub(super) fn receiver() -> Value {
    json!({
        "name": "ops", "kind": "syslog", "target": "a:514/udp", "from_state": "yellow",
        "groups": [], "remind_seconds": null, "has_secret": false, "is_in_clear": true,
        "created": NOW - 10, "told_at": null, "open": 0, "trouble_since": null, "trouble": null,
    })
}

#[test]
fn many_things_are_told_of_in_twenty_lines() {
    let case = at("/volumes", volumes(50, "red"));
    let found = check_of("objects.accessible").expect("a check").look(&case.facts());
    assert_eq!((found.evidence.len(), found.mend.len()), (21, 20));
    assert_eq!(found.evidence[20], "and 30 more");
    assert!(found.summary.ends_with("(and 49 more)"), "{}", found.summary);
}

#[test]
fn names_that_a_shell_would_cut_are_quoted() {
    let case = well().set("/groups/0/devices/1/state", json!("out"));
    let case = case.set("/groups/0/devices/1/path", json!("/dev/my disk's"));
    let found = check_of("devices.working").expect("a check").look(&case.facts());
    assert!(found.mend.contains(&r"gabion disk replace '/dev/my disk'\''s'".to_owned()));
}
