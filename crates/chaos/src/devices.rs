// SPDX-License-Identifier: Apache-2.0
//! The phase in which devices are damaged: those of one host only, for the whole campaign. Data
//! that nobody reads is not repaired, because no scrub pass comes so soon. So the other copies must
//! stay whole.

use crate::campaign::{Campaign, Waited};
use crate::client::Subject;
use crate::cluster::{TestVolume, host_name};
use crate::device;
use crate::fault::{FaultKind, HOSTS, draw_index};
use crate::record::Occurrence;
use anyhow::{Context, Result};
use base::Set;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bits flipped at a time.
const FLIPS: usize = 64;
/// Ownership follows the only client of a volume within this time.
const OWNER_WITHIN: Duration = Duration::from_secs(8);
/// How long the load goes on with a device that is damaged.
const UNDER_LOAD: Duration = Duration::from_secs(4);
/// What an owner logs when it repairs a copy.
const REPAIR_LINE: &str = "a bad copy is written again";
/// A host must say within this time what is wrong with its disks.
const SAID_WITHIN: Duration = Duration::from_secs(20);

impl Campaign {
    /// Flips bits in the data of one host and lets that host read all of its data, which repairs
    /// it. Then shows that its copies alone are good.
    ///
    /// # Errors
    /// A command failed, or a host cannot be reached.
    pub fn flip(&mut self, kind: FaultKind) -> Result<()> {
        let host = self.damaged_host()?;
        let begun = Instant::now();
        if kind == FaultKind::FlipDown {
            self.cluster.kill(&[host]);
        }
        let path = self.cluster.capacity(host);
        let flipped = device::flip_bits(&path, &mut self.rng, FLIPS)?;
        self.say(&format!("{:7.1} s  {kind}: {flipped} bits of {}", self.at(), host_name(host)));
        self.cluster.start(host)?;
        self.rest(UNDER_LOAD);
        self.conclude(occurrence(kind, host, begun));
        self.close();
        // A host that knows the way to an owner elsewhere goes on using it. A new run asks for the
        // ownership, which nobody else uses now.
        self.cluster.kill(&[host]);
        self.cluster.start(host)?;
        self.recover("a restart without load");
        let repaired = self.read_by_owner(host)?;
        let others: Set<_> = repaired.iter().map(|(_, other)| *other).collect();
        for other in others {
            self.cluster.kill(&[other]);
            for (subject, _) in repaired.iter().filter(|(_, of)| *of == other) {
                self.check_one(subject, host)?;
            }
            self.cluster.start(other)?;
            self.recover("a restart without load");
        }
        let names: Vec<_> = repaired.iter().map(|(subject, _)| subject.name.as_str()).collect();
        let text = format!(
            "{kind}: {flipped} bits of {}, {} repairs so far; read through it, then from its copy \
             alone: {}",
            host_name(host),
            self.repairs(),
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") },
        );
        self.notes.push(text);
        self.open();
        Ok(())
    }

    /// Reads, through `host`, all volumes with a copy on it, once `host` owns them: an owner reads
    /// its own copy. Returns these volumes, each with the host of its other copy.
    fn read_by_owner(&mut self, host: usize) -> Result<Vec<(Arc<Subject>, usize)>> {
        let mut repaired = Vec::new();
        for subject in self.subjects.clone() {
            let begun = Instant::now();
            while self.may_go_on() && begun.elapsed() < OWNER_WITHIN {
                // A reading makes this host the owner: the first one, or a later one.
                self.check_one(&subject, host)?;
                let Some(volume) = self.volume(&subject.name, host) else { continue };
                let other = volume.components.iter().map(|part| part.0).find(|at| *at != host);
                let has_copy = volume.components.iter().any(|part| part.0 == host);
                let Some(other) = other.filter(|_| has_copy) else { break };
                if volume.owner == Some(host) {
                    self.check_one(&subject, host)?;
                    repaired.push((subject, other));
                    break;
                }
            }
        }
        Ok(repaired)
    }

