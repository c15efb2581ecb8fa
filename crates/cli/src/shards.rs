// SPDX-License-Identifier: Apache-2.0
//! The daemon of a host with several shards: runs a process for each, starts those again that end,
//! and ends all of them with itself.

use crate::args::DaemonArgs;
use crate::config::{HostFiles, ShardFile};
use crate::leash::Leashes;
use crate::member::DirectoryMember;
use crate::serve::serve_api;
use anyhow::{Context, Result};
use control::{Home, Keeper};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time between two looks at the shards.
const LOOK: Duration = Duration::from_millis(100);
/// Longest clean stop of all shards; after that they are killed.
const STOP_MAX: Duration = Duration::from_secs(25);

/// One shard's process. It is killed when this is dropped.
struct ShardProcess(Child);

impl Home for ShardProcess {
    fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    fn why_ended(mut self) -> String {
        self.0.try_wait().ok().flatten().map_or("unknown".to_owned(), |status| status.to_string())
    }
}

impl Drop for ShardProcess {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Runs all shards of a host until it is told to stop.
pub fn run(files: &HostFiles, leash: &Path, args: &DaemonArgs) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    if let Some(folder) = leash.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
    }
    let leashes = Leashes::listen(leash)?;
    // It ends last: while the shards stop they still need the directory.
    let _member = DirectoryMember::start(files.member_file())?;
    let _api = serve_api(files);
    let start = |shard: &ShardFile| start(shard, leash, args);
    let keep = |shard| Ok((shard, Keeper::new(&name(shard), start(shard)?)));
    let mut kept: Vec<(&ShardFile, Keeper<ShardProcess>)> =
        files.shards.iter().map(keep).collect::<Result<_>>()?;
    while !stop.load(Ordering::Relaxed) {
        for (shard, keeper) in &mut kept {
            keeper.look(Instant::now(), || start(shard));
        }
        std::thread::sleep(LOOK);
    }
    info!("stopping all shards");
    let until = Instant::now() + STOP_MAX;
    let mut is_any_left = || kept.iter_mut().any(|(_, keeper)| keeper.is_running());
    while is_any_left() {
        if Instant::now() > until {
            warn!("shards that do not stop are killed");
            break;
        }
        // One that has just started may hear it the second time only.
        leashes.stop_all();
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn name(shard: &ShardFile) -> String {
    format!("shard {}", shard.config.name)
}

/// Starts the process of a shard, which hangs on `leash`.
fn start(shard: &ShardFile, leash: &Path, args: &DaemonArgs) -> Result<ShardProcess> {
    let socket = [
        ("--nbd-socket-owner", &args.socket.nbd_socket_owner),
        ("--nbd-socket-group", &args.socket.nbd_socket_group),
        ("--nbd-socket-mode", &args.socket.nbd_socket_mode),
    ];
    let mut command = crate::program::again()?;
    command.arg("daemon").arg("--config").arg(&shard.path).arg("--leash").arg(leash);
    for (flag, value) in socket {
        command.args(value.iter().flat_map(|value| [flag, value.as_str()]));
    }
    let child = command.stdin(Stdio::null()).spawn().context("cannot start a shard's process")?;
    crate::cpu::process_is(&shard.config.name, child.id());
    Ok(ShardProcess(child))
}
