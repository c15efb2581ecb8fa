// SPDX-License-Identifier: Apache-2.0
//! What an operator may ask a host, and what hosts answer: data, as the JSON that passes the door.
//! It knows nothing of how a host does it.
//!
//! | module | what it is |
//! |---|---|
//! | `command` | questions, and the form of an answer |
//! | `report` | answers |
//! | `health` | what the answers come to: checks, each with what mends it |
//! | `history` | performance over time: records that add up, and what is read out of them |
//! | `merge` | the answers of several hosts, as one |
#![forbid(unsafe_code)]

mod command;
pub mod health;
pub mod history;
mod merge;
mod report;

pub use command::{
    AdmissionStep, Command, CommandFailure, CommandReply, ErrorKind, GroupConfig, NewVolume,
    PolicyRules, RateLimit,
};
pub use directory::{
    AccessRole, MailTls, NoticeLevel, NoticeReceiver, ReceiverTrouble, ReceiverWay, SecretText,
    ToldCheck,
};
pub use merge::{Totals, is_silent_taken_for_up, merge, totals};
pub use report::{
    BLOCKS_LOST, BLOCKS_MENDED, BackupReport, CachedReport, CheckReport, CheckState, ClassReport,
    ClusterReport, ComplianceReport, ComplianceState, ComponentReport, DESTAGE_STOOD_STILL,
    DeviceMedium, DeviceReport, DomainReport, DomainsReport, EffectReport, Follower, GroupDetail,
    GroupReport, Health, HealthChange, HealthHistory, HealthReport, HeldReport, HomeReport,
    HostLevel, HostReport, HostState, InviteReport, JoinReport, LatencyReport, LayoutReport,
    LimitedReport, LinksReport, MaintenanceReport, MemoryPart, MemoryReport, MemoryUse,
    MetricsReport, MoveReport, MovedCopy, NewCodeReport, NewSessionReport, NewTokenReport,
    NotFollowing, NotRepaired, NotifyTestReport, OperationKind, OperationReport, OrphanReport,
    OwnedVolume, PlaceKind, PlaceReport, PlacementReport, PolicyCheckReport, PolicyEditReport,
    PolicyReport, ReadCacheReport, ReceiverReport, ReceiversReport, RemovalReport, RepairReport,
    RepairedCopy, RequestsReport, RestoreReport, ResyncReason, ResyncReport, ResyncSum,
    ResyncTotals, Role, ScrubReport, SessionReport, SpaceReport, StageReport, StageTotal,
    StalePart, StaleReport, StatusReport, TokenReport, TrafficReport, TrashedReport, TurnsReport,
    UpgradeReport, UserReport, VolumePolicy, VolumeReport, VolumeTally, VolumeWithoutHost,
    WriterReport, WritesReport, by_host, seconds_left, shards_of, way_without_secrets,
};
pub use volume::LATENCY_BOUNDS_US;