    /// Moves the cache file of a host away while it runs. Nothing fails; the host notices, says so
    /// and takes no more writes on that disk group, before they would be lost with its process.
    ///
    /// # Errors
    /// A command failed.
    pub fn unlink(&mut self) -> Result<()> {
        let host = self.damaged_host()?;
        let begun = Instant::now();
        let path = self.cluster.cache(host);
        let away = path.with_extension("away");
        std::fs::rename(&path, &away).context("cannot move a cache file")?;
        self.say(&format!("{:7.1} s  unlink: {}", self.at(), host_name(host)));
        let says = self.hear(host, "not what stands");
        self.rest(UNDER_LOAD);
        self.notes.push(format!("unlink: {} says: {says:?}", host_name(host)));
        self.cluster.kill(&[host]);
        std::fs::rename(&away, &path).context("cannot move a cache file back")?;
        self.cluster.start(host)?;
        self.conclude(occurrence(FaultKind::Unlink, host, begun));
        Ok(())
    }

    /// Waits until what a host says of its disk groups contains `wanted`. Returns what it says.
    fn hear(&mut self, host: usize, wanted: &str) -> Vec<String> {
        let mut says = Vec::new();
        let cluster = &self.cluster;
        let said = self.wait(SAID_WITHIN, || {
            says = cluster.groups(host).unwrap_or_default();
            says.iter().any(|state| state.contains(wanted))
        });
        if said == Waited::Late {
            self.troubles.push(format!("{} says nothing of its device: {says:?}", host_name(host)));
        }
        says
    }

    /// Takes half of a capacity file away while its host is down. The host comes back without that
    /// disk group, says so, and the other copies serve; with a new device everything comes back.
    ///
    /// # Errors
    /// A command failed, or another host cannot be reached.
    pub fn truncate(&mut self) -> Result<()> {
        let host = self.damaged_host()?;
        let begun = Instant::now();
        let path = self.cluster.capacity(host);
        self.cluster.kill(&[host]);
        device::truncate(&path)?;
        self.say(&format!("{:7.1} s  truncate: {}", self.at(), host_name(host)));
        self.cluster.start(host)?;
        let says = self.hear(host, "out of service");
        self.rest(UNDER_LOAD);
        self.notes.push(format!("truncate: {} says: {says:?}", host_name(host)));
        self.cluster.kill(&[host]);
        self.cluster.replace(host)?;
        self.say(&format!("{:7.1} s    {} gets a new device", self.at(), host_name(host)));
        self.cluster.start(host)?;
        self.conclude(occurrence(FaultKind::Truncate, host, begun));
        Ok(())
    }

    /// Copies that were written again because their checksum was wrong, as the hosts' logs say.
    /// Fewer than the flipped bits: blocks still in a write buffer are read from there.
    fn repairs(&self) -> usize {
        let log = |host| std::fs::read_to_string(self.cluster.log(host)).unwrap_or_default();
        (0..HOSTS).map(|host| log(host).matches(REPAIR_LINE).count()).sum()
    }

    fn at(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn volume(&self, name: &str, asked: usize) -> Option<TestVolume> {
        self.cluster.volumes(asked).ok()?.into_iter().find(|volume| volume.name == name)
    }

    /// The host whose device may be damaged: always the same, one that has copies.
    fn damaged_host(&mut self) -> Result<usize> {
        if let Some(host) = self.damaged {
            return Ok(host);
        }
        let volumes = self.cluster.volumes(0).context("the cluster is whole")?;
        let mut hosts: Vec<_> =
            volumes.iter().flat_map(|volume| volume.components.iter().map(|part| part.0)).collect();
        hosts.sort_unstable();
        let host =
            *hosts.get(draw_index(&mut self.rng, hosts.len().max(1))).context("no copies")?;
        self.damaged = Some(host);
        Ok(host)
    }
}

fn occurrence(kind: FaultKind, host: usize, begun: Instant) -> Occurrence {
    Occurrence {
        label: kind.to_string(),
        begun,
        healed: Instant::now(),
        green_after: None,
        victims: Set::from_iter([host]),
        stall_max: kind.device_limit(),
        is_beyond: false,
        is_cut_short: false,
    }
}
