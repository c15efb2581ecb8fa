// SPDX-License-Identifier: Apache-2.0
//! Why the copies of a volume are where they are, and why not elsewhere.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a volume's copies are, and which hosts could take another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacementReport {
    /// The volume.
    pub volume: String,
    /// Copies that it should have of each part.
    pub copies: u64,
    /// The host that all of it is kept on; none: it is kept wherever there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_on: Option<String>,
    /// Its parts, those together whose copies are on the same hosts.
    pub layouts: Vec<LayoutReport>,
    /// Parts that are in none of these, because there are too many layouts.
    #[serde(default)]
    pub more_parts: u64,
}

/// Parts of a volume whose copies are on the same hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayoutReport {
    /// Which parts, from 1 on.
    pub parts: Vec<u64>,
    /// All hosts: those with a copy first, then those that could take one in the order in which
    /// they would be asked, then the others.
    pub hosts: Vec<PlaceReport>,
}

/// A host, as a place for copies of these parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaceReport {
    /// Its name.
    pub host: String,
    /// The fault domains that it is in, the outermost first.
    pub domains: Vec<String>,
    /// What it is.
    pub place: PlaceKind,
    /// Bytes that it may still be given, once the volumes there have taken what they may; none
    /// where it takes nothing at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_bytes: Option<u64>,
    /// Why, for people.
    pub why: String,
}

/// What a host is to a part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceKind {
    /// It has a copy.
    Copy,
    /// It has a copy, and another host of its fault domain has one too.
    TooClose,
    /// Another copy would go there.
    Next,
    /// It could take a copy.
    Able,
    /// It cannot.
    Not,
}
