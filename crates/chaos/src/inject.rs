// SPDX-License-Identifier: Apache-2.0
//! Faults done to the cluster and taken away again.

use crate::cluster::RealCluster;
use crate::fault::{DueFault, FaultKind, HOSTS};
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};

/// A flapping link is down for so long, then up for as long, and so on.
const FLAP: Duration = Duration::from_millis(150);

/// A fault in force.
#[derive(Debug)]
pub struct Active {
    fault: DueFault,
    /// The member of etcd that it hits.
    member: usize,
    is_down: bool,
    turned: Instant,
}

impl Active {
    /// Begins the fault.
    ///
    /// # Errors
    /// A command failed.
    pub fn begin(cluster: &mut RealCluster, fault: DueFault) -> Result<Self> {
        let (host, other) = (fault.host, fault.other);
        // Without a leader any member will do.
        let leader = || cluster.etcd.leader(&cluster.network).unwrap_or(host);
        let member = match fault.kind {
            FaultKind::EtcdLeader => leader(),
            FaultKind::EtcdMember => (leader() + 1) % HOSTS,
            _ => host,
        };
        match fault.kind {
            FaultKind::Kill | FaultKind::Gone => cluster.kill(&[host]),
            FaultKind::TwoKilled => cluster.kill(&[host, other]),
            FaultKind::AllKilled => cluster.kill(&[0, 1, 2]),
            FaultKind::Stop | FaultKind::LongStop => cluster.stand_still(host, true)?,
            FaultKind::Silent | FaultKind::Flapping => cluster.network.set_link(host, false)?,
            FaultKind::Partition => {
                cluster.network.cut(host, other)?;
                cluster.network.cut(other, host)?;
            }
            FaultKind::OneWay => cluster.network.cut(host, other)?,
            FaultKind::Netem => cluster.network.disturb(true)?,
            FaultKind::EtcdLeader | FaultKind::EtcdMember => cluster.etcd.kill(member),
            FaultKind::EtcdStopped => cluster.etcd.stand_still(true)?,
            FaultKind::EtcdKilled => (0..HOSTS).for_each(|member| cluster.etcd.kill(member)),
            FaultKind::FlipUp
            | FaultKind::FlipDown
            | FaultKind::Unlink
            | FaultKind::Truncate
            | FaultKind::Full => {
                unreachable!("devices have a phase of their own")
            }
        }
        Ok(Self { fault, member, is_down: true, turned: Instant::now() })
    }

    /// Does what the fault needs while it lasts.
    ///
    /// # Errors
    /// A command failed.
    pub fn turn(&mut self, cluster: &RealCluster) -> Result<()> {
        if self.fault.kind == FaultKind::Flapping && self.turned.elapsed() >= FLAP {
            cluster.network.set_link(self.fault.host, self.is_down)?;
            self.is_down = !self.is_down;
            self.turned = Instant::now();
        }
        Ok(())
    }

    /// Ends the fault.
    ///
    /// # Errors
    /// A command failed.
    pub fn end(self, cluster: &mut RealCluster) -> Result<()> {
        let (host, other) = (self.fault.host, self.fault.other);
        match self.fault.kind {
            FaultKind::Kill | FaultKind::Gone => cluster.start(host),
            FaultKind::TwoKilled => cluster.start(host).and_then(|()| cluster.start(other)),
            FaultKind::AllKilled => (0..HOSTS).try_for_each(|host| cluster.start(host)),
            FaultKind::Stop | FaultKind::LongStop => cluster.stand_still(host, false),
            FaultKind::Silent | FaultKind::Flapping => cluster.network.set_link(host, true),
            FaultKind::Partition => {
                cluster.network.join(host, other)?;
                cluster.network.join(other, host)
            }
            FaultKind::OneWay => cluster.network.join(host, other),
            FaultKind::Netem => cluster.network.disturb(false),
            FaultKind::EtcdLeader | FaultKind::EtcdMember => {
                cluster.etcd.start_member(&cluster.network, self.member)
            }
            FaultKind::EtcdStopped => cluster.etcd.stand_still(false),
            FaultKind::EtcdKilled => {
                (0..HOSTS).try_for_each(|m| cluster.etcd.start_member(&cluster.network, m))
            }
            FaultKind::FlipUp
            | FaultKind::FlipDown
            | FaultKind::Unlink
            | FaultKind::Truncate
            | FaultKind::Full => Ok(()),
        }
    }
}

/// Runs the faults of a round, each at its time. Returns when the last one has ended, or soon after
/// `is_over` says that the campaign is.
///
/// # Errors
/// A command failed. Faults that had begun are ended all the same, where that is possible.
pub fn run(
    cluster: &mut RealCluster,
    faults: &[DueFault],
    is_over: &dyn Fn() -> bool,
) -> Result<()> {
    let begun = Instant::now();
    let mut waiting: Vec<_> = faults.to_vec();
    let mut active: Vec<Active> = Vec::new();
    while !waiting.is_empty() || !active.is_empty() {
        let now = begun.elapsed();
        if is_over() {
            waiting.clear();
        }
        if let Some(at) = waiting.iter().position(|fault| fault.after <= now) {
            active.push(Active::begin(cluster, waiting.remove(at))?);
            continue;
        }
        let is_due = |active: &Active| is_over() || active.fault.after + active.fault.hold <= now;
        if let Some(at) = active.iter().position(is_due) {
            active.remove(at).end(cluster)?;
            continue;
        }
        active.iter_mut().try_for_each(|active| active.turn(cluster))?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
