// SPDX-License-Identifier: Apache-2.0
//! What is kept is sums: nothing is lost, nothing comes twice, and nothing grows without a bound.

use super::*;
use crate::report::{MetricsReport, OperationKind, OperationReport};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volume::LATENCY_BOUNDS_US;

const CLASSES: usize = LATENCY_BOUNDS_US.len() + 1;

/// What a shard says that wrote so many times in each class of latency, to each volume.
fn said(shard: &str, volumes: &[(&str, Vec<u64>)], left_out: u64) -> MetricsReport {
    let operation = |latencies: &[u64]| {
        let count: u64 = latencies.iter().sum();
        json!({
            "operation": "write", "failed": 0, "bytes": count * 4096, "took_us": count * 100,
            "latencies": latencies,
        })
    };
    let mut all = vec![0; CLASSES];
    for (_, latencies) in volumes {
        all.iter_mut().zip(latencies).for_each(|(sum, count)| *sum += count);
    }
    let traffic: Vec<Value> = volumes
        .iter()
        .map(|(name, latencies)| {
            json!({
                "volume": name, "clients": 1, "limited_requests": 0, "limited_ms": 0,
                "operations": [operation(latencies)],
            })
        })
        .collect();
    let group = json!({
        "host": shard, "id": "1f2e", "is_open": true, "buffer_fill": 0.5, "buffer_bytes": 1 << 20,
        "writes_waiting": 2, "used_bytes": 0, "capacity_bytes": 0, "state": "ok",
        "recovery_ms": 0.0,
        "devices": [{
            "path": "/dev/c", "role": "cache", "kind": "ssd", "model": null, "size_bytes": 0,
            "used_bytes": 1 << 19, "written_bytes": 0, "state": "ok", "space": null,
        }],
    });
    serde_json::from_value(json!({
        "status": {
            "host": shard, "health": "green", "directory": true, "alarms": [], "hosts": [],
            "volumes": [], "groups": [group],
        },
        "volumes": { "green": 0, "yellow": 0, "red": 0, "deleted": 0 },
        "owned": [], "traffic": traffic, "all_traffic": [operation(&all)], "left_out": left_out,
        "stages": [],
        "resync": { "copying": 0, "waiting": 0, "bytes_left": 0, "copied_bytes": 0 },
        "links": {
            "made": 0, "silent": 0, "refused": 0, "messages_sent": 0, "messages_received": 0,
            "bytes_received": 0, "waiting_bytes": 0,
        },
        "scrubs": [],
    }))
    .expect("a report")
}

fn writes(class: usize, count: u64) -> Vec<u64> {
    let mut latencies = vec![0; CLASSES];
    latencies[class] = count;
    latencies
}

fn written(bucket: &HistoryBucket, volume: &str) -> u64 {
    bucket.record(HistoryKind::Volume, volume).requests()
}

fn record(slots: &[(u16, u64)]) -> HistoryRecord {
    let mut record = HistoryRecord::default();
    slots.iter().for_each(|(slot, number)| record.add_slot(*slot, *number));
    record
}

prop_compose! {
    fn some_record()(slots in vec((0_u16..200, 0_u64..u64::MAX / 8), 0..12)) -> HistoryRecord {
        record(&slots)
    }
}

prop_compose! {
    fn some_bucket()(
        covered_ms in 0_u64..10_000,
        left_out in 0_u64..9,
        records in vec((0_usize..4, "[a-c]{0,2}", some_record()), 0..6),
    ) -> HistoryBucket {
        let mut bucket = HistoryBucket { covered_ms, left_out, ..HistoryBucket::default() };
        for (kind, name, record) in &records {
            bucket.add_record(HistoryKind::ALL[*kind], name, record);
        }
        bucket
    }
}

fn sum(buckets: &[HistoryBucket]) -> HistoryBucket {
    let mut all = HistoryBucket::default();
    buckets.iter().for_each(|bucket| all.add(bucket));
    all
}

