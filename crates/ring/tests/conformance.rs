// SPDX-License-Identifier: Apache-2.0
//! The driver conformance suite, on the real kernel: a file, Unix sockets, TCP on loopback.

use devicemodel::{DeviceModel, SlowedDriver};
use env::{Address, Env, Fifo, conformance};
use ring::RingDriver;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a UTF-8 path").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the folder goes");
    }
}

fn new_env() -> Env {
    let driver = RingDriver::new().expect("a ring");
    Env::new(Box::new(driver), Box::new(Fifo))
}

#[test]
fn disks() {
    let folder = Folder::new("disks");
    let (env, path) = (new_env(), folder.path("disk"));
    let inner = env.clone();
    env.run(async move { conformance::disk(&inner, &path).await });
    env.stop();
}

#[test]
fn disks_that_behave_as_slower_ones() {
    slowed("magnetic", DeviceModel::Magnetic);
    let latency = Duration::from_micros(300);
    slowed("late", DeviceModel::Late { latency, bytes_per_second: 100 << 20 });
}

fn slowed(name: &str, model: DeviceModel) {
    let folder = Folder::new(name);
    let path = folder.path("disk");
    let mut driver = SlowedDriver::new(RingDriver::new().expect("a ring"));
    driver.behave_as(&path, model);
    let env = Env::new(Box::new(driver), Box::new(Fifo));
    let inner = env.clone();
    env.run(async move { conformance::disk(&inner, &path).await });
    env.stop();
}

#[test]
fn networks() {
    let folder = Folder::new("networks");
    let env = new_env();
    let unix = Address::Unix(folder.path("socket"));
    let tcp = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let inner = env.clone();
    env.run(async move { conformance::network(&inner, unix, tcp).await });
    env.stop();
    assert!(!folder.0.join("socket").exists(), "a closed listener's socket file stays");
}

#[test]
fn timers() {
    let env = new_env();
    let inner = env.clone();
    env.run(async move { conformance::timers(&inner).await });
}

#[test]
fn what_begins_after_a_pause_counts_from_then() {
    let env = new_env();
    let now = |env: &Env| {
        let inner = env.clone();
        env.run(async move { inner.now() })
    };
    let before = now(&env);
    let pause = Duration::from_millis(20);
    std::thread::sleep(pause);
    assert!(now(&env).since(before) >= pause);
}
