// SPDX-License-Identifier: Apache-2.0
//! Options about clients: the owner of a host's NBD socket, and how many clients may use a volume.

use clap::Args;
use host::{Connections, SocketConfig, Writers};

/// Owner, group and mode of a host's NBD socket.
#[derive(Args, Clone, Debug, Default)]
pub struct SocketArgs {
    /// User that owns the NBD socket, by name or number [default: the host's own]
    #[arg(long, value_name = "USER")]
    pub nbd_socket_owner: Option<String>,
    /// Group of the NBD socket, by name or number [default: the host's own]
    #[arg(long, value_name = "GROUP")]
    pub nbd_socket_group: Option<String>,
    /// Permission bits of the NBD socket: who may write may connect [default: 0660 with a group,
    /// 0600 without]
    #[arg(long, value_name = "OCTAL", value_parser = socket_mode)]
    pub nbd_socket_mode: Option<String>,
}

impl SocketArgs {
    /// As a part of `host.toml`. Options that are not given are taken from `usual`.
    pub fn over(&self, usual: &SocketConfig) -> SocketConfig {
        let Self { nbd_socket_owner, nbd_socket_group, nbd_socket_mode } = self.clone();
        SocketConfig {
            owner: nbd_socket_owner.or_else(|| usual.owner.clone()),
            group: nbd_socket_group.or_else(|| usual.group.clone()),
            mode: nbd_socket_mode.or_else(|| usual.mode.clone()),
        }
    }
}

fn socket_mode(text: &str) -> Result<String, String> {
    let socket = SocketConfig { mode: Some(text.to_owned()), ..SocketConfig::default() };
    socket.access().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Parses the value of `--writers`.
pub fn writers(text: &str) -> Result<Writers, String> {
    let known = [Writers::One, Writers::Any];
    let found = known.into_iter().find(|writers| writers.name() == text);
    found.ok_or_else(|| "is neither 'one' nor 'any'".to_owned())
}

/// Parses the value of `--connections`.
pub fn connections(text: &str) -> Result<Connections, String> {
    let known = [Connections::Shared, Connections::Exclusive];
    let found = known.into_iter().find(|connections| connections.name() == text);
    found.ok_or_else(|| "is neither 'shared' nor 'exclusive'".to_owned())
}
