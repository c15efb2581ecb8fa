// SPDX-License-Identifier: Apache-2.0
//! Runs an installed etcd: for a one-machine cluster, or as a member of several.

use crate::error::ControlError;
use crate::keeper::Home;
use crate::member_file::url;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a started etcd may take until it is healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(10);
/// The wait between two looks whether it is healthy.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES_MAX: u64 = 4096;
/// Bytes that its content may take: far above 64 hosts and 12,800 volumes.
const QUOTA_BYTES: u64 = 2 << 30;

/// Holds the process id of the etcd that was started last.
const PID_FILE: &str = "etcd.pid";
/// What etcd says.
const LOG_FILE: &str = "etcd.log";
/// A log of this size is put aside at the next start; the one put aside before goes.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// How an etcd begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdStart {
    /// As the first member of a new directory.
    New,
    /// As a further member; all of them, as `name=url` with commas between.
    Join(String),
    /// With what it has: which members there are is part of it.
    Again,
    /// With what it has, but without all other members.
    Alone,
}

/// An etcd that is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSettings {
    /// What the other members know it as.
    pub name: String,
    /// Where it answers clients.
    pub clients: SocketAddr,
    /// Where it answers other members.
    pub members: SocketAddr,
    /// Folder of its log, its process id and its data; created where it is missing.
    pub folder: PathBuf,
    /// The folder of its data in it; begins with `etcd`.
    pub data: String,
    /// How it begins.
    pub start: EtcdStart,
    /// What it proves itself with, where it wants to know who asks.
    pub proof: Option<EtcdProof>,
}

/// What an etcd proves itself with, to clients and to other members, and by what it knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdProof {
    /// A certificate and its key. It is read again for each connection.
    pub key: PathBuf,
    /// The certificate of the authority.
    pub ca: PathBuf,
}

/// A running etcd. Dropping it kills it; its data stays.
pub struct EtcdProcess {
    endpoint: String,
    child: Option<Child>,
    pid: u32,
}

impl EtcdProcess {
    /// The URL for clients.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it lives.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Starts an etcd. Does not wait until it answers.
    pub(crate) fn spawn(settings: &EtcdSettings) -> Result<Self, ControlError> {
        let wrap = |source| ControlError::EtcdStart { path: settings.folder.clone(), source };
        fs::create_dir_all(&settings.folder).map_err(wrap)?;
        end_orphan(&settings.folder);
        let output = open_log(&settings.folder).map_err(wrap)?;
        let mut command = command(settings);
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(wrap)?).stderr(output);
        // Its own group: a Ctrl-C at this program's terminal is not meant for it.
        command.process_group(0);
        let child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ControlError::EtcdMissing,
            _ => wrap(source),
        })?;
        // Only for the next start, in case this program is killed: it then finds this etcd, which
        // still holds the ports and the data directory, and ends it.
        let _ = fs::write(settings.folder.join(PID_FILE), child.id().to_string());
        let endpoint = url(settings.proof.is_some(), settings.clients);
        Ok(Self { endpoint, pid: child.id(), child: Some(child) })
    }

    /// Leaves it running without this handle, also after this process ended; returns its process
    /// id.
    #[must_use]
    pub fn detach(mut self) -> u32 {
        self.child = None;
        self.pid
    }
}

impl Home for EtcdProcess {
    fn is_running(&mut self) -> bool {
        EtcdProcess::is_running(self)
    }

