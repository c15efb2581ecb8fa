// SPDX-License-Identifier: Apache-2.0
//! Options of a host on a machine of its own.

use super::{NewDeviceArgs, SocketArgs};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct JoinArgs {
    /// Address of an etcd of the cluster, http://ip:port; may be repeated
    #[arg(long, required = true, value_name = "URL")]
    pub etcd: Vec<String>,
    /// This host's name
    #[arg(long)]
    pub name: String,
    /// This machine's address towards the other hosts
    #[arg(long, value_name = "IP")]
    pub address: std::net::IpAddr,
    /// TCP port for the other hosts; a host of several shards has the ports that follow too
    #[arg(long, default_value_t = 7070)]
    pub port: u16,
    /// How many shards the host has, each a process with one thread: disk groups are dealt out to
    /// them in turn [default: one for each disk group]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8), value_name = "N")]
    pub shards: Option<u8>,
    /// Cache device of a disk group; several are as many groups, and the capacity devices are
    /// shared out among them in their order, as many for each
    #[arg(long, value_name = "DEVICE")]
    pub cache: Vec<String>,
    /// Capacity device of the disk group
    #[arg(long, value_name = "DEVICE")]
    pub capacity: Vec<String>,
    #[command(flatten)]
    pub new: NewDeviceArgs,
    /// Part of the cache device of a hybrid cluster that is read cache
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=90), value_name = "PERCENT")]
    #[arg(default_value = "70")]
    pub read_cache_percent: u8,
    #[command(flatten)]
    pub socket: SocketArgs,
    /// Folder for this host's sockets
    #[arg(long, default_value = "/run/gabion", value_name = "DIR")]
    pub run_dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub socket: SocketArgs,
    /// Socket of the supervisor: this daemon ends when the supervisor does
    #[arg(long, hide = true)]
    pub leash: Option<String>,
}