proptest! {
    #[test]
    fn no_order_of_adding_gives_another_result(
        buckets in vec(some_bucket(), 0..7),
        cut in 0_usize..7,
        turn in 0_usize..7,
    ) {
        let at = cut.min(buckets.len());
        let (one, other) = buckets.split_at(at);
        prop_assert_eq!(sum(&[sum(one), sum(other)]), sum(&buckets));
        prop_assert_eq!(sum(&[sum(other), sum(one)]), sum(&buckets));
        let mut turned = buckets.clone();
        turned.rotate_left(turn.min(buckets.len()));
        prop_assert_eq!(sum(&turned), sum(&buckets));
    }

    #[test]
    fn what_is_added_is_what_is_taken_away(one in some_record(), more in some_record()) {
        let mut both = one.clone();
        both.add(&more);
        prop_assert_eq!(both.since(&one), Some(more.clone()));
        if !more.is_empty() {
            prop_assert_eq!(one.since(&both), None);
        }
    }

    #[test]
    fn bytes_are_read_as_they_were_written(
        bucket in some_bucket(),
        block in vec((0_u16..288, some_record()), 0..9),
    ) {
        let bytes = encode_bucket(&bucket);
        prop_assert_eq!(decode_bucket(&bytes), Ok(bucket));
        let block: BTreeMap<u16, HistoryRecord> = block.into_iter().collect();
        let block: Vec<_> = block.into_iter().collect();
        prop_assert_eq!(decode_block(&encode_block(&block)), Ok(block));
    }

    #[test]
    fn bytes_that_changed_are_told_of(bucket in some_bucket(), at: usize, bit in 0_u8..8) {
        let mut bytes = encode_bucket(&bucket);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(decode_bucket(&bytes), Err(HistoryFormatError::Checksum));
    }

    /// Whatever a shard counts, and however often it begins anew: what is kept is never more than
    /// what it counted in all of its lives, and all of it where it did not begin anew.
    #[test]
    fn a_counter_that_went_back_makes_no_large_number(
        steps in vec((0_u64..1000, prop::bool::weighted(0.2)), 1..30),
    ) {
        let mut looks = HistoryLooks::default();
        let (mut counted, mut ever, mut anew) = (0_u64, 0_u64, false);
        let mut kept = HistoryBucket::default();
        let look = |looks: &mut HistoryLooks, at, count| {
            looks.take(at, &[said("h", &[("a", writes(3, count))], 0)], |_| Some(count))
        };
        kept.add(&look(&mut looks, 0, 0));
        for (step, (more, begins)) in (1_u64..).zip(&steps) {
            if *begins {
                counted = 0;
                anew = true;
            }
            counted += more;
            ever += more;
            let bucket = look(&mut looks, step * 5000, counted);
            prop_assert!(written(&bucket, "a") <= counted, "never more than there is");
            kept.add(&bucket);
        }
        prop_assert!(written(&kept, "a") <= ever);
        prop_assert_eq!(kept.record(HistoryKind::Shard, "h").requests(), written(&kept, "a"));
        if !anew {
            prop_assert_eq!(written(&kept, "a"), ever);
        }
    }

    #[test]
    fn a_percentile_is_in_the_class_of_the_true_value(
        took in vec(0_u64..9_000_000, 1..300),
        thousandths in 1_u64..=1000,
    ) {
        let class_of = |us: u64| LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        let mut latencies = vec![0; CLASSES];
        took.iter().for_each(|us| latencies[class_of(*us)] += 1);
        let mut sorted = took.clone();
        sorted.sort_unstable();
        let count = u64::try_from(sorted.len()).expect("a few");
        let rank = usize::try_from((count * thousandths).div_ceil(1000)).expect("a few");
        let truth = class_of(sorted[rank - 1]);
        let said = percentile(&latencies, thousandths).expect("there are some");
        let last = LATENCY_BOUNDS_US.len() - 1;
        let bound = |class: usize| f64::from(u32::try_from(LATENCY_BOUNDS_US[class]).expect("4 s"));
        let from = truth.checked_sub(1).map_or(0.0, bound);
        let to = bound(truth.min(last));
        prop_assert!((from..=to).contains(&said), "{said} is not in {from} to {to}");
    }

    #[test]
    fn a_span_has_what_is_wanted_within_its_bounds(
        now in 10_000_000_u64..20_000_000_000,
        ago in 0_u64..200 * 86_400,
        length in 1_u64..200 * 86_400,
        most in 0_u64..3000,
    ) {
        let from = now.saturating_sub(ago);
        match wanted(now, (from, from.saturating_add(length)), most) {
            None => prop_assert!(ago == 0 || ago.saturating_sub(length) >= 90 * 86_400),
            Some(span) => {
                let count = (span.to - span.from) / span.every;
                prop_assert!((1..=POINTS_MAX + 2).contains(&count), "{count}");
                prop_assert_eq!(span.every % span.resolution.seconds(), 0);
                prop_assert_eq!(span.from % span.every, 0);
                // It is kept so far back.
                let oldest = span.resolution.kept(now).0;
                prop_assert!(from.max(HistoryResolution::Coarse.kept(now).0) >= oldest);
                prop_assert!(span.to < now + span.every);
            }
        }
    }

    /// All points of a span together are all of its records.
    #[test]
    fn points_lose_nothing(counts in vec((0_u64..3600, 1_u64..99), 0..40), most in 1_u64..50) {
        let now = 1_800_000_000;
        let span = wanted(now, (now - 3600, now), most).expect("a span");
        let step = span.resolution.seconds();
        let (mut records, mut covered) = (BTreeMap::new(), BTreeMap::new());
        let mut total = 0;
        for (ago, count) in &counts {
            let at = now - 1 - ago;
            let one: &mut HistoryRecord = records.entry(at - at % step).or_default();
            one.add_slot(3, *count);
            *covered.entry(at - at % step).or_insert(0) += 5000;
            total += count;
        }
        let (points, all) = points(PerformanceKind::Volume, span, &records, &covered);
        let of = |point: &PerformancePoint| point.reads.as_ref().expect("reads").requests;
        prop_assert_eq!(points.iter().map(of).sum::<u64>(), total);
        prop_assert_eq!(of(&all), total);
        let seen: u64 = points.iter().map(|point| point.covered_ms).sum();
        prop_assert_eq!(seen, all.covered_ms);
    }
}

