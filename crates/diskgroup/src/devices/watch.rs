// SPDX-License-Identifier: Apache-2.0
//! Devices that go away without an error: a file that was deleted or cut off, a device node that
//! leads elsewhere now. Whoever has it open writes on as if nothing had been, and what it wrote is
//! gone with the process: the group stops taking writes while others still have all of it.

use crate::devices::superblock::ANSWER_MAX;
use crate::state::GroupInner;
use base::format_size;
use env::{Disk, IoError};
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A path that leads nowhere may be one that is being made anew, as device managers do with links.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks at all devices until the group is over: at where they are, and at how they answer.
pub(crate) async fn watch(inner: Rc<GroupInner>) {
    env::join(look_at_paths(Rc::clone(&inner)), super::health::watch(inner)).await;
}

async fn look_at_paths(inner: Rc<GroupInner>) {
    loop {
        inner.env.sleep(LOOK_EVERY).await;
        if inner.check_open().is_err() {
            return;
        }
        let cache = std::iter::once((&inner.cache_path, &inner.cache));
        let devices = inner.devices.iter().filter(|device| !device.is_out());
        let capacity = devices.map(|device| (&device.path, device.disk()));
        for (path, disk) in cache.chain(capacity) {
            if look(&inner, disk, path).await.is_ok() {
                continue;
            }
            inner.env.sleep(LOOK_AGAIN).await;
            if let Err(error) = look(&inner, disk, path).await {
                let _ = inner.fence_as(path, &what_is_wrong(error), true);
                return;
            }
        }
    }
}

/// A look that does not end, or never begins, says nothing of the path: whether the device answers
/// its I/O is watched apart.
async fn look(inner: &GroupInner, disk: &Disk, path: &str) -> Result<(), IoError> {
    match inner.env.timeout(ANSWER_MAX, disk.look(path)).await {
        Err(_) | Ok(Err(IoError::Overloaded)) => Ok(()),
        Ok(seen) => seen,
    }
}

fn what_is_wrong(error: IoError) -> String {
    match error {
        IoError::NotFound => "not what stands at this path any more".to_owned(),
        IoError::Short { done, wanted } => {
            format!("cut off, {} of {} are left", format_size(done), format_size(wanted))
        }
        error => error.to_string(),
    }
}
