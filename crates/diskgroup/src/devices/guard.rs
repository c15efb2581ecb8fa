// SPDX-License-Identifier: Apache-2.0
//! Devices that leave an I/O unanswered are given up, so that whoever waits for them gets an error.

use crate::types::{GroupError, device_error};
use env::{Disk, Env, IoError};
use std::time::Duration;

/// Time between two looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look that comes so much too late says that the host stood still, or has too little CPU: what
/// it would say of devices would be about the host.
pub(crate) const LATE: Duration = Duration::from_millis(250);

/// Whether a device has left an I/O unanswered for so long.
pub(crate) fn is_stuck(disk: &Disk, most: Duration) -> bool {
    let most = most.as_nanos().div_ceil(LOOK_EVERY.as_nanos());
    let most = u32::try_from(most).unwrap_or(u32::MAX).min(env::LOOKS_MAX - 1);
    // An operation may have begun just before the first look that it has been through.
    disk.meter().looks_waited().is_some_and(|looks| looks > most)
}

/// Does `work` on devices that no group looks after yet: one that leaves an I/O unanswered for so
/// long is given up, so that the work ends with an error.
pub(crate) async fn guarded<T>(
    env: &Env,
    disks: &[&Disk],
    most: Duration,
    work: impl Future<Output = T>,
) -> T {
    let look = async {
        loop {
            let due = env.now() + LOOK_EVERY;
            env.sleep_until(due).await;
            let now = env.now();
            let is_late = now.since(due) > LATE;
            for disk in disks.iter().filter(|disk| !disk.meter().is_given_up()) {
                if is_late {
                    disk.meter().restart(now);
                    continue;
                }
                disk.meter().look();
                if is_stuck(disk, most) {
                    base::hit(base::Probe::DeviceStuck);
                    disk.give_up();
                }
            }
        }
    };
    match env::select(work, look).await {
        env::Either::First(result) => result,
        env::Either::Second(never) => never,
    }
}

/// As [`guarded`], with one device. What stands twice is read from its second place where the first
/// does not answer, so the work may end well on a device that was given up: nothing can be done
/// with that one any more.
pub(crate) async fn guarded_by<T>(
    env: &Env,
    (path, disk): (&str, &Disk),
    most: Duration,
    work: impl Future<Output = Result<T, GroupError>>,
) -> Result<T, GroupError> {
    let done = guarded(env, &[disk], most, work).await?;
    answers(path, disk).map(|()| done)
}

/// Refuses a device that was given up.
pub(super) fn answers(path: &str, disk: &Disk) -> Result<(), GroupError> {
    match disk.meter().is_given_up() {
        true => Err(device_error(path)(IoError::NoAnswer)),
        false => Ok(()),
    }
}
