// SPDX-License-Identifier: Apache-2.0
//! A whole host: its peer listener fed with requests that are nearly right, a host that it dials
//! and that answers nearly right, and its operator's door.
//!
//! Whatever the other host says, this one goes on: its operator is answered at the end.

use crate::peer_links::{CLUSTER, hello};
use crate::streams::{send, take};
use crate::wire_frames::{frame, message, read};
use base::{
    ComponentId, GroupId, Incarnation, Lsn, ObjectId, Seat, SectorRange, Session, ShardId, Term,
};
use directory::{
    AliveRecord, Directory, GroupRecord, Level, MemoryBackend, ServerFaults, ShardRecord,
    Transaction, alive_key, host_key, serve_with,
};
use diskgroup::{CreateSizes, DiskGroup, GroupSpec};
use env::{Address, Env, Link};
use fuzz::{Source, within};
use host::{HostConfig, MemoryConfig, Node, NodeOptions, Tuning};
use operator::{Command, CommandReply, GroupConfig, NewVolume};
use sim::{HostKey, World, WorldOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use wire::{
    CopyHealth, Fenced, HEADER_LEN, Header, Message, OwnerId, Request, Response, Target, VERSION,
    WriteKind, crcs_of,
};

/// Bytes of memory that three machines and their buffers may take.
const MEMORY_MAX: u64 = 512 << 20;
const HOUR: Duration = Duration::from_secs(3600);
const CONTROL: &str = "/control.sock";

fuzz::targets! {
    host_asked: 150, Vec::new(), asked;
    host_answered: 100, Vec::new(), answered;
    host_control: 150, vec![br#"{"command":"status"}"#.to_vec()], controlled;
}

fn ip(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

fn address(number: u8) -> Address {
    Address::Tcp(SocketAddr::from((ip(number), 7000)))
}

fn config() -> HostConfig {
    HostConfig {
        name: "host1".to_owned(),
        id: 1,
        machine: None,
        cluster: CLUSTER,
        peer: "tcp:10.0.0.1:7000".to_owned(),
        nbd: vec!["unix:/nbd.sock".to_owned()],
        nbd_socket: host::SocketConfig::default(),
        control: format!("unix:{CONTROL}"),
        api: None,
        directory: "tcp:10.0.0.100:7000".to_owned(),
        etcd: Vec::new(),
        kind: host::ClusterKind::AllFlash,
        groups: vec![GroupConfig {
            cache: "cache".to_owned(),
            capacity: vec!["capacity".to_owned()],
            kind: None,
        }],
        memory: MemoryConfig::default(),
        tuning: Tuning { io_timeout_seconds: 5, stall_ms: 200, ..Tuning::default() },
    }
}

async fn serve_directory(env: Env) {
    let listener = env.listen(address(100)).await.expect("a listener");
    let inner = env.clone();
    let _founding = env.spawn("found", async move {
        host::found(&inner, address(100), CLUSTER, host::ClusterKind::AllFlash)
            .await
            .expect("an empty directory");
    });
    let (backend, faults) = (Rc::new(MemoryBackend::default()), ServerFaults::default());
    let end = serve_with(&env, listener, backend, faults).await;
    panic!("the directory ended: {end:?}");
}

async fn serve_host(env: Env) {
    let spec = GroupSpec { cache: "cache".to_owned(), capacity: vec!["capacity".to_owned()] };
    let sizes = CreateSizes { cache: 2 << 20, capacity: 80 << 20 };
    let made = DiskGroup::format_with(&env, &spec, Some(sizes), true, GroupId(1), 64 << 10).await;
    made.expect("new devices");
    let node = Node::start(&env, &config(), NodeOptions::default()).await;
    let _node = node.unwrap_or_else(|error| panic!("{error}"));
    std::future::pending::<()>().await;
}

async fn ask(env: &Env, command: Command) -> Option<CommandReply> {
    let link = env.dial(Address::Unix(CONTROL.to_owned())).await.ok()?;
    env.timeout(Duration::from_secs(30), host::call(env, &link, &command)).await.ok()?.ok()
}

/// Runs a host and beside it `other` on another machine, to its end; the host must live then.
fn with_host<F>(other: impl FnOnce(Env, Env) -> F + 'static)
where
    F: Future<Output = ()> + 'static,
{
    within(MEMORY_MAX, || {
        let world = World::new(WorldOptions { seed: 1, ..WorldOptions::default() });
        let directory = world.add_host("directory", ip(100));
        let (host, two) = (world.add_host("host1", ip(1)), world.add_host("host2", ip(2)));
        world.boot(directory, |env| Box::pin(serve_directory(env)));
        world.run_for(Duration::from_millis(50));
        world.boot(host, |env| Box::pin(serve_host(env)));
        answer_operator(&world, host);
        let env = world.env(host).expect("it runs");
        world.boot(two, |mine| Box::pin(other(mine, env)));
        assert!(world.run_until(HOUR, || world.is_finished(two)), "the other host never ends");
        world.run_for(Duration::from_secs(2));
        answer_operator(&world, host);
        world.kill(two);
        world.kill(host);
        world.kill(directory);
    });
}

/// Panics where the host does not answer its operator.
fn answer_operator(world: &World, host: HostKey) {
    let done = Rc::new(std::cell::Cell::new(false));
    let (flag, env) = (Rc::clone(&done), world.env(host).expect("it runs"));
    let inner = env.clone();
    let _task = env.spawn("operator", async move {
        while !matches!(ask(&inner, Command::Status).await, Some(CommandReply::Ok(_))) {
            inner.sleep(Duration::from_millis(20)).await;
        }
        flag.set(true);
    });
    assert!(world.run_until(HOUR, || done.get()), "the operator is not answered");
}

fn target(from: &mut Source<'_>) -> Target {
    let number = |from: &mut Source<'_>| match from.u8() {
        255 => from.edge(),
        small => u64::from(small % 2 + 1),
    };
    Target {
        object: ObjectId(number(from)),
        component: ComponentId(number(from)),
        term: Term(number(from) as u32 & 0xFF_FFFF),
        seat: Seat(number(from) as u32),
        session: Session(number(from) as u32),
    }
}

/// Requests that belong together often enough to get beyond the first check.
fn request(from: &mut Source<'_>, step: u64) -> Request {
    let target = target(from);
    let (object, component) = (target.object, target.component);
    let lsn = |from: &mut Source<'_>| match from.u8() % 4 {
        0 => Lsn(from.edge()),
        _ => Lsn::new(target.term, from.below(step + 2)),
    };
    let range = SectorRange::new(from.below(200), 1 + from.below(40));
    match from.u8() % 12 {
        0 | 1 => Request::CreateComponent { object, component, sectors: 1000 + from.edge() % 2000 },
        2..=4 => Request::Fence {
            target,
            version: base::Version(from.edge()),
            owner: OwnerId { shard: ShardId(2), incarnation: Incarnation(1) },
            create: from.flag().then_some(4096),
            claims: wire::Claims::NONE,
        },
        5..=7 => {
            let pool = env::Pool::default();
            let payload = pool.zeroed(range.bytes() as usize).freeze();
            Request::Write {
                target,
                lsn: Lsn::new(target.term, step),
                prev: lsn(from),
                commit: lsn(from),
                range,
                kind: WriteKind::Data,
                is_copy: from.flag(),
                marks: wire::Marks::NONE,
                crcs: crcs_of(range, &payload),
                payload,
            }
        }
        8 => Request::Read { target, range },
        9 => Request::ListChanged { target, since: lsn(from), cursor: from.edge() },
        10 => Request::CommitInfo { target, commit: lsn(from) },
        _ => match message(from) {
            Message::Request(request) => request,
            _ => Request::Renew { sent: base::Instant(from.edge()) },
        },
    }
}

fn asked(input: &[u8]) {
    let mut from = Source::new(input);
    let mut frames = hello(1);
    for step in 0..from.below(64) {
        frames.extend(frame(&Message::Request(request(&mut from, step)), step));
    }
    with_host(|env, _| async move {
        let link = env.dial(address(1)).await.expect("the host listens");
        let (_, taken) = env::join(send(&env, &link, &frames), take(&env, &link)).await;
        assert!(taken.len() >= HEADER_LEN, "not even an introduction");
    });
}

/// What a right host would answer, more or less.
fn answer(request: &Request, from: &mut Source<'_>) -> Response {
    if from.u8().is_multiple_of(8)
        && let Message::Response(response) = message(from)
    {
        return response;
    }
    match request {
        Request::Renew { sent } => {
            let ttl_ms = if from.u8().is_multiple_of(8) { from.edge() as u32 } else { 5000 };
            Response::Granted { sent: *sent, ttl_ms, grant_epoch: from.below(2) }
        }
        Request::Fence { target, version, .. } => Response::Fenced(Box::new(Fenced {
            seat: target.seat,
            version: *version,
            durable: Lsn(if from.u8().is_multiple_of(4) { from.edge() } else { 0 }),
            commit: Lsn(if from.u8().is_multiple_of(4) { from.edge() } else { 0 }),
            destaged: Lsn(if from.u8().is_multiple_of(4) { from.edge() } else { 0 }),
            grant_epoch: from.below(2),
            group: base::GroupId(from.below(2)),
            tail: Vec::new(),
            clients: base::ClientTable::default(),
            open: Vec::new(),
            health: [CopyHealth::Good, CopyHealth::Partial, CopyHealth::Lost][from.index(3)],
        })),
        Request::Write { lsn, .. } => Response::Durable { lsn: *lsn, free_chunks: from.u32() },
        Request::CreateComponent { .. } => {
            Response::Created { group: base::GroupId(from.below(2)) }
        }
        _ => Response::Done,
    }
}

/// Takes the calls of a host and answers each, for ever.
async fn answer_calls(env: &Env, link: &Link, input: &[u8]) {
    let mut from = Source::new(input);
    let mut held: Vec<u8> = Vec::new();
    if !send(env, link, &hello(1)).await {
        return;
    }
    loop {
        let Ok((buf, count)) = link.recv(env.buf(64 << 10), 0).await else { return };
        if count == 0 {
            return;
        }
        held.extend_from_slice(&buf[..count]);
        while let Some(header) = held.first_chunk::<HEADER_LEN>() {
            let length = Header::decode(header, Some(VERSION)).expect("a host's frame").frame_len();
            if held.len() < length {
                break;
            }
            let whole: Vec<u8> = held.drain(..length).collect();
            let (id, message) = read(&whole).expect("a host's frame");
            let reply = match message {
                Message::Request(request) => Message::Response(answer(&request, &mut from)),
                Message::Ping => Message::Pong,
                _ => continue,
            };
            if !send(env, link, &frame(&reply, id)).await {
                return;
            }
        }
    }
}

/// Joins the cluster as host 2, which has room.
async fn join(env: &Env) {
    let directory = Directory::connect(env, address(100));
    let record = ShardRecord {
        id: ShardId(2),
        name: "host2".to_owned(),
        peer_address: "tcp:10.0.0.2:7000".to_owned(),
        nbd_uri: String::new(),
        groups: vec![GroupRecord { id: GroupId(2), capacity_bytes: 1 << 40 }],
        machine: None,
    };
    let alive =
        AliveRecord { incarnation: Incarnation(1), free_bytes: 1 << 40, level: Level::FIRST };
    let put = Transaction::new()
        .put(host_key(ShardId(2)), record.encode())
        .put(alive_key(ShardId(2)), alive.encode());
    directory.transact(put).await.expect("a directory without faults");
}

fn answered(input: &[u8]) {
    let input = input.to_vec();
    with_host(|mine, theirs| async move {
        let listener = mine.listen(address(2)).await.expect("a listener");
        let (inner, tasks) = (mine.clone(), env::TaskSet::default());
        let _accept = mine.spawn("bad host", async move {
            while let Ok(link) = listener.accept().await {
                let (env, input) = (inner.clone(), input.clone());
                tasks.spawn(&inner, "bad link", async move {
                    answer_calls(&env, &link, &input).await;
                });
            }
        });
        join(&mine).await;
        let inner = theirs.clone();
        let _user = theirs.spawn("user", async move { use_volume(&inner).await });
        mine.sleep(Duration::from_secs(30)).await;
    });
}

/// Creates a volume with a copy on host 2 and writes to it, as far as that goes.
async fn use_volume(env: &Env) {
    env.sleep(Duration::from_millis(300)).await;
    let create = Command::VolumeCreate(NewVolume::new("vm", 4 << 20, 1));
    let _ = ask(env, create).await;
    let Ok(link) = env.dial(Address::Unix("/nbd.sock".to_owned())).await else { return };
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x08\0\0\0\x02vm\0\0");
    for offset in [0_u64, 4096, 0] {
        bytes.extend(b"\x25\x60\x95\x13\0\0\0\x01");
        bytes.extend([offset.to_be_bytes(), offset.to_be_bytes()].concat());
        bytes.extend(4096_u32.to_be_bytes());
        bytes.extend([7; 4096]);
    }
    bytes.extend(b"\x25\x60\x95\x13\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x20\0");
    let _ = send(env, &link, &bytes).await;
    let _ = env.timeout(Duration::from_secs(20), take(env, &link)).await;
    env.sleep(Duration::from_secs(10)).await;
}

fn controlled(input: &[u8]) {
    let lines = input.to_vec();
    // An operator may stop a host: it would not answer at the end.
    if String::from_utf8_lossy(&lines).contains("stop") {
        return;
    }
    with_host(|mine, theirs| async move {
        let inner = theirs.clone();
        let session = async move {
            let Ok(link) = inner.dial(Address::Unix(CONTROL.to_owned())).await else { return };
            let lines = [lines, b"\n".to_vec()].concat();
            let (_, taken) = env::join(send(&inner, &link, &lines), take(&inner, &link)).await;
            for line in taken.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                assert!(
                    serde_json::from_slice::<CommandReply>(line).is_ok(),
                    "an answer that is none"
                );
            }
        };
        let session = theirs.spawn("operator", session);
        while !session.is_finished() {
            mine.sleep(Duration::from_millis(100)).await;
        }
    });
}
