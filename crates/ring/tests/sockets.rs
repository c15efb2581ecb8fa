// SPDX-License-Identifier: Apache-2.0
//! Socket files: who may call, and what is told of the caller.

use env::{Access, Address, Caller, Env, Fifo, IoError, join};
use ring::RingDriver;
use rustix::fs::Mode;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Env) -> F) {
    let env = Env::new(Box::new(RingDriver::new().expect("a ring")), Box::new(Fifo));
    env.run(test(env.clone()));
}

/// A user and a group that nobody has here. Only root can give files to them.
const OTHERS: (u32, u32) = (64_055, 64_056);

/// This is one test, because the umask belongs to the whole process.
#[test]
fn a_socket_file_is_as_open_as_asked_whatever_the_umask() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("sockets-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let is_root = rustix::process::geteuid().is_root();
    let given = |mode| Access { mode, owner: Some(OTHERS.0), group: Some(OTHERS.1) };
    let own = |mode| Access { mode, owner: None, group: None };
    for umask in [0o000, 0o022, 0o077, 0o777] {
        let before = rustix::process::umask(Mode::from_raw_mode(umask));
        for access in [Access::default(), own(0o666), own(0o640), given(0o660), given(0o606)] {
            let path = folder.join(format!("{umask:o}-{:o}-{:?}", access.mode, access.owner));
            let at = Address::Unix(path.to_str().expect("UTF-8").to_owned());
            run(move |env| async move {
                let listening = env.listen_for(at, access).await;
                if access.owner.is_some() && !is_root {
                    assert_eq!(listening.err(), Some(IoError::Denied));
                    assert!(!path.exists(), "nothing is left of it");
                    return;
                }
                let _listener = listening.expect("a listener");
                let found = fs::metadata(&path).expect("a socket file");
                assert_eq!(found.mode() & 0o7777, access.mode, "umask {umask:o}");
                if access.owner.is_some() {
                    assert_eq!((found.uid(), found.gid()), OTHERS);
                }
            });
        }
        rustix::process::umask(before);
    }
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_listener_knows_who_calls() {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("caller-{}", std::process::id()));
    let unix = Address::Unix(path.to_str().expect("UTF-8").to_owned());
    let user = rustix::process::geteuid().as_raw();
    run(move |env| async move {
        let local = Address::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        for (at, who) in
            [(unix, Caller::User(user)), (local, Caller::Remote(Ipv4Addr::LOCALHOST.into()))]
        {
            let listener = env.listen(at).await.expect("a listener");
            let dial = env.dial(listener.address().clone());
            let (dialled, accepted) = join(dial, listener.accept_from()).await;
            dialled.expect("a link");
            assert_eq!(accepted.expect("a caller").1, who);
        }
    });
}