#[test]
fn the_busiest_volumes_are_kept_and_the_others_counted() {
    let mut bucket = HistoryBucket::default();
    for number in 0..VOLUMES_MAX + 50 {
        let count = u64::try_from(number).expect("a few") + 1;
        bucket.add_record(HistoryKind::Volume, &format!("v{number:03}"), &record(&[(3, count)]));
    }
    bucket.add_record(HistoryKind::Shard, "h", &record(&[(3, 9)]));
    let bucket = bucket.bounded();
    assert_eq!((bucket.records().len(), bucket.left_out), (VOLUMES_MAX + 1, 50));
    assert_eq!((written(&bucket, "v049"), written(&bucket, "v050")), (0, 51));
    assert_eq!(bucket.record(HistoryKind::Shard, "h").requests(), 9, "it has what they did");
    assert_eq!(bucket.clone().bounded(), bucket);
}

#[test]
fn a_look_says_what_was_done_since_the_one_before() {
    let mut looks = HistoryLooks::default();
    let none = |_: &str| None;
    let first = looks.take(0, &[said("h", &[("a", writes(3, 1000))], 0)], none);
    assert_eq!(first, HistoryBucket::default(), "nobody knows when that was");
    let both = [("a", writes(3, 1010)), ("b", writes(5, 7))];
    let bucket = looks.take(5000, &[said("h", &both, 0)], none);
    assert_eq!((written(&bucket, "a"), written(&bucket, "b")), (10, 7), "one is new");
    assert_eq!(bucket.covered_ms, 5000);
    let a = bucket.record(HistoryKind::Volume, "a");
    let OperationReport { bytes, took_us, latencies, .. } = a.operation(OperationKind::Write);
    assert_eq!((bytes, took_us, latencies[3]), (10 * 4096, 1000, 10));
    assert_eq!(a.measure(HistoryMeasure::Clients), 5000);
    let group = bucket.record(HistoryKind::Group, "1f2e");
    let point = PerformancePoint::of(PerformanceKind::Group, 0, 5000, &group);
    assert_eq!((point.buffer_fill, point.writes_waiting), (Some(0.5), Some(2.0)));
    // A shard that told of a part of its volumes may have left one out that did much.
    let bucket = looks.take(10_000, &[said("h", &[("a", writes(3, 1010))], 1)], none);
    assert_eq!((written(&bucket, "a"), bucket.left_out), (0, 1));
    let both = [("a", writes(3, 1011)), ("b", writes(5, 90_000))];
    let bucket = looks.take(15_000, &[said("h", &both, 0)], none);
    assert_eq!((written(&bucket, "a"), written(&bucket, "b")), (1, 0));
    // One that was not seen for long says nothing of when.
    let bucket = looks.take(15_000 + LOOK_MS_MAX + 1, &[said("h", &both, 0)], none);
    assert_eq!(bucket, HistoryBucket::default());
}

#[test]
fn a_shard_that_does_not_answer_once_is_covered_by_the_next_look() {
    let mut looks = HistoryLooks::default();
    let look = |looks: &mut HistoryLooks, at, count: Option<u64>| {
        let reports: Vec<_> =
            count.map(|count| said("h", &[("a", writes(3, count))], 0)).into_iter().collect();
        looks.take(at, &reports, |_| None)
    };
    look(&mut looks, 0, Some(0));
    assert_eq!(look(&mut looks, 5000, None), HistoryBucket::default());
    let bucket = look(&mut looks, 10_000, Some(20));
    assert_eq!((written(&bucket, "a"), bucket.covered_ms), (20, 10_000));
    let shard = bucket.record(HistoryKind::Shard, "h");
    assert_eq!(shard.measure(HistoryMeasure::CoveredMs), 10_000);
}

