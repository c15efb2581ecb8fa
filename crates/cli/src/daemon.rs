// SPDX-License-Identifier: Apache-2.0
//! Running one host on the current thread, as a daemon of its own or under a supervisor.

use crate::Fail;
use crate::args::{Cli, DaemonArgs};
use crate::config::{CONFIG_DEFAULT, control_socket, read_host};
use crate::member::DirectoryMember;
use crate::memory;
use crate::serve::serve_api;
use crate::shards;
use anyhow::{Context, Result, bail};
use base::ShardId;
use devicemodel::{DeviceModel, SlowedDriver};
use env::{Address, Driver, Either, Env, Fifo};
use host::{HostConfig, MachineMemory, Node, NodeOptions, SocketConfig};
use keys::{Authority, ShardKeys};
use operator::{Command, CommandReply};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::Identity;
use tracing::{error, info};

/// Longest wait for a host to say that it stops.
const STOP_MAX: Duration = Duration::from_secs(30);

/// How a host ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Asked to stop; stopped cleanly.
    Stopped,
    /// Its leash was cut. It ended at once, as by `kill -9`.
    Cut,
}

/// `gabion daemon`.
pub fn run(cli: &Cli, args: &DaemonArgs) -> Result<()> {
    start_log(None)?;
    let path = cli.config.clone().unwrap_or_else(|| PathBuf::from(CONFIG_DEFAULT));
    let mut files = read_host(&path)?;
    if let Some(leash) = files.leash.clone() {
        return shards::run(&files, &leash, args);
    }
    // Whoever holds the leash answers for all that hang on it.
    let api = args.leash.is_none().then(|| serve_api(&files)).flatten();
    let keys = args.keys.clone().unwrap_or_else(|| files.keys());
    let shard = files.shards.swap_remove(0);
    // The daemon of a host with several shards does that for all of them.
    let member = match shard.config.machine {
        None => DirectoryMember::start(shard.member_file())?,
        Some(_) => DirectoryMember::default(),
    };
    let endpoints = shard.endpoints()?;
    let mut config = shard.config;
    config.nbd_socket = args.socket.over(&config.nbd_socket);
    if let Some(dir) = control_socket(&config).parent() {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the folder '{}'", dir.display()))?;
    }
    let socket = PathBuf::from(config.directory.trim_start_matches("unix:"));
    let gateway = endpoints.map(|all| control::start_etcd_gateway(all, &socket)).transpose()?;
    stop_on_signal(&config, member.clone());
    let end = run_host(&config, args.leash.as_deref(), &keys);
    drop((api, gateway));
    // Last: while the host stops it still needs the directory.
    member.end();
    match end? {
        End::Stopped => Ok(()),
        End::Cut => Err(Fail::failed("the supervisor is gone").into()),
    }
}

/// Turns SIGTERM and SIGINT into the operator's stop command.
fn stop_on_signal(config: &HostConfig, member: DirectoryMember) {
    let socket = control_socket(config);
    let Ok(mut signals) = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
    ]) else {
        return;
    };
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if UnixStream::connect(&socket).is_err() {
                member.end();
                std::process::exit(1); // not ready yet: nothing to end cleanly
            }
            // A host that stops may be gone before it answers.
            let _ = api::exchange::<_, CommandReply>(&socket, &Command::Stop, STOP_MAX);
        }
    });
}

/// Runs a host on this thread until it is stopped. The cluster's CA is in the folder `keys`.
pub fn run_host(config: &HostConfig, leash: Option<&str>, keys: &Path) -> Result<End> {
    crate::cpu::this_thread_is(&config.name);
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = Env::new(slowed_down(driver, config)?, Box::new(Fifo));
    let (inner, mut config) = (env.clone(), config.clone());
    let SocketConfig { owner, group, .. } = &mut config.nbd_socket;
    for (database, name) in [("passwd", owner), ("group", group)] {
        *name = name.take().map(|name| number_of(database, &name)).transpose()?;
    }
    let leash = leash.map(str::to_owned);
    let identity = identity(&config, keys);
    let end = env.run(async move { live(&inner, &config, leash, identity).await });
    env.stop();
    if let Err(failure) = &end {
        error!("{failure:#}");
    }
    end
}

