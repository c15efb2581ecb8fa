// SPDX-License-Identifier: Apache-2.0
//! The handshake: what is agreed, what is refused, and what ends the connection.
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

mod common;

use common::world::run;
use nbd::numbers::{BASE_ALLOCATION, command, info, option as options, reply, transmission};
use nbdclient::LinkClient;
use nbdclient::frames::{go_data, meta_data, option, string};

const SIZE: u64 = 1 << 30;
/// What every export can do, by the bits of the protocol: flags at all, FLUSH, FUA, TRIM,
/// WRITE_ZEROES, CACHE and FAST_ZERO.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 10 | 1 << 11;

async fn greeted(world: &common::world::World) -> LinkClient {
    LinkClient::greeted(&world.env, &world.unix).await
}

/// The number of the error with which an option is refused.
async fn refused(client: &mut LinkClient, option: u32, data: &[u8]) -> u32 {
    client.ask(option, data).await.last().unwrap().0 - reply::ERR
}

#[test]
fn what_makes_no_sense_is_refused_as_the_protocol_says() {
    run(1, SIZE, |world| async move {
        let client = &mut greeted(&world).await;
        assert_eq!(refused(client, 5, &[]).await, 1, "STARTTLS is unsupported");
        assert_eq!(refused(client, 4711, &[1; 100]).await, 1, "unknown is unsupported");
        assert_eq!(refused(client, options::GO, &[0; 20_000]).await, 9, "too big");
        assert_eq!(refused(client, options::GO, &go_data("nope", &[])).await, 6, "unknown export");
        let nameless = go_data("", &[]);
        assert_eq!(refused(client, options::INFO, &nameless).await, 6, "no default of three");
        for name in ["disk@", "disk@a/b", "disk@a@b", "nope@a", &format!("disk@{:065}", 0)] {
            assert_eq!(refused(client, options::INFO, &go_data(name, &[])).await, 6, "{name}");
        }
        assert_eq!(refused(client, options::GO, b"\0\0\0\x10abc").await, 3, "cut short");
        let longer = [go_data("disk", &[]), vec![0]].concat();
        assert_eq!(refused(client, options::GO, &longer).await, 3);
        assert_eq!(refused(client, options::LIST, &[0]).await, 3, "LIST has no data");
        let context = meta_data("disk", &[BASE_ALLOCATION]);
        let early = refused(client, options::SET_META_CONTEXT, &context).await;
        assert_eq!(early, 3, "contexts need structured replies");
        assert_eq!(refused(client, options::STRUCTURED_REPLY, &[0]).await, 3);
        client.ask(options::STRUCTURED_REPLY, &[]).await;
        let unknown = meta_data("nope", &[]);
        assert_eq!(refused(client, options::LIST_META_CONTEXT, &unknown).await, 6);
        client.go("disk").await.unwrap();
    });
}

#[test]
fn options_are_answered_as_the_protocol_says() {
    run(1, SIZE, |world| async move {
        let client = &mut greeted(&world).await;
        let infos = client.ask(options::INFO, &go_data("disk@web-1", &[info::NAME])).await;
        assert_eq!(infos[2].1, b"\0\x01disk", "a client's name is no part of the export's");
        assert_eq!(client.ask(options::STRUCTURED_REPLY, &[]).await, [(reply::ACK, vec![])]);
        let listed = client.ask(options::LIST_META_CONTEXT, &meta_data("disk", &[])).await;
        assert_eq!(&listed[0].1[4..], BASE_ALLOCATION.as_bytes());
        let listed = client.ask(options::LIST_META_CONTEXT, &meta_data("disk", &["base:"])).await;
        assert_eq!(listed.len(), 2);
        let queries = meta_data("disk", &["base:", "qemu:x"]);
        let selected = client.ask(options::SET_META_CONTEXT, &queries).await;
        assert_eq!(selected, [(reply::ACK, vec![])], "SET knows no wildcard");
        let names = client.ask(options::LIST, &[]).await;
        let all = ["disk", "other", "alone"].map(|name| (reply::SERVER, string(name)));
        assert_eq!(names, [all.as_slice(), &[(reply::ACK, vec![])]].concat());
        let wanted = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE];
        let infos = client.ask(options::INFO, &go_data("disk", &wanted)).await;
        assert_eq!(infos.len(), 5);
        assert_eq!(infos[0].1[2..10], SIZE.to_be_bytes());
        let sizes = [512u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
        assert_eq!(infos[1].1, [&[0, 3], sizes.as_slice()].concat());
        assert_eq!(infos[2].1, b"\0\x01disk");
        client.go("disk").await.unwrap();
        assert_eq!(client.size, SIZE);
        // CAN_MULTI_CONN over a Unix socket (rule 47), DF with structured replies.
        let more = transmission::CAN_MULTI_CONN | transmission::SEND_DF;
        assert_eq!(client.flags, FLAGS | more);
        client.is_structured = true;
        let status = client.call(command::BLOCK_STATUS, 0, 0, 4096).await;
        assert_eq!(status.errno, 22, "no context was selected");
    });
}

#[test]
fn the_old_way_in_works() {
    run(1, SIZE, |world| async move {
        for (flags, tail) in [(1u32, 134), (3, 10)] {
            let mut client = LinkClient::connect(&world.env, &world.unix).await;
            client.send(&flags.to_be_bytes()).await.unwrap();
            client.send(&option(options::EXPORT_NAME, b"disk")).await.unwrap();
            let export = client.take(tail).await.unwrap();
            assert_eq!(export[..8], SIZE.to_be_bytes());
            assert_eq!(export[8..10], (FLAGS | transmission::CAN_MULTI_CONN).to_be_bytes());
            assert_eq!(client.write(0, 512, &[7; 512]).await.errno, 0);
            assert_eq!(client.call(command::READ, 0, 512, 512).await.data, [7; 512]);
        }
        let mut client = greeted(&world).await;
        client.send(&option(options::EXPORT_NAME, b"nope")).await.unwrap();
        assert!(client.is_closed().await, "EXPORT_NAME has no error reply");
        let mut client = greeted(&world).await;
        assert_eq!(client.ask(options::ABORT, &[]).await, [(reply::ACK, vec![])]);
        assert!(client.is_closed().await, "ABORT ends");
    });
}

#[test]
fn nonsense_ends_the_connection_and_is_counted() {
    run(1, SIZE, |world| async move {
        let mut client = LinkClient::connect(&world.env, &world.unix).await;
        client.send(&0x80u32.to_be_bytes()).await.unwrap();
        assert!(client.is_closed().await, "unknown client flags");
        let mut client = greeted(&world).await;
        client.send(&[0x55; 16]).await.unwrap();
        assert!(client.is_closed().await, "wrong option magic");
        let mut client = greeted(&world).await;
        let mut huge = option(options::GO, &[]);
        huge[12..16].copy_from_slice(&(2u32 << 20).to_be_bytes());
        client.send(&huge).await.unwrap();
        assert!(client.is_closed().await, "an option beyond all measure");
        let mut client = LinkClient::open(&world.env, &world.unix, "disk", true).await;
        client.send(&[0x55; 28]).await.unwrap();
        assert!(client.is_closed().await, "wrong request magic");
        world.env.yield_now().await;
        assert_eq!(world.server.stats().malformed, 4);
        assert_eq!(world.server.stats().connections, 0);
        assert_eq!(world.device.held(), 2, "the device is let go");
    });
}
