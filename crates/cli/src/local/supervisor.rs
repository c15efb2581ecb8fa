// SPDX-License-Identifier: Apache-2.0
//! The process behind `gabion up`: runs the directory and the hosts of a cluster on one machine,
//! ends and starts single hosts, and takes everything down with itself.
//!
//! Every host hangs on it by a [leash](crate::leash).

use super::directory_home::DirectoryHome;
use super::layout::{ClusterFile, Layout, Mode};
use crate::Fail;
use crate::beside::ThisMachine;
use crate::client;
use crate::config::read_config;
use crate::daemon::run_host;
use crate::group_files::GroupFiles;
use crate::leash::{Leashes, bind};
use crate::serve::{ApiAddress, start_api};
use anyhow::{Context, Result};
use api::{ApiServer, ShardDoor};
use control::Keeper;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest clean stop of a host. After that the host is killed.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Time between looks at a host that is starting or ending.
const LOOK: Duration = Duration::from_millis(10);

/// What the command line asks of a running supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Are all hosts ready?
    Ready,
    /// End a host at once.
    Kill(String),
    /// Start a host.
    Start(String),
    /// End everything cleanly.
    Down,
}

/// The supervisor's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SupervisorAnswer {
    /// Done, or ready.
    Done,
    /// Not ready yet.
    Waiting,
    /// It did not work, for a reason in one line.
    Failed(String),
}

enum Runner {
    Thread(JoinHandle<Result<()>>),
    Process(Child),
}

#[derive(Default)]
struct Slot {
    runner: Option<Runner>,
    /// Why the host ended by itself, if it did.
    failure: Option<String>,
}

struct State {
    hosts: BTreeMap<String, Slot>,
    is_down: bool,
}

/// The hosts of one cluster and what they need.
pub struct Supervisor {
    layout: Layout,
    cluster: ClusterFile,
    leashes: Leashes,
    state: Mutex<State>,
    downed: Condvar,
    directory: Mutex<Option<Keeper<DirectoryHome>>>,
    api: Mutex<Option<ApiServer>>,
    _lock: File,
}

/// The address of the API of a cluster on this machine that was not up before.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Answers on this machine: on a Unix socket, and at the port of the time before where that is
/// free.
fn serve(layout: &Layout, shards: Vec<ShardDoor>, configs: GroupFiles) -> Result<ApiServer> {
    let keys = layout.keys();
    fs::create_dir_all(&keys)?;
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700))?;
    keys::Authority::create(&keys)?;
    let wanted = layout.api_address().unwrap_or(ANY_PORT);
    let is_free = TcpListener::bind(wanted).is_ok();
    let address = if is_free { wanted } else { ANY_PORT };
    let place = ApiAddress { address, keys, names: &[], directory: None };
    let machine = ThisMachine { member_file: None };
    let api = start_api(
        (layout.api_socket(), layout.audit()),
        (shards, Arc::new(configs)),
        machine,
        Some(place),
    )?;
    if let Some(address) = api.network() {
        layout.note_api_address(address)?;
    }
    Ok(api)
}

