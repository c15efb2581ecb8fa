// SPDX-License-Identifier: Apache-2.0
//! Devices that go away without an error: a file that was deleted or cut off, a device node that
//! leads elsewhere now. Whoever has it open writes on as if nothing had been, and what it wrote is
//! gone with the process: the group stops taking writes while others still have all of it.

use crate::state::Inner;
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks at all devices until the group is over.
pub(crate) async fn watch(inner: Rc<Inner>) {
    loop {
        inner.env.sleep(LOOK_EVERY).await;
        if inner.check_open().is_err() {
            return;
        }
        let cache = std::iter::once((&inner.cache_path, &inner.cache));
        let capacity = inner.devices.iter().map(|device| (&device.path, &device.disk));
        for (path, disk) in cache.chain(capacity) {
            if let Err(error) = disk.look(path).await {
                let _ = inner.fence(path, &error);
                return;
            }
        }
    }
}
