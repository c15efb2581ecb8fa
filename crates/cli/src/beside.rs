// SPDX-License-Identifier: Apache-2.0
//! What health checks look at beside the shards of this machine.

use crate::cpu;
use crate::wear;
use api::MachineLook;
use control::{ELECTION_MAX, MemberFile};
use std::path::PathBuf;
use std::time::Duration;

/// This machine.
pub struct ThisMachine {
    /// Where the member of the directory is told of, where the hosts keep it by themselves.
    pub member_file: Option<PathBuf>,
}

impl MachineLook for ThisMachine {
    fn member_alarms(&self) -> Option<Vec<String>> {
        let file = MemberFile::read(self.member_file.as_ref()?).ok()?;
        let members = control::members(&file.endpoints(), ELECTION_MAX).ok()?;
        Some(control::alarms(&members))
    }

    fn wear(&self, device: &str) -> Option<u8> {
        wear::percent(device)
    }

    fn cpu_time(&self, shard: &str) -> Option<Duration> {
        cpu::time(shard)
    }
}