#[test]
fn rates_are_of_what_was_seen() {
    let mut one = HistoryRecord::default();
    one.add_slot(2, 300);
    one.add_slot(26, 300 * 200);
    one.add_measure(HistoryMeasure::CpuUs, 6000);
    let point = PerformancePoint::of(PerformanceKind::Host, 60, 3000, &one);
    let reads = point.reads.as_ref().expect("reads");
    assert_eq!((reads.per_second, reads.mean_us), (100.0, Some(200.0)));
    assert_eq!(reads.p50_us, Some(192.0), "half of a class from 128 to 256");
    assert_eq!((point.cpus, point.cpu_us_per_request), (Some(0.002), Some(20.0)));
    assert_eq!(point.queue_depth, Some(0.02), "60 ms in 3 s");
    assert_eq!(point.load(), (100.0, 0.0));
    let nothing = PerformancePoint::of(PerformanceKind::Host, 60, 0, &one);
    assert_eq!(nothing.reads.expect("reads").per_second, 0.0, "nobody looked");
    assert_eq!(percentile(&[0; CLASSES], 990), None);
    assert_eq!(percentile(&writes(CLASSES - 1, 5), 990), Some(4_194_304.0));
}

#[test]
fn each_resolution_has_its_time() {
    let now = 1_800_000_123;
    let that_has = |ago| HistoryResolution::that_has(now - ago, now);
    assert_eq!(that_has(3600), HistoryResolution::Fine);
    assert_eq!(that_has(3700), HistoryResolution::Minute);
    assert_eq!(that_has(8 * 86_400), HistoryResolution::Coarse);
    assert_eq!(that_has(1000 * 86_400), HistoryResolution::Coarse);
    for pair in RESOLUTIONS.windows(2) {
        assert_eq!(pair[1].seconds() % pair[0].seconds(), 0);
    }
    // A month has no point of five seconds, and a minute has.
    let month = wanted(now, (now - 30 * 86_400, now), 300).expect("a span");
    assert_eq!((month.resolution, month.every), (HistoryResolution::Coarse, 8700));
    let minute = wanted(now, (now - 60, now), 300).expect("a span");
    assert_eq!((minute.resolution, minute.every), (HistoryResolution::Fine, 5));
    assert_eq!(wanted(now, (now + 5, now + 9), 300), None);
}

/// The bytes of the page that describes the format.
#[test]
fn bytes_are_as_the_page_of_the_format_says() {
    let mut bucket = HistoryBucket { covered_ms: 5000, left_out: 2, ..HistoryBucket::default() };
    bucket.add_record(HistoryKind::Volume, "db", &record(&[(32, 7), (35, 300), (56, 4096)]));
    bucket.add_record(HistoryKind::Shard, "h1", &record(&[(160, 5000)]));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let page = include_str!("../../../../docs/formats/performance-history.md");
    let golden = |what: &str| {
        let after = page.split_once(what).expect("its heading").1;
        let block = after.split("```").nth(1).expect("bytes").trim_start_matches("text");
        let bytes = block.lines().map(|line| line.split('|').next().unwrap_or_default());
        bytes.collect::<String>().replace([' ', '\n'], "")
    };
    assert_eq!(hex(&encode_bucket(&bucket)), golden("### A bucket, byte by byte"));
    let block = [(0, record(&[(3, 1)])), (59, record(&[(3, 200)]))];
    assert_eq!(hex(&encode_block(&block)), golden("### A block, byte by byte"));
}

#[test]
fn what_is_no_bucket_is_refused_by_name() {
    let sealed = |said: &[u8]| {
        let mut bytes = said.to_vec();
        bytes.extend_from_slice(&base::crc32c(said).to_le_bytes());
        bytes
    };
    use HistoryFormatError::{Checksum, Malformed, Version};
    for (bytes, error) in [
        (vec![], Checksum),
        (vec![1, 2, 3], Checksum),
        (sealed(&[]), Malformed),
        (sealed(&[9, 0, 0, 0]), Version(9)),
        (sealed(&[1, 0, 0]), Malformed),
        // More behind the end; a kind that there is not; a number in two ways; slots at the end.
        (sealed(&[1, 0, 0, 0, 0]), Malformed),
        (sealed(&[1, 0, 0, 1, 9, 0, 0]), Malformed),
        (sealed(&[1, 0x80, 0, 0, 0]), Malformed),
        (sealed(&[1, 0, 0, 1, 1, 0, 1, 0xff, 0xff, 3, 1]), Malformed),
        (sealed(&[1, 0, 0, 1, 1, 0, 1, 0, 0]), Malformed),
    ] {
        assert_eq!(decode_bucket(&bytes), Err(error), "{bytes:?}");
    }
    assert_eq!(decode_block(&sealed(&[1, 1, 0xa0, 2, 0])), Err(Malformed), "a number too large");
    assert_eq!(decode_block(&sealed(&[1, 0])), Ok(Vec::new()));
}