/// The driver whose device files are as slow as `tuning` says; the driver itself where it says
/// nothing.
fn slowed_down(driver: ring::RingDriver, config: &HostConfig) -> Result<Box<dyn Driver>> {
    if config.tuning.magnetic.is_empty() && config.tuning.late.is_none() {
        return Ok(Box::new(driver));
    }
    let mut driver = SlowedDriver::new(driver);
    for path in &config.tuning.magnetic {
        if ring::block_device(Path::new(path)).is_some() {
            bail!(
                "host.toml: tuning.magnetic names the block device '{path}': only a file can be \
                 made to behave as a magnetic disk"
            );
        }
        driver.behave_as(path, DeviceModel::Magnetic);
    }
    let Some(late) = config.tuning.late else { return Ok(Box::new(driver)) };
    let latency = Duration::from_micros(late.latency_us);
    let bytes_per_second = late.bytes_per_second;
    let devices =
        config.groups.iter().flat_map(|it| std::iter::once(&it.cache).chain(&it.capacity));
    for path in devices.filter(|path| !config.tuning.magnetic.contains(path)) {
        if ring::block_device(Path::new(path)).is_some() {
            bail!("host.toml: tuning.late slows down files alone, and '{path}' is a block device");
        }
        driver.behave_as(path, DeviceModel::Late { latency, bytes_per_second });
    }
    Ok(Box::new(driver))
}

/// The number of a user or group, which may be given by name or by number.
fn number_of(database: &str, name: &str) -> Result<String> {
    if name.parse::<u32>().is_ok() {
        return Ok(name.to_owned());
    }
    // `getent` knows all that the system knows, not only the files of users and groups.
    let asked = std::process::Command::new("getent").args([database, "--", name]).output();
    let asked = asked.context("cannot run 'getent': name the socket's owner by number")?;
    let line = String::from_utf8_lossy(&asked.stdout).into_owned();
    let number = line.split(':').nth(2).filter(|number| number.parse::<u32>().is_ok());
    let what = if database == "group" { "group" } else { "user" };
    number.map(str::to_owned).with_context(|| {
        format!("nbd_socket: there is no {what} '{name}' on this machine: name one that there is")
    })
}

/// What this shard proves itself with, where the cluster's CA is here.
fn identity(config: &HostConfig, keys: &Path) -> Option<Identity> {
    let made = Authority::open(keys);
    match made.and_then(|it| ShardKeys::identity(it, vec![ShardId(config.id)])) {
        Ok(identity) => Some(identity),
        Err(why) => {
            info!("links to other hosts cannot be encrypted: {why}");
            None
        }
    }
}

async fn live(
    env: &Env,
    config: &HostConfig,
    leash: Option<String>,
    identity: Option<Identity>,
) -> Result<End> {
    let leash = hang_on(env, &config.name, leash).await?;
    let memory = MachineMemory { bytes: memory::of_machine()?, ..MachineMemory::default() };
    let options = NodeOptions { memory, identity, ..NodeOptions::default() };
    let starting = Node::start(env, config, options);
    let node = match env::select(starting, leash.wait()).await {
        Either::First(started) => started?,
        Either::Second(end) => return Ok(end),
    };
    match env::select(node.stopped(), leash.wait()).await {
        Either::Second(End::Cut) => Ok(End::Cut),
        _ => {
            info!(host = config.name, "stopping");
            node.stop().await;
            Ok(End::Stopped)
        }
    }
}

/// The connection to a supervisor. A byte on it asks for a clean stop; when it ends, the host ends.
struct Leash {
    state: env::Notify,
    end: std::rc::Rc<std::cell::Cell<Option<End>>>,
    _watcher: Option<env::Task>,
}

impl Leash {
    async fn wait(&self) -> End {
        loop {
            let changed = self.state.wait();
            if let Some(end) = self.end.get() {
                return end;
            }
            changed.await;
        }
    }
}

async fn hang_on(env: &Env, name: &str, path: Option<String>) -> Result<Leash> {
    let state = env::Notify::default();
    let end = std::rc::Rc::new(std::cell::Cell::new(None));
    let Some(path) = path else { return Ok(Leash { state, end, _watcher: None }) };
    let link = env.dial(Address::Unix(path)).await.context("no supervisor")?;
    let mut hello = env.buf(name.len() + 1);
    hello[..name.len()].copy_from_slice(name.as_bytes());
    hello[name.len()] = b'\n';
    link.send(hello.freeze()).await.context("no supervisor")?;
    let (notify, place, buf) = (state.clone(), std::rc::Rc::clone(&end), env.buf(16));
    let watcher = env.spawn("leash", async move {
        let stop = matches!(link.recv(buf, 0).await, Ok((_, count)) if count > 0);
        place.set(Some(if stop { End::Stopped } else { End::Cut }));
        notify.notify();
    });
    Ok(Leash { state, end, _watcher: Some(watcher) })
}

/// Sends the log to standard error, or to a file.
pub fn start_log(file: Option<File>) -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GABION_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    // A log that cannot be written must not end a host. Reporting that error would panic.
    let builder = builder.log_internal_errors(false);
    let started = match file {
        None => builder.with_writer(std::io::stderr).try_init(),
        Some(file) => builder.with_writer(std::sync::Mutex::new(file)).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}
