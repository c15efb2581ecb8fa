// SPDX-License-Identifier: Apache-2.0
//! The handshake: what is agreed, what is refused, and what ends the connection.
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

mod common;

use common::client::{ACK, Client, ERR, STRUCTURED, go_data, meta_data, option, string};
use common::world::run;

const SIZE: u64 = 1 << 30;

async fn greeted(world: &common::world::World) -> Client {
    let mut client = Client::connect(&world.env, &world.unix).await;
    client.send(&3u32.to_be_bytes()).await.unwrap();
    client
}

#[test]
fn options_are_answered_as_the_protocol_says() {
    run(1, SIZE, |world| async move {
        let mut client = greeted(&world).await;
        let refused = |answers: Vec<(u32, Vec<u8>)>| answers.last().unwrap().0 - ERR;
        assert_eq!(refused(client.ask(5, &[]).await), 1, "STARTTLS is unsupported");
        assert_eq!(refused(client.ask(4711, &[1; 100]).await), 1, "unknown is unsupported");
        assert_eq!(refused(client.ask(7, &[0; 20_000]).await), 9, "too big");
        assert_eq!(refused(client.ask(7, &go_data("nope", &[])).await), 6, "unknown export");
        assert_eq!(refused(client.ask(6, &go_data("", &[])).await), 6, "no default of three");
        for name in ["disk@", "disk@a/b", "disk@a@b", "nope@a", &format!("disk@{:065}", 0)] {
            assert_eq!(refused(client.ask(6, &go_data(name, &[])).await), 6, "{name}");
        }
        let infos = client.ask(6, &go_data("disk@web-1", &[1])).await;
        assert_eq!(infos[2].1, b"\0\x01disk", "a client's name is no part of the export's");
        assert_eq!(refused(client.ask(7, b"\0\0\0\x10abc").await), 3, "cut short");
        assert_eq!(refused(client.ask(7, &[go_data("disk", &[]), vec![0]].concat()).await), 3);
        assert_eq!(refused(client.ask(3, &[0]).await), 3, "LIST has no data");
        let early = client.ask(10, &meta_data("disk", &["base:allocation"])).await;
        assert_eq!(refused(early), 3, "contexts need structured replies");
        assert_eq!(refused(client.ask(STRUCTURED, &[0]).await), 3);
        assert_eq!(client.ask(STRUCTURED, &[]).await, [(ACK, vec![])]);
        assert_eq!(refused(client.ask(9, &meta_data("nope", &[])).await), 6);
        let listed = client.ask(9, &meta_data("disk", &[])).await;
        assert_eq!(&listed[0].1[4..], b"base:allocation");
        let listed = client.ask(9, &meta_data("disk", &["base:"])).await;
        assert_eq!(listed.len(), 2);
        let selected = client.ask(10, &meta_data("disk", &["base:", "qemu:x"])).await;
        assert_eq!(selected, [(ACK, vec![])], "SET knows no wildcard");
        let names = client.ask(3, &[]).await;
        let all = ["disk", "other", "alone"].map(|name| (2, string(name)));
        assert_eq!(names, [all.as_slice(), &[(ACK, vec![])]].concat());
        let infos = client.ask(6, &go_data("disk", &[1, 2, 3])).await;
        assert_eq!(infos.len(), 5);
        assert_eq!(infos[0].1[2..10], SIZE.to_be_bytes());
        let sizes = [512u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
        assert_eq!(infos[1].1, [&[0, 3], sizes.as_slice()].concat());
        assert_eq!(infos[2].1, b"\0\x01disk");
        client.go("disk").await.unwrap();
        assert_eq!(client.size, SIZE);
        assert_ne!(client.flags & 1 << 8, 0, "CAN_MULTI_CONN over a Unix socket (rule 47)");
        assert_ne!(client.flags & 1 << 7, 0, "DF with structured replies");
        client.is_structured = true;
        assert_eq!(client.call(7, 0, 0, 4096).await.error, 22, "no context was selected");
    });
}

#[test]
fn the_old_way_in_works() {
    run(1, SIZE, |world| async move {
        for (flags, tail) in [(1u32, 134), (3, 10)] {
            let mut client = Client::connect(&world.env, &world.unix).await;
            client.send(&flags.to_be_bytes()).await.unwrap();
            client.send(&option(1, b"disk")).await.unwrap();
            let export = client.take(tail).await.unwrap();
            assert_eq!(export[..8], SIZE.to_be_bytes());
            assert_eq!(client.write(0, 512, &[7; 512]).await.error, 0);
            assert_eq!(client.call(0, 0, 512, 512).await.data, [7; 512]);
        }
        let mut client = greeted(&world).await;
        client.send(&option(1, b"nope")).await.unwrap();
        assert!(client.is_closed().await, "EXPORT_NAME has no error reply");
        let mut client = greeted(&world).await;
        assert_eq!(client.ask(2, &[]).await, [(ACK, vec![])]);
        assert!(client.is_closed().await, "ABORT ends");
    });
}

#[test]
fn nonsense_ends_the_connection_and_is_counted() {
    run(1, SIZE, |world| async move {
        let mut client = Client::connect(&world.env, &world.unix).await;
        client.send(&0x80u32.to_be_bytes()).await.unwrap();
        assert!(client.is_closed().await, "unknown client flags");
        let mut client = greeted(&world).await;
        client.send(&[0x55; 16]).await.unwrap();
        assert!(client.is_closed().await, "wrong option magic");
        let mut client = greeted(&world).await;
        let mut huge = option(7, &[]);
        huge[12..16].copy_from_slice(&(2u32 << 20).to_be_bytes());
        client.send(&huge).await.unwrap();
        assert!(client.is_closed().await, "an option beyond all measure");
        let mut client = Client::open(&world.env, &world.unix, "disk", true).await;
        client.send(&[0x55; 28]).await.unwrap();
        assert!(client.is_closed().await, "wrong request magic");
        world.env.yield_now().await;
        assert_eq!(world.server.stats().malformed, 4);
        assert_eq!(world.server.stats().connections, 0);
        assert_eq!(world.device.held(), 2, "the device is let go");
    });
}
