// SPDX-License-Identifier: Apache-2.0
//! The API of this machine's host, and its description.

use crate::args::ApiCommand;
use crate::config::HostFiles;
use crate::group_files::GroupFiles;
use anyhow::Result;
use api::ApiServer;
use std::sync::Arc;
use tracing::{error, info};

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
    let configs = Arc::new(GroupFiles::of_host(&files.shards));
    let started = api::start(&socket, files.control_sockets(), configs);
    match &started {
        Ok(_) => info!(socket = %socket.display(), "the API listens"),
        Err(why) => error!("there is no API: {why}"),
    }
    started.ok()
}
