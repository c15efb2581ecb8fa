// SPDX-License-Identifier: Apache-2.0
//! One writing host at a time (rules 54 to 57), on whole hosts.

use super::*;
use host::Attached;
use operator::WriterReport;
use std::cell::Cell;

const BLOCK: u64 = 4096;

impl Cluster {
    fn attach(&self, index: usize) -> Attached {
        self.node(index).expect("it runs").exports().attach("db").expect("a volume")
    }

    /// Writes the first block through a host.
    fn write_first(&self, index: usize, device: &Attached, byte: u8) -> Result<(), VolumeError> {
        let device = device.clone();
        self.on(index, async move |env| {
            let mut block = env.buf(BLOCK as usize);
            block.fill(byte);
            device.write(0, block.freeze()).await
        })
    }

    /// What the first block holds, read through a host.
    fn first(&self, index: usize, device: &Attached) -> u8 {
        let device = device.clone();
        self.on(index, async move |_| {
            let read = device.read(0, BLOCK).await.expect("a read");
            read.iter().next().map_or(0, |piece| piece[0])
        })
    }

    fn take_over(&self, through: usize, host: &str) -> Result<WriterReport, String> {
        let (name, host) = ("db".to_owned(), host.to_owned());
        let volume = self.ask(through, Command::VolumeTakeOver { name, host })?;
        Ok(serde_json::from_value::<VolumeReport>(volume).expect("a volume").writer)
    }

    fn set_writers(&self, writers: Writers) -> Result<WriterReport, String> {
        let volume = self.ask(1, Command::VolumeWriters { name: "db".to_owned(), writers })?;
        Ok(serde_json::from_value::<VolumeReport>(volume).expect("a volume").writer)
    }

    fn writer(&self) -> WriterReport {
        let volumes = self.status(1).volumes;
        volumes.into_iter().next().expect("a volume").writer
    }

    /// Cuts a host off from the others and the directory, or connects it again.
    fn cut_off(&self, index: usize, is_cut: bool) {
        let key = self.machines[index].key;
        let others = (0..self.machines.len()).filter(|other| *other != index);
        others.for_each(|other| self.world.partition(key, self.machines[other].key, is_cut));
        self.world.partition(key, self.directory, is_cut);
    }

    /// Whether a host of this name comes to be the writer, or none.
    fn is_written_by(&self, host: Option<&str>) -> bool {
        self.world.run_until(Duration::from_secs(30), || {
            let volume = self.node(1).map(|_| self.records.volume("db"));
            let writer = volume.flatten().and_then(|volume| volume.writing.writer);
            writer.map(|writer| format!("host{}", writer.shard)).as_deref() == host
        })
    }
}

/// Three hosts, and a volume with two copies through which one host writes at a time.
fn start_with_one(seed: u64) -> Cluster {
    let cluster = start(seed);
    cluster.ask(0, Command::VolumeCreate(NewVolume::new("db", 16 * MIB, 1))).expect("room");
    cluster
}