impl Supervisor {
    /// Starts the directory and all hosts; does not wait until they are ready.
    pub fn start(layout: &Layout, cluster: &ClusterFile, lock: File) -> Result<Arc<Self>> {
        // This process holds the folder's lock: what is there is that of a dead supervisor.
        let leashes = Leashes::listen(&layout.leash_socket())?;
        let questions = bind(&layout.supervisor_socket())?;
        let directory = Keeper::new("the directory", DirectoryHome::start(layout, cluster)?);
        found(layout, cluster)?;
        let control = |name: String| (name.clone(), layout.control_socket(&name));
        let shards = cluster.host_names().into_iter().map(control).collect();
        let file = |name: String| (name.clone(), layout.host_config(&name));
        let configs = GroupFiles::of(cluster.host_names().into_iter().map(file));
        let api = serve(layout, shards, configs)?;
        let state = State { hosts: BTreeMap::new(), is_down: false };
        let supervisor = Arc::new(Self {
            layout: layout.clone(),
            cluster: cluster.clone(),
            leashes,
            state: Mutex::new(state),
            downed: Condvar::new(),
            directory: Mutex::new(Some(directory)),
            api: Mutex::new(Some(api)),
            _lock: lock,
        });
        let inner = Arc::clone(&supervisor);
        std::thread::spawn(move || inner.answer(&questions));
        for name in cluster.host_names() {
            supervisor.start_host(&name)?;
        }
        Ok(supervisor)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(self: &Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming().flatten() {
            let inner = Arc::clone(self);
            std::thread::spawn(move || inner.answer_one(&stream));
        }
    }

    fn answer_one(&self, stream: &UnixStream) {
        let mut line = String::new();
        let Ok(reader) = stream.try_clone() else { return };
        if BufReader::new(reader).read_line(&mut line).is_err() {
            return;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(question) => self.carry_out(question),
            Err(error) => SupervisorAnswer::Failed(format!("not a question: {error}")),
        };
        let mut text = serde_json::to_string(&answer).unwrap_or_default();
        text.push('\n');
        let mut out = stream;
        // If the asker has gone, there is nobody else to tell.
        let _ = out.write_all(text.as_bytes());
    }

    fn carry_out(&self, question: Question) -> SupervisorAnswer {
        let done = match question {
            Question::Ready => return self.readiness(),
            Question::Kill(host) => self.kill(&host),
            Question::Start(host) => self.start_again(&host),
            Question::Down => {
                self.down();
                Ok(())
            }
        };
        match done {
            Ok(()) => SupervisorAnswer::Done,
            Err(error) => SupervisorAnswer::Failed(format!("{error:#}")),
        }
    }

    /// Whether every host that is a member answers and sees all of them up.
    pub fn readiness(&self) -> SupervisorAnswer {
        let names = self.cluster.host_names();
        if self.state().hosts.len() < names.len() {
            return SupervisorAnswer::Waiting; // not all have been started for the first time
        }
        let members = names.len();
        let (run, ended): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| self.is_running(name));
        // What was taken out of the cluster does not start, and is not waited for.
        let (mut removed, mut least_up) = (Vec::new(), usize::MAX);
        for name in &run {
            let Some(status) = client::shard_status(&self.layout.control_socket(name)) else {
                return SupervisorAnswer::Waiting;
            };
            let up = status.hosts.iter().filter(|h| h.state == operator::HostState::Up).count();
            least_up = least_up.min(up);
            removed = status.removed;
        }
        let members = members.saturating_sub(removed.len());
        match ended.iter().find(|name| !removed.contains(name)) {
            Some(name) => self.why_ended(name),
            None if least_up < members => SupervisorAnswer::Waiting,
            None => SupervisorAnswer::Done,
        }
    }

    fn why_ended(&self, name: &str) -> SupervisorAnswer {
        let state = self.state();
        let why = state.hosts.get(name).and_then(|slot| slot.failure.clone());
        let log = self.layout.log().display().to_string();
        let why = why.unwrap_or_else(|| format!("it ended; see '{log}'"));
        SupervisorAnswer::Failed(format!("{name} did not start: {why}"))
    }

    /// Checks whether a host runs, and notes why it ended.
    fn is_running(&self, name: &str) -> bool {
        let mut state = self.state();
        let Some(slot) = state.hosts.get_mut(name) else { return false };
        match slot.runner.take() {
            None => false,
            Some(Runner::Thread(thread)) if thread.is_finished() => {
                slot.failure = match thread.join() {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(format!("{error:#}")),
                    Err(_) => Some("it panicked".to_owned()),
                };
                false
            }
            Some(Runner::Process(mut child)) => match child.try_wait() {
                Ok(None) => {
                    slot.runner = Some(Runner::Process(child));
                    true
                }
                _ => false,
            },
            Some(runner) => {
                slot.runner = Some(runner);
                true
            }
        }
    }

    /// The shards that a name is of; one at least.
    fn shards_of(&self, name: &str) -> Result<Vec<String>> {
        let shards = self.cluster.shards_of(name);
        if shards.is_empty() {
            return Err(Fail::failed(format!(
                "there is no host '{name}': there are {}",
                self.cluster.host_names().join(", ")
            ))
            .into());
        }
        Ok(shards)
    }

    /// Ends a host, or one of its shards, at once.
    fn kill(&self, name: &str) -> Result<()> {
        let mut running = self.shards_of(name)?;
        running.retain(|shard| self.is_running(shard));
        if running.is_empty() {
            return Err(Fail::failed(format!(
                "{name} is not running: start it with 'gabion host start {name}'"
            ))
            .into());
        }
        running.iter().try_for_each(|shard| self.kill_host(shard))
    }

    /// Starts what does not run of a host, or one of its shards.
    fn start_again(&self, name: &str) -> Result<()> {
        let mut ended = self.shards_of(name)?;
        ended.retain(|shard| !self.is_running(shard));
        if ended.is_empty() {
            return Err(Fail::failed(format!("{name} is running already")).into());
        }
        for shard in &ended {
            self.check_member(shard)?;
            self.start_host(shard)?;
        }
        Ok(())
    }

