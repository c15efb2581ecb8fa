// SPDX-License-Identifier: Apache-2.0
//! The text of a scrape.

use super::row::Scrape;
use super::table::metrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;
use std::fmt;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format that Prometheus had before, 0.0.4.
    Text,
}

impl Form {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// All metrics of a scrape.
pub(super) fn print(scrape: Scrape, form: Form) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut said = String::new();
    match form {
        Form::OpenMetrics => text::encode(&mut said, &registry)?,
        Form::Text => prometheus_text::encode(&mut said, &registry)?,
    }
    Ok(said)
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        metrics().try_for_each(|metric| metric.encode(self, &mut encoder))
    }
}
