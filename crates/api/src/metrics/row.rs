// SPDX-License-Identifier: Apache-2.0
//! A row of the table of metrics, and how it becomes series.

use history::HistoryCounts;
use notify::ReceiverCounts;
use operator::{
    CheckState, DeviceReport, GroupReport, Health, LATENCY_BOUNDS_US, MetricsReport,
    OperationReport, Role,
};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::{MetricType, exemplar::Exemplar};
use std::fmt;
use std::time::Duration;

const NO_EXEMPLAR: Option<&Exemplar<Vec<(&str, &str)>, f64>> = None;

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, from zero at the start of what counts it.
    Counter,
    /// As it is now.
    Gauge,
    /// How many took how long.
    Histogram,
}

impl MetricKind {
    /// As the page says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, which ends with its unit, and `_total` for a counter.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// What tells its series apart.
    pub labels: &'static [&'static str],
    /// What it says, without a full stop.
    pub help: &'static str,
    samples: fn(&Scrape, &mut Samples<'_>),
}

/// What the shards said.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    pub(super) answers: Vec<MetricsReport>,
    /// Those that did not answer in time.
    pub(super) silent: Vec<String>,
    pub(super) took: Duration,
    /// What is shown of health checks: group, id, state.
    pub(super) checks: Vec<(&'static str, &'static str, CheckState)>,
    /// What became of messages to each receiver of notifications.
    pub(super) receivers: Vec<(String, ReceiverCounts)>,
    /// What is counted of the history of performance.
    pub(super) history: HistoryCounts,
}

pub(super) type Labels = &'static [&'static str];
type Source = fn(&Scrape, &mut Samples<'_>);

pub(super) const fn counter(
    name: &'static str,
    labels: Labels,
    help: &'static str,
    samples: Source,
) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help, samples }
}

pub(super) const fn gauge(
    name: &'static str,
    labels: Labels,
    help: &'static str,
    samples: Source,
) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help, samples }
}

pub(super) const fn histogram(
    name: &'static str,
    labels: Labels,
    help: &'static str,
    samples: Source,
) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels, help, samples }
}

/// Of one shard.
pub(super) const SHARD: Labels = &["shard"];

impl Metric {
    pub(super) fn encode(
        &self,
        scrape: &Scrape,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let kind = match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
        };
        // The encoder adds what a counter's series end with.
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let encoder = encoder.encode_descriptor(name, self.help, None, kind)?;
        let mut samples = Samples { metric: self, encoder, result: Ok(()) };
        (self.samples)(scrape, &mut samples);
        samples.result
    }
}

/// A value; nothing where it is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sample {
    Missing,
    Whole(u64),
    Real(f64),
}

impl From<u64> for Sample {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Sample {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<usize> for Sample {
    fn from(value: usize) -> Self {
        u64::try_from(value).map_or(Self::Missing, Self::Whole)
    }
}

impl From<f64> for Sample {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for Sample {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<Duration> for Sample {
    fn from(value: Duration) -> Self {
        Self::Real(value.as_secs_f64())
    }
}

impl From<Health> for Sample {
    fn from(value: Health) -> Self {
        Self::Whole(match value {
            Health::Green => 0,
            Health::Yellow => 1,
            Health::Red => 2,
        })
    }
}

impl<T: Into<Self>> From<Option<T>> for Sample {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// The series of one metric, as they are written.
pub(super) struct Samples<'a> {
    metric: &'a Metric,
    encoder: MetricEncoder<'a>,
    result: fmt::Result,
}

impl Samples<'_> {
    fn labelled<'a>(&self, values: &[&'a str]) -> Vec<(&'static str, &'a str)> {
        assert_eq!(values.len(), self.metric.labels.len(), "{}", self.metric.name);
        let names = self.metric.labels.iter().copied();
        names.zip(values.iter().copied()).collect()
    }

    /// One series: the values of its labels, and its own.
    pub(super) fn put(&mut self, labels: &[&str], value: impl Into<Sample>) {
        let labels = self.labelled(labels);
        let value = value.into();
        let is_counter = self.metric.kind == MetricKind::Counter;
        let result = self.encoder.encode_family(&labels).and_then(|mut one| match value {
            Sample::Missing => Ok(()),
            Sample::Whole(value) if is_counter => one.encode_counter(&value, NO_EXEMPLAR),
            Sample::Real(value) if is_counter => one.encode_counter(&value, NO_EXEMPLAR),
            Sample::Whole(value) => one.encode_gauge(&value),
            Sample::Real(value) => one.encode_gauge(&value),
        });
        self.result = self.result.and(result);
    }

    /// One series of each shard that answered.
    pub(super) fn shards<V: Into<Sample>>(
        &mut self,
        scrape: &Scrape,
        value: fn(&MetricsReport) -> V,
    ) {
        for one in &scrape.answers {
            self.put(&[&one.status.host], value(one));
        }
    }

    /// One series of each disk group.
    pub(super) fn groups<V: Into<Sample>>(
        &mut self,
        scrape: &Scrape,
        value: fn(&GroupReport) -> V,
    ) {
        for group in scrape.groups() {
            self.put(&[&group.host, name_of(group)], value(group));
        }
    }

    /// One series of each device of a disk group.
    pub(super) fn devices<V: Into<Sample>>(
        &mut self,
        scrape: &Scrape,
        value: fn(&DeviceReport) -> V,
    ) {
        for (labels, device) in scrape.devices() {
            self.put(&labels, value(device));
        }
    }

    /// How many requests took how long.
    pub(super) fn put_latencies(&mut self, labels: &[&str], operation: &OperationReport) {
        let labels = self.labelled(labels);
        let took = Duration::from_micros(operation.took_us).as_secs_f64();
        let bounds = LATENCY_BOUNDS_US.map(|bound| Duration::from_micros(bound).as_secs_f64());
        let bounds = bounds.into_iter().chain([f64::INFINITY]);
        let classes: Vec<_> = bounds.zip(operation.latencies.iter().copied()).collect();
        let count = classes.iter().map(|(_, count)| count).sum();
        let result = self.encoder.encode_family(&labels).and_then(|mut one| {
            one.encode_histogram::<Vec<(&str, &str)>>(took, count, &classes, None)
        });
        self.result = self.result.and(result);
    }
}

/// The id of a disk group, or its cache device where it never opened.
pub(super) fn name_of(group: &GroupReport) -> &str {
    let cache = || group.devices.first().map_or("", |device| device.path.as_str());
    if group.id.is_empty() { cache() } else { &group.id }
}

impl Scrape {
    pub(super) fn groups(&self) -> impl Iterator<Item = &GroupReport> {
        self.answers.iter().flat_map(|one| &one.status.groups)
    }

    /// All devices, each with its labels: shard, disk group, path and role.
    pub(super) fn devices(&self) -> impl Iterator<Item = ([&str; 4], &DeviceReport)> {
        self.groups().flat_map(|group| {
            group.devices.iter().map(|device| {
                let role = match device.role {
                    Role::Cache => "cache",
                    Role::Capacity => "capacity",
                };
                ([group.host.as_str(), name_of(group), device.path.as_str(), role], device)
            })
        })
    }
}
