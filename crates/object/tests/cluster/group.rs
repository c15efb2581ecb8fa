// SPDX-License-Identifier: Apache-2.0
//! The disk group of a host: made in its first run, opened in every one.

use crate::cluster::Host;
use base::GroupId;
use diskgroup::{CreateSizes, DiskGroup, GroupOptions, GroupSpec};
use env::Env;
use std::rc::Rc;

pub async fn open_group(env: &Env, host: &Rc<Host>) -> DiskGroup {
    let spec = GroupSpec { cache: "cache".to_owned(), capacity: vec!["capacity".to_owned()] };
    if !host.is_formatted.get() {
        let sizes = CreateSizes { cache: 256 << 20, capacity: 1 << 30 };
        let id = GroupId(u64::from(host.id.0));
        DiskGroup::format(env, &spec, Some(sizes), true, id).await.expect("formats");
        host.is_formatted.set(true);
    }
    DiskGroup::open(env, &spec, GroupOptions::default()).await.expect("opens")
}
