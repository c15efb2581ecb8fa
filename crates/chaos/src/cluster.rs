// SPDX-License-Identifier: Apache-2.0
//! The cluster under test: three machines with a host process and a member of etcd each.

use crate::client::LoadShared;
use crate::etcd::{Etcd, endpoint};
use crate::fault::HOSTS;
use crate::network::{Network, address};
use crate::process::{Process, run};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Small, so that segments are reused within a minute.
const CACHE_BYTES: u64 = 128 << 20;
const CAPACITY_BYTES: u64 = 512 << 20;
/// All hosts must be up within this time after the first start.
const UP_WITHIN: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The campaign's folder. It is removed when dropped, unless it is to be kept.
#[derive(Debug)]
pub struct Area {
    path: PathBuf,
    /// Whether logs and devices stay.
    pub is_kept: bool,
}

impl Area {
    /// Makes the folder.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("gabion-chaos.{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make '{}'", path.display()))?;
        Ok(Self { path, is_kept: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if !self.is_kept {
            // Nothing can be done about files that do not go.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The cluster. Dropping it ends the processes first, then the network, then the files: the order
/// of the fields.
pub struct RealCluster {
    hosts: Vec<Option<Process>>,
    /// The directory.
    pub etcd: Etcd,
    /// The machines.
    pub network: Network,
    /// Its files.
    pub area: Area,
    gabion: PathBuf,
    shared: Arc<LoadShared>,
}

/// A volume's state, as one host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestVolume {
    /// Its name.
    pub name: String,
    /// Whether every copy is active.
    pub is_green: bool,
    /// The host that owns it, from zero.
    pub owner: Option<usize>,
    /// The hosts of its components and their states.
    pub components: Vec<(usize, String)>,
}

/// The name of a host.
pub fn host_name(host: usize) -> String {
    format!("host{}", host + 1)
}

fn host_number(name: &str) -> Option<usize> {
    name.strip_prefix("host")?.parse::<usize>().ok()?.checked_sub(1)
}

impl RealCluster {
    /// Makes machines, etcd and cluster, and starts the hosts.
    ///
    /// # Errors
    /// Whatever step failed.
    pub fn create(gabion: &Path, shared: &Arc<LoadShared>) -> Result<Self> {
        let area = Area::create()?;
        let network = Network::create()?;
        let etcd = Etcd::start(&network, area.path())?;
        let hosts = (0..HOSTS).map(|_| None).collect();
        let (gabion, shared) = (gabion.to_owned(), Arc::clone(shared));
        let mut cluster = Self { hosts, etcd, network, area, gabion, shared };
        for host in 0..HOSTS {
            cluster.enrol(host)?;
        }
        for host in 0..HOSTS {
            cluster.start(host)?;
        }
        let begun = Instant::now();
        while !cluster.is_whole() {
            if begun.elapsed() > UP_WITHIN {
                bail!("not all hosts came up within {UP_WITHIN:?}");
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(cluster)
    }

    fn file(&self, host: usize, leaf: &str) -> PathBuf {
        self.area.path().join(format!("{}.{leaf}", host_name(host)))
    }

    /// Where a host's clients connect.
    pub fn socket(&self, host: usize) -> PathBuf {
        self.file(host, "run").join("nbd.sock")
    }

    /// A host's log.
    pub fn log(&self, host: usize) -> PathBuf {
        self.file(host, "log")
    }

    /// The file of a host's capacity device.
    pub fn capacity(&self, host: usize) -> PathBuf {
        self.file(host, "capacity")
    }

    /// The cache file of a host.
    pub fn cache(&self, host: usize) -> PathBuf {
        self.file(host, "cache")
    }

    fn enrol(&self, host: usize) -> Result<()> {
        let (cache, capacity) = (self.cache(host), self.capacity(host));
        make_device(&cache, CACHE_BYTES)?;
        make_device(&capacity, CAPACITY_BYTES)?;
        let mut command = self.network.on(host, &self.gabion);
        command.arg("--config").arg(self.file(host, "toml"));
        command.args(if host == 0 { ["cluster", "create"] } else { ["host", "join"] });
        for machine in 0..HOSTS {
            command.args(["--etcd", &endpoint(machine)]);
        }
        command.args(["--name", &host_name(host), "--address", &address(host)]);
        command.arg("--run-dir").arg(self.file(host, "run"));
        command.arg("--cache").arg(cache).arg("--capacity").arg(capacity);
        run(&mut command).map(drop)
    }

    /// Starts a host's process, if it does not run: the next run of the host.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start(&mut self, host: usize) -> Result<()> {
        if self.hosts[host].is_some() {
            return Ok(());
        }
        let mut command = self.network.on(host, &self.gabion);
        command.arg("--config").arg(self.file(host, "toml")).arg("daemon");
        // The count rises while no process of the host lives: see `client`.
        self.shared.runs[host].fetch_add(1, Ordering::SeqCst);
        self.hosts[host] = Some(Process::start(&host_name(host), &mut command, &self.log(host))?);
        Ok(())
    }

    /// Gives a host that is down a new capacity device in the place of the old one, as an operator
    /// would.
    ///
    /// # Errors
    /// The command refused.
    pub fn replace(&self, host: usize) -> Result<()> {
        let capacity = self.capacity(host);
        std::fs::remove_file(&capacity)?;
        make_device(&capacity, CAPACITY_BYTES)?;
        let mut command = self.network.on(host, &self.gabion);
        command.arg("--config").arg(self.file(host, "toml"));
        run(command.args(["disk", "replace"]).arg(capacity)).map(drop)
    }

    /// What a host says of its disk groups.
    ///
    /// # Errors
    /// It does not answer.
    pub fn groups(&self, host: usize) -> Result<Vec<String>> {
        let status = self.ask(host, &["status"])?;
        let groups = status["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(groups.iter().filter_map(|group| group["state"].as_str()).map(str::to_owned).collect())
    }

    /// Kills hosts' processes: all signals first, then waits for their ends.
    pub fn kill(&mut self, hosts: &[usize]) {
        for host in hosts {
            if let Some(process) = &self.hosts[*host] {
                // It may have ended by itself; `end` tells.
                let _ = process.signal(Signal::KILL);
            }
        }
        for host in hosts {
            self.hosts[*host] = None;
        }
    }

    /// Stops a host's process with SIGSTOP, or lets it go on.
    ///
    /// # Errors
    /// It is gone.
    pub fn stand_still(&self, host: usize, is_still: bool) -> Result<()> {
        let signal = if is_still { Signal::STOP } else { Signal::CONT };
        self.hosts[host].iter().try_for_each(|process| process.signal(signal))
    }

    /// Hosts that ended by themselves: what no fault explains.
    pub fn ended(&mut self) -> Vec<String> {
        self.hosts.iter_mut().flatten().filter_map(Process::end).collect()
    }

    /// Asks one host a question with `--output json`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn ask(&self, host: usize, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.gabion);
        command.arg("--config").arg(self.file(host, "toml")).args(arguments);
        let text = run(command.args(["--output", "json"]))?;
        serde_json::from_str(&text).context("no JSON")
    }

    /// The volumes, as one host sees them.
    ///
    /// # Errors
    /// It does not answer, or misses the directory or another host.
    pub fn volumes(&self, host: usize) -> Result<Vec<TestVolume>> {
        let status = self.ask(host, &["status"])?;
        let hosts = status["hosts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let up = hosts.iter().filter(|host| host["state"] == "up").count();
        if status["directory"] != true || up != HOSTS {
            bail!("{} sees {up} hosts up, directory: {}", host_name(host), status["directory"]);
        }
        Ok(volumes_of(&status))
    }

    /// Whether every host sees all hosts up and all volumes green.
    pub fn is_whole(&self) -> bool {
        self.trouble().is_none()
    }

    /// The first trouble that any host sees. `None` where every host sees all hosts up and all
    /// volumes green.
    pub fn trouble(&self) -> Option<String> {
        for host in 0..HOSTS {
            let volumes = match self.volumes(host) {
                Ok(volumes) => volumes,
                Err(error) => return Some(format!("{error:#}")),
            };
            if let Some(volume) = volumes.into_iter().find(|volume| !volume.is_green) {
                let (name, seen_by) = (volume.name, host_name(host));
                return Some(format!("{seen_by} sees {name} with {:?}", volume.components));
            }
        }
        None
    }
}

/// Makes the file of a device. It is not sparse, because a device has all of its blocks.
fn make_device(path: &Path, bytes: u64) -> Result<()> {
    run(Command::new("fallocate").arg("-l").arg(bytes.to_string()).arg(path)).map(drop)
}

fn volumes_of(status: &Value) -> Vec<TestVolume> {
    let all = status["volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let volume = |volume: &Value| {
        let parts = volume["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        let component = |part: &Value| {
            let host = host_number(part["host"].as_str()?)?;
            Some((host, part["state"].as_str()?.to_owned()))
        };
        Some(TestVolume {
            name: volume["name"].as_str()?.to_owned(),
            is_green: volume["health"] == "green",
            owner: volume["owner"].as_str().and_then(host_number),
            components: parts.iter().filter_map(component).collect(),
        })
    };
    all.iter().filter_map(volume).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_understood() {
        let status = serde_json::json!({"volumes": [{
            "name": "web", "health": "yellow", "owner": "host2",
            "components": [
                {"host": "host1", "state": "active"},
                {"host": "host3", "state": "absent"},
            ],
        }]});
        let components = vec![(0, "active".to_owned()), (2, "absent".to_owned())];
        let volume =
            TestVolume { name: "web".to_owned(), is_green: false, owner: Some(1), components };
        assert_eq!(volumes_of(&status), [volume]);
    }
}
