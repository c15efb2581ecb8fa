// SPDX-License-Identifier: Apache-2.0
//! What is written on the machine beside a command. A shard changes its disk groups while it runs;
//! its configuration file says which ones its next start finds.

use operator::{Command, CommandFailure};
use serde_json::Value;

/// The configuration files of the shards that an API answers for.
pub trait ShardConfigs: Send + Sync {
    /// Whether a file could say what the command makes of its shard. Asked before the shard is.
    ///
    /// # Errors
    /// What is wrong with the command. The shard is not asked then.
    fn check(&self, shard: &str, command: &Command) -> Result<(), CommandFailure>;

    /// Writes what the command made of its shard, which answered `done`.
    ///
    /// # Errors
    /// The shard has done it, and its next start will not know.
    fn keep(&self, shard: &str, command: &Command, done: &Value) -> Result<(), CommandFailure>;
}

/// For shards without configuration files, as in tests.
#[derive(Clone, Copy, Debug)]
pub struct NoConfigs;

impl ShardConfigs for NoConfigs {
    fn check(&self, _shard: &str, _command: &Command) -> Result<(), CommandFailure> {
        Ok(())
    }

    fn keep(&self, _shard: &str, _command: &Command, _done: &Value) -> Result<(), CommandFailure> {
        Ok(())
    }
}
