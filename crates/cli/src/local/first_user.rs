// SPDX-License-Identifier: Apache-2.0
//! The user that a cluster on one machine has from the beginning.

use crate::client::{self, ApiDoor};
use operator::{AccessRole, Command, NewCodeReport, UserReport};
use std::time::Duration;

/// Its name.
const FIRST: &str = "admin";
/// For how long its code is good.
const FIRST_CODE: Duration = Duration::from_secs(86_400);

/// The code with which the first user of a cluster signs in, until somebody has a password. None
/// where somebody has, or where the cluster is of a release that knows no users.
pub fn first_code(door: &ApiDoor) -> Option<NewCodeReport> {
    let users: Vec<UserReport> = client::ask(door, &Command::UserList).ok()?;
    let (name, seconds) = (FIRST.to_owned(), FIRST_CODE.as_secs());
    let command = match users.as_slice() {
        [] => Command::UserCreate { name, role: AccessRole::Administrator, seconds },
        [only] if only.name == FIRST && !only.has_password => Command::UserCode { name, seconds },
        _ => return None,
    };
    client::ask(door, &command).ok()
}
