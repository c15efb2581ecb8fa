// SPDX-License-Identifier: Apache-2.0
//! The API of this machine's host, and its description.

use crate::args::ApiCommand;
use crate::beside::ThisMachine;
use crate::config::HostFiles;
use crate::group_files::GroupFiles;
use anyhow::Result;
use api::{ApiError, ApiOptions, ApiServer, JoinDoor, MachineLook, NetworkDoor, ShardDoor};
use keys::{Authority, KeyError, ListenerKey};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info, warn};

/// Who changed what: a file beside the configuration of a host.
const AUDIT_FILE: &str = "audit.jsonl";

/// `gabion api`.
pub fn api(command: ApiCommand) -> Result<()> {
    let ApiCommand::Describe = command;
    let mut text = serde_json::to_string_pretty(&api::document())?;
    text.push('\n');
    crate::output::write(text.as_bytes())
}

/// Answers for the shards of a host. Where that cannot be, the host does its work without.
pub fn serve_api(files: &HostFiles) -> Option<ApiServer> {
    let socket = files.api_socket();
    if let Some(folder) = socket.parent() {
        // Where it cannot be made, listening says so.
        let _ = std::fs::create_dir_all(folder);
    }
    let first = files.first();
    let names = [first.machine.as_ref().unwrap_or(&first.name).clone()];
    let endpoints = {
        let shard = files.shards[0].clone();
        Arc::new(move || match shard.endpoints() {
            Ok(Some(endpoints)) => endpoints.urls,
            _ => Vec::new(),
        })
    };
    let place = first.api.map(|address| ApiAddress {
        address,
        keys: files.keys(),
        names: &names,
        directory: Some(endpoints),
    });
    let configs = Arc::new(GroupFiles::of_host(&files.shards));
    let started = start_api(
        (socket, files.keys().join(AUDIT_FILE)),
        (files.control_sockets(), configs),
        ThisMachine { member_file: files.member_file() },
        place,
    );
    started.map_err(|why| error!("there is no API: {why}")).ok()
}

/// Where an API is to be on the network.
pub struct ApiAddress<'a> {
    /// Its address; port 0: any that is free.
    pub address: SocketAddr,
    /// The folder of the cluster's CA.
    pub keys: PathBuf,
    /// Under which names it is asked, beside its address.
    pub names: &'a [String],
    /// Where the directory answers other machines, if any can join.
    pub directory: Option<DirectoryUrls>,
}

/// Finds out where the directory answers: URLs.
pub type DirectoryUrls = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

impl ApiAddress<'_> {
    fn join_door(&self) -> Option<JoinDoor> {
        let directory = self.directory.clone()?;
        Some(JoinDoor { address: self.address, keys: self.keys.clone(), directory })
    }
}

/// Begins to answer on a Unix socket, and on the network where there is a place for it. Where it
/// cannot be there, it answers on this machine alone. Who changed what goes into the file `audit`.
pub fn start_api(
    (socket, audit): (PathBuf, PathBuf),
    (shards, configs): (Vec<ShardDoor>, Arc<GroupFiles>),
    machine: ThisMachine,
    place: Option<ApiAddress<'_>>,
) -> Result<ApiServer, ApiError> {
    let machine: Arc<dyn MachineLook> = Arc::new(machine);
    let options = |network| ApiOptions {
        machine: Arc::clone(&machine),
        socket: socket.clone(),
        shards: shards.clone(),
        configs: Arc::clone(&configs) as _,
        network,
        joining: place.as_ref().and_then(ApiAddress::join_door),
        audit: Some(audit.clone()),
    };
    let network = place.as_ref().and_then(|place| match network_door(place) {
        Ok(door) => Some(door),
        Err(why) => {
            warn!("the API is not on the network: {why}");
            None
        }
    });
    if let Some(door) = network {
        match api::start(options(Some(door))) {
            Ok(server) => return Ok(listens(server, &socket)),
            Err(why) => error!("the API is not on the network: {why}"),
        }
    }
    Ok(listens(api::start(options(None))?, &socket))
}

fn listens(server: ApiServer, socket: &Path) -> ApiServer {
    let network = server.network().map(|address| format!("https://{address}"));
    info!(socket = %socket.display(), network, "the API listens");
    server
}

fn network_door(place: &ApiAddress<'_>) -> Result<NetworkDoor, KeyError> {
    let authority = Authority::open(&place.keys)?;
    let ip = place.address.ip();
    let local = ip.is_loopback().then(|| "localhost".to_owned());
    let names = place.names.iter().cloned().chain(local).chain([ip.to_string()]);
    let key = Arc::new(ListenerKey::new(authority, names.collect())?);
    Ok(NetworkDoor { address: place.address, key })
}
