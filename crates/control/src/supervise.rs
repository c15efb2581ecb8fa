// SPDX-License-Identifier: Apache-2.0
//! Runs an installed etcd for a one-machine cluster.

use crate::error::ControlError;
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

    /// Leaves it running without this handle, also after this process ended; returns its process
    /// id.
    #[must_use]
    pub fn detach(mut self) -> u32 {
        self.child = None;
        self.pid
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
    let wrap = |source| ControlError::EtcdStart { path: data_dir.to_owned(), source };
    fs::create_dir_all(data_dir).map_err(wrap)?;
    end_orphan(data_dir);
    let log = data_dir.join("etcd.log");
    let output = File::options().create(true).append(true).open(&log).map_err(wrap)?;
    let mut command = command(data_dir, client_port, peer_port);
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(wrap)?).stderr(output);
    // Its own group: a Ctrl-C at this program's terminal is not meant for it.
    command.process_group(0);
    let child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ControlError::EtcdMissing,
        _ => wrap(source),
    })?;
    // Only for the next start, in case this program is killed: it then finds this etcd, which still
    // holds the ports and the data directory, and ends it.
    let _ = fs::write(data_dir.join(PID_FILE), child.id().to_string());
    let endpoint = format!("http://127.0.0.1:{client_port}");
    let mut process = EtcdProcess { endpoint, pid: child.id(), child: Some(child) };
    wait_until_healthy(&mut process, client_port, log)?;
    Ok(process)
}

/// Kills an etcd of this directory whose supervisor was killed: it still holds the ports and the
/// lock.
fn end_orphan(data_dir: &Path) {
    let Ok(text) = fs::read_to_string(data_dir.join(PID_FILE)) else { return };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else { return };
    let folder = data_dir.join("etcd").display().to_string();
    let is_ours = || {
        let line = fs::read(format!("/proc/{text}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"etcd"))
            && words.any(|word| word == folder.as_bytes())
    };
    let begun = Instant::now();
    while is_ours() && begun.elapsed() < HEALTHY_WITHIN {
        // It may end between the look and the signal.
        let _ = kill_process(pid, Signal::KILL);
        std::thread::park_timeout(LOOK_EVERY);
    }
}

fn command(data_dir: &Path, client_port: u16, peer_port: u16) -> Command {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let mut command = Command::new("etcd");
    // etcd takes options from the environment too; those of the operator's shell are not meant.
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.arg("--name=gabion").arg("--data-dir").arg(data_dir.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("gabion={peer}")]);
    // Alone, it elects itself half a second to a second after a start, when the election timeout is
    // over. A heartbeat interval shorter than this would cost CPU all the time.
    command.args(["--heartbeat-interval=100", "--election-timeout=500"]);
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