    fn why_ended(self) -> String {
        format!("see {LOG_FILE}")
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself. Its content is durable at any instant.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts etcd with its data in `data_dir` (created where missing), listening on loopback only, and
/// waits until it is healthy. Its messages go to `etcd.log` in `data_dir`. Started again with the
/// same directory it has the same content; the ports may differ.
///
/// # Errors
/// [`ControlError::EtcdMissing`]; it cannot run, ends at once or is not healthy within 10 s.
pub fn start_etcd(
    data_dir: &Path,
    client_port: u16,
    peer_port: u16,
) -> Result<EtcdProcess, ControlError> {
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut process = EtcdProcess::spawn(&EtcdSettings {
        name: "gabion".to_owned(),
        clients: at(client_port),
        members: at(peer_port),
        folder: data_dir.to_owned(),
        data: "etcd".to_owned(),
        start: EtcdStart::New,
        proof: None,
    })?;
    wait_until_healthy(&mut process, client_port, data_dir.join(LOG_FILE))?;
    Ok(process)
}

/// Opens the log, after the one of before was put aside if it had become large.
fn open_log(folder: &Path) -> io::Result<File> {
    let log = folder.join(LOG_FILE);
    if fs::metadata(&log).is_ok_and(|log| log.len() >= LOG_BYTES_MAX) {
        fs::rename(&log, folder.join("etcd.log.1"))?;
    }
    File::options().create(true).append(true).open(&log)
}

/// Kills an etcd of this folder whose supervisor was killed: it still holds the ports and the lock.
fn end_orphan(folder: &Path) {
    let Ok(text) = fs::read_to_string(folder.join(PID_FILE)) else { return };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else { return };
    let data = folder.join("etcd").display().to_string();
    let is_ours = || {
        let line = fs::read(format!("/proc/{text}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"etcd"))
            && words.any(|word| word.starts_with(data.as_bytes()))
    };
    let begun = Instant::now();
    while is_ours() && begun.elapsed() < HEALTHY_WITHIN {
        // It may end between the look and the signal.
        let _ = kill_process(pid, Signal::KILL);
        std::thread::park_timeout(LOOK_EVERY);
    }
}

fn command(settings: &EtcdSettings) -> Command {
    let url = |address| url(settings.proof.is_some(), address);
    let (client, peer) = (url(settings.clients), url(settings.members));
    let mut command = Command::new("etcd");
    // etcd takes options from the environment too; those of the operator's shell are not meant.
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.arg("--name").arg(&settings.name);
    command.arg("--data-dir").arg(settings.folder.join(&settings.data));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    if let Some(EtcdProof { key, ca }) = &settings.proof {
        // Certificate and key are in one file: they are never those of two times.
        command.arg("--cert-file").arg(key).arg("--key-file").arg(key);
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
        command.arg("--peer-cert-file").arg(key).arg("--peer-key-file").arg(key);
        command.arg("--peer-client-cert-auth").arg("--peer-trusted-ca-file").arg(ca);
    }
    match &settings.start {
        EtcdStart::New => {
            command.arg("--initial-cluster").arg(format!("{}={peer}", settings.name));
        }
        EtcdStart::Join(all) => {
            command.arg("--initial-cluster").arg(all).arg("--initial-cluster-state=existing");
        }
        // Its data say who the others are. Without data it must not begin as if it were new.
        EtcdStart::Again => {
            command.arg("--initial-cluster").arg(format!("{}={peer}", settings.name));
            command.arg("--initial-cluster-state=existing");
        }
        EtcdStart::Alone => {
            command.arg("--force-new-cluster");
        }
    }
    // Alone, it elects itself half a second to a second after a start, when the election timeout is
    // over. A heartbeat interval shorter than this would cost CPU all the time. Others wait longer:
    // between hosts a heartbeat may be late.
    let election_ms = if settings.clients.ip().is_loopback() { 500 } else { 1000 };
    command.arg("--heartbeat-interval=100").arg(format!("--election-timeout={election_ms}"));
    command.arg(format!("--quota-backend-bytes={QUOTA_BYTES}"));
    command.args(["--auto-compaction-mode=periodic", "--auto-compaction-retention=1h"]);
    command.args(["--logger=zap", "--log-outputs=stderr"]);
    command
}

fn wait_until_healthy(
    process: &mut EtcdProcess,
    port: u16,
    log: PathBuf,
) -> Result<(), ControlError> {
    let begun = Instant::now();
    while begun.elapsed() < HEALTHY_WITHIN {
        // Whether it lives comes first: another program may answer at its port.
        if let Some(child) = &mut process.child
            && let Ok(Some(status)) = child.try_wait()
        {
            return Err(ControlError::EtcdEnded { status, log });
        }
        if is_healthy(port).unwrap_or(false) {
            return Ok(());
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    Err(ControlError::EtcdUnhealthy { waited: HEALTHY_WITHIN, log })
}

/// Whether etcd says that it has a leader and can write.
fn is_healthy(port: u16) -> io::Result<bool> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.contains("\"health\":\"true\""))
}
