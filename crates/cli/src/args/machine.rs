// SPDX-License-Identifier: Apache-2.0
//! Options of a host on a machine of its own.

use super::kind::cluster_kind;
use super::{NewDeviceArgs, SocketArgs};
use api::Invitation;
use clap::Args;
use host::ClusterKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct CreateArgs {
    /// What the cluster's disk groups are: all-flash, or hybrid for magnetic capacity
    #[arg(long, value_parser = cluster_kind, default_value = "all-flash", value_name = "KIND")]
    pub kind: ClusterKind,
    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Args, Debug)]
pub struct JoinArgs {
    /// An invitation, which 'gabion host invite' on a host of the cluster makes. It brings the
    /// files of the cluster's CA along
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["etcd", "directory"])]
    #[arg(required_unless_present_any = ["etcd", "directory"])]
    pub invitation: Option<Invitation>,
    /// Without an invitation: address of a host of the cluster that has the directory, as 'gabion
    /// directory members' shows them there: ip, ip:port, or http://ip:port where it is shown so;
    /// may be repeated
    #[arg(long, value_parser = directory_at, value_name = "IP", conflicts_with = "etcd")]
    pub directory: Vec<String>,
    #[command(flatten)]
    pub host: HostArgs,
}

/// What a machine is to be as a host.
#[derive(Args, Debug)]
pub struct HostArgs {
    /// Address of an etcd that is run by hand, http://ip:port; may be repeated. Without it the
    /// hosts run one by themselves
    #[arg(long, value_name = "URL")]
    pub etcd: Vec<String>,
    /// TCP port at which this host answers for the directory, if it has a part of it; the one that
    /// follows is needed too
    #[arg(long, default_value_t = control::PORT_DEFAULT, value_name = "PORT")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=65534), conflicts_with = "etcd")]
    pub directory_port: u16,
    /// Folder for this host's part of the directory
    #[arg(long, default_value = "/var/lib/gabion/directory", value_name = "DIR")]
    #[arg(conflicts_with = "etcd")]
    pub directory_dir: PathBuf,
    /// This host's name
    #[arg(long)]
    pub name: String,
    /// This machine's address towards the other hosts
    #[arg(long, value_name = "IP")]
    pub address: IpAddr,
    /// TCP port for the other hosts; a host of several shards has the ports that follow too
    #[arg(long, default_value_t = 7070)]
    pub port: u16,
    /// TCP port for the API: HTTPS, and nothing without a token
    #[arg(long, default_value_t = 7443, value_name = "PORT")]
    pub api_port: u16,
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

/// The URL of the directory on a host: encrypted, unless the text says otherwise.
fn directory_at(text: &str) -> Result<String, String> {
    let (scheme, place) = text.split_once("://").unwrap_or(("https", text));
    let address = place
        .parse::<SocketAddr>()
        .or_else(|_| place.parse().map(|ip: IpAddr| SocketAddr::new(ip, control::PORT_DEFAULT)));
    match address {
        Ok(address) if ["http", "https"].contains(&scheme) => Ok(format!("{scheme}://{address}")),
        _ => Err("it is not an address: use one like 10.0.0.1, or 10.0.0.1:7078".to_owned()),
    }
}

#[derive(Args, Debug)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub socket: SocketArgs,
    /// Socket of the supervisor: this daemon ends when the supervisor does
    #[arg(long, hide = true)]
    pub leash: Option<String>,
    /// Folder of the cluster's CA, where that is not beside the configuration
    #[arg(long, hide = true)]
    pub keys: Option<PathBuf>,
}