#[test]
fn the_first_write_makes_its_host_the_writer_and_the_last_client_gives_that_back() {
    let cluster = start_with_one(241);
    assert_eq!((cluster.writer().writers, cluster.writer().host), (Writers::One, None));
    let (a, c) = (cluster.attach(0), cluster.attach(2));
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    assert_eq!(cluster.writer().host.as_deref(), Some("host1"));
    // Anybody reads; another host's write fails once it has waited.
    assert_eq!(cluster.first(2, &c), 1);
    let before = cluster.world.now();
    assert_eq!(cluster.write_first(2, &c, 2), Err(VolumeError::NotWriter));
    let waited = cluster.world.now().since(before);
    assert!((30..40).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(cluster.first(2, &c), 1);
    assert_eq!(cluster.write_first(0, &a, 3), Ok(()), "nobody took it away");
    // As when a machine moves: both ends are connected, then the old one leaves.
    drop(a);
    let before = cluster.world.now();
    assert_eq!(cluster.write_first(2, &c, 4), Ok(()));
    assert!(cluster.world.now().since(before) < Duration::from_secs(3), "soon");
    assert_eq!(cluster.writer().host.as_deref(), Some("host3"));
    drop(c);
    assert!(cluster.is_written_by(None));
}

#[test]
fn a_write_that_waits_goes_on_when_the_writer_leaves() {
    let cluster = start_with_one(242);
    let (a, c) = (cluster.attach(0), cluster.attach(2));
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    let env = cluster.world.env(cluster.machines[0].key).expect("it runs");
    let inner = env.clone();
    let _leaves = env.spawn("test", async move {
        inner.sleep(Duration::from_secs(10)).await;
        drop(a);
    });
    let before = cluster.world.now();
    assert_eq!(cluster.write_first(2, &c, 2), Ok(()));
    let waited = cluster.world.now().since(before);
    assert!((10..15).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(cluster.first(2, &c), 2);
}

#[test]
fn who_only_reads_keeps_no_volume_from_others() {
    let cluster = start_with_one(249);
    let (a, reader, c) = (cluster.attach(0), cluster.attach(0), cluster.attach(2));
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    assert_eq!(cluster.first(0, &reader), 1);
    drop(a);
    assert_eq!(cluster.write_first(2, &c, 2), Ok(()), "a backup goes on reading elsewhere");
    assert_eq!(cluster.writer().host.as_deref(), Some("host3"));
    assert_eq!(cluster.first(0, &reader), 2);
    // It is not shut out: it waits for its turn as any other.
    assert_eq!(cluster.write_first(0, &reader, 3), Err(VolumeError::NotWriter));
    drop(c);
    assert_eq!(cluster.write_first(0, &reader, 4), Ok(()));
}

#[test]
fn whose_run_is_over_is_no_writer_any_more() {
    let cluster = start_with_one(243);
    let a = cluster.attach(0);
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    drop(a);
    cluster.take_down(0, true);
    let c = cluster.attach(2);
    assert_eq!(cluster.write_first(2, &c, 2), Ok(()), "once its lease is over");
    assert_eq!(cluster.writer().host.as_deref(), Some("host3"));
}

#[test]
fn a_take_over_shuts_out_a_host_that_goes_on() {
    let cluster = start_with_one(244);
    let (a, b) = (cluster.attach(0), cluster.attach(1));
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    let refused = cluster.take_over(1, "host9").expect_err("no such host");
    assert!(refused.contains("no host 'host9'"), "{refused}");
    let writer = cluster.take_over(1, "host2").expect("all of them live");
    assert_eq!((writer.host.as_deref(), writer.waits_for), (Some("host2"), Vec::new()));
    assert_eq!(cluster.write_first(1, &b, 2), Ok(()));
    assert_eq!(cluster.write_first(0, &a, 3), Err(VolumeError::NotWriter));
    assert_eq!(cluster.first(0, &a), 2, "it may read");
    // The same again is done at once, and is no other epoch.
    assert_eq!(cluster.take_over(2, "host2").map(|again| again.epoch), Ok(writer.epoch));
    // Who was shut out stays so, also when its host may write again; who comes then is not.
    drop(b);
    let late = cluster.attach(0);
    assert_eq!(cluster.write_first(0, &late, 4), Ok(()));
    assert_eq!(cluster.writer().host.as_deref(), Some("host1"));
    assert_eq!(cluster.write_first(0, &a, 5), Err(VolumeError::NotWriter));
    assert_eq!(cluster.first(0, &a), 4);
}

#[test]
fn a_client_that_comes_while_its_host_gives_the_volume_back_is_not_shut_out() {
    let cluster = start_with_one(248);
    for round in 0..40 {
        let a = cluster.attach(0);
        assert_eq!(cluster.write_first(0, &a, round), Ok(()), "round {round}");
        drop(a);
        cluster.world.run_for(Duration::from_millis(u64::from(round)));
    }
}

#[test]
fn what_a_host_sent_that_is_cut_off_takes_no_effect_after_the_take_over() {
    let cluster = start_with_one(245);
    let (a, b) = (cluster.attach(0), cluster.attach(1));
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    cluster.cut_off(0, true);
    let env = cluster.world.env(cluster.machines[0].key).expect("it runs");
    let (outcome, device, inner) = (Rc::new(Cell::new(None)), a.clone(), env.clone());
    let place = Rc::clone(&outcome);
    let _late = env.spawn("test", async move {
        let mut block = inner.buf(BLOCK as usize);
        block.fill(9);
        place.set(Some(device.write(0, block.freeze()).await));
    });
    // Its objects get another owner once its lease is over; until then the command says so.
    let done = (0..10).find_map(|_| cluster.take_over(1, "host2").ok());
    assert!(done.is_some_and(|writer| writer.host.as_deref() == Some("host2")));
    assert_eq!(cluster.write_first(1, &b, 2), Ok(()));
    cluster.cut_off(0, false);
    cluster.world.run_for(Duration::from_secs(90));
    assert!(outcome.get().is_some_and(|outcome| outcome.is_err()), "{:?}", outcome.get());
    assert_eq!(cluster.first(1, &b), 2, "what was sent before is not there");
}

#[test]
fn a_volume_in_use_comes_to_have_one_writer_and_to_have_any() {
    let cluster = start(246);
    let new = NewVolume { writers: Some(Writers::Any), ..NewVolume::new("db", 16 * MIB, 1) };
    cluster.ask(0, Command::VolumeCreate(new)).expect("there is room");
    let (a, c) = (cluster.attach(0), cluster.attach(2));
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    assert_eq!(cluster.write_first(2, &c, 2), Ok(()));
    let refused = cluster.take_over(0, "host1").expect_err("any host writes");
    assert!(refused.contains("--writers one"), "{refused}");
    assert_eq!(cluster.set_writers(Writers::One).expect("it can").host, None);
    assert_eq!(cluster.write_first(2, &c, 3), Ok(()), "the first one to write");
    assert_eq!(cluster.write_first(0, &a, 4), Err(VolumeError::NotWriter));
    cluster.grow("db", 24 * MIB).expect("there is room");
    assert_eq!(cluster.set_writers(Writers::Any).expect("it can").host, None);
    assert_eq!(cluster.write_first(0, &a, 5), Ok(()));
    assert_eq!(cluster.write_first(2, &c, 6), Ok(()));
    assert_eq!(cluster.first(0, &a), 6);
}

#[test]
fn a_volume_of_many_objects_is_taken_over_as_a_whole() {
    let cluster = start_with_one(247);
    let a = cluster.attach(0);
    for _ in 0..5 {
        let size = cluster.status(1).volumes[0].size_bytes;
        cluster.grow("db", size + 8 * MIB).expect("there is room");
    }
    assert_eq!(cluster.write_first(0, &a, 1), Ok(()));
    let writer = cluster.take_over(2, "host3").expect("all of them live");
    let volume = cluster.records.volume("db").expect("it is there");
    assert!(volume.objects.len() >= 6);
    let epochs: Vec<_> = volume.objects.iter().map(|id| cluster.records.of_id(*id)).collect();
    let has = |object: &Option<directory::ObjectRecord>| {
        object.as_ref().is_some_and(|object| object.writer_epoch.0 == writer.epoch)
    };
    assert!(epochs.iter().all(has), "{epochs:?}");
    let c = cluster.attach(2);
    let end = cluster.status(1).volumes[0].size_bytes - BLOCK;
    let last = cluster.on(2, async move |env| {
        let mut block = env.buf(BLOCK as usize);
        block.fill(7);
        c.write(end, block.freeze()).await
    });
    assert_eq!(last, Ok(()), "the newest object has the epoch too");
}

/// The writer changes by itself: acceptance had a command that failed since a client had just left.
#[test]
fn commands_do_not_fail_because_clients_that_write_come_and_go() {
    let turns: Vec<u32> = (249..253).map(clients_beside_commands).collect();
    assert!(turns.iter().sum::<u32>() > 40, "{turns:?} clients");
}

/// How many clients came and went meanwhile.
fn clients_beside_commands(seed: u64) -> u32 {
    let cluster = start_with_one(seed);
    cluster.world.run_for(Duration::from_secs(2)); // until all hosts know the volume
    let node = cluster.node(2).expect("it runs");
    let env = cluster.world.env(cluster.machines[2].key).expect("it runs");
    let (inner, stop, turns) = (env.clone(), Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (is_over, count) = (Rc::clone(&stop), Rc::clone(&turns));
    let end = Rc::new(RefCell::new(None));
    let place = Rc::clone(&end);
    let clients = env.spawn("test", async move {
        while !is_over.get() {
            let attached = node.exports().attach("db").map_err(|error| error.to_string());
            let Ok(device) = attached else {
                return *place.borrow_mut() = attached.err();
            };
            let mut block = inner.buf(BLOCK as usize);
            block.fill(7);
            if let Err(error) = device.write(0, block.freeze()).await {
                return *place.borrow_mut() = Some(error.to_string()); // the volume is deleted
            }
            drop(device);
            count.set(count.get() + 1);
            inner.sleep(Duration::from_millis(1)).await;
        }
    });
    for at in 0..100 {
        let name = || "db".to_owned();
        let set = [("env".to_owned(), format!("v{at}"))].into_iter().collect();
        let commands = [
            Command::VolumeLabel { name: name(), set, remove: Vec::new() },
            Command::VolumeChange { name: name(), reserve_percent: at % 2 * 10 },
        ];
        for command in commands {
            cluster.ask(0, command).expect("nobody else changes that");
        }
    }
    assert_eq!(*end.borrow(), None, "clients are let in, and write");
    let delete = Command::VolumeDelete { name: "db".to_owned(), for_good: false };
    cluster.ask(0, delete).expect("nobody of this host uses it");
    stop.set(true);
    cluster.world.run_for(Duration::from_secs(60));
    drop(clients);
    turns.get()
}