    /// Whether the hosts that run know nothing of a removal of this one.
    fn check_member(&self, name: &str) -> Result<()> {
        let names = self.cluster.host_names().into_iter();
        let mut statuses = names
            .filter(|other| other != name && self.is_running(other))
            .filter_map(|other| client::shard_status(&self.layout.control_socket(&other)));
        if statuses.any(|status| status.removed.iter().any(|removed| removed == name)) {
            return Err(Fail::failed(format!(
                "{name} was taken out of the cluster: it does not start any more"
            ))
            .into());
        }
        Ok(())
    }

    fn start_host(&self, name: &str) -> Result<()> {
        let leash = self.layout.leash_socket().display().to_string();
        let runner = match self.cluster.mode {
            Mode::Threads => {
                let config = read_config(&self.layout.host_config(name))?;
                let keys = self.layout.keys();
                let run = move || run_host(&config, Some(&leash), &keys).map(drop);
                Runner::Thread(std::thread::Builder::new().name(name.to_owned()).spawn(run)?)
            }
            Mode::Processes => {
                let log = self.layout.open_log()?;
                let child = crate::program::again()?
                    .arg("daemon")
                    .arg("--config")
                    .arg(self.layout.host_config(name))
                    .arg("--leash")
                    .arg(&leash)
                    .arg("--keys")
                    .arg(self.layout.keys())
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(log)
                    .spawn()
                    .context("cannot start a host's process")?;
                crate::cpu::process_is(name, child.id());
                Runner::Process(child)
            }
        };
        let mut state = self.state();
        state.hosts.insert(name.to_owned(), Slot { runner: Some(runner), failure: None });
        Ok(())
    }

    fn kill_host(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        if let Some(Slot { runner: Some(Runner::Process(child)), .. }) = state.hosts.get_mut(name) {
            child.kill().context("cannot kill the process")?;
        }
        drop(state);
        self.leashes.cut(name);
        self.wait_for_end(name, Instant::now() + STOP_MAX)
    }

    fn wait_for_end(&self, name: &str, until: Instant) -> Result<()> {
        while self.is_running(name) {
            if Instant::now() > until {
                return Err(Fail::failed(format!("{name} does not end")).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends every host cleanly, then the directory.
    pub fn down(&self) {
        drop(self.api.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.leashes.stop_all();
        let until = Instant::now() + STOP_MAX;
        for name in self.cluster.host_names() {
            if self.wait_for_end(&name, until).is_err() {
                let _ = self.kill_host(&name);
            }
        }
        drop(self.directory.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = std::fs::remove_file(self.layout.supervisor_socket());
        let _ = std::fs::remove_file(self.layout.leash_socket());
        self.state().is_down = true;
        self.downed.notify_all();
    }

    fn keep_directory(&self) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = directory.as_mut() {
            keeper.look(Instant::now(), || DirectoryHome::start(&self.layout, &self.cluster));
        }
    }

    /// Waits until the cluster is taken down. Calls `tick` every second meanwhile.
    pub fn wait_until_down(&self, mut tick: impl FnMut()) {
        let mut state = self.state();
        while !state.is_down {
            let second = Duration::from_secs(1);
            let waited = self.downed.wait_timeout(state, second);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !state.is_down {
                drop(state);
                self.keep_directory();
                tick();
                state = self.state();
            }
        }
    }
}

/// Writes the record of a new cluster into its directory, once.
fn found(layout: &Layout, cluster: &ClusterFile) -> Result<()> {
    if !layout.founding().exists() {
        return Ok(());
    }
    let (socket, gateway) = match cluster.mode {
        Mode::Threads => (layout.directory_socket(), None),
        Mode::Processes => {
            let socket = layout.root().join("founding.sock");
            let gateway = control::start_etcd_gateway(cluster.etcd(), &socket)?;
            (socket, Some(gateway))
        }
    };
    let driver = ring::RingDriver::new().context("io_uring is not available")?;
    let env = env::Env::new(Box::new(driver), Box::new(env::Fifo));
    let (inner, id, kind) = (env.clone(), cluster.id, cluster.kind);
    let address = env::Address::Unix(socket.display().to_string());
    env.run(async move { host::found(&inner, address, id, kind).await })?;
    env.stop();
    drop(gateway);
    std::fs::remove_file(layout.founding())?;
    Ok(())
}
