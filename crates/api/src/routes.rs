// SPDX-License-Identifier: Apache-2.0
//! The one table of what the API can do. The server, the description of the API and its clients
//! are made from it, and nothing says a second time what it says.
//!
//! A route carries out one [`operator::Command`]. Names in `{}` and the fields of the body, or of
//! the query where there is no body, are the command's own fields.

use operator::history::{PerformanceReport, PerformanceTop};
use operator::{
    AccessRole, BackupReport, CheckReport, ClusterReport, DomainsReport, GroupConfig, GroupDetail,
    HealthHistory, HealthReport, InviteReport, JoinReport, MaintenanceReport, MetricsReport,
    MoveReport, NewCodeReport, NewSessionReport, NewTokenReport, NotifyTestReport, OrphanReport,
    PlacementReport, PolicyCheckReport, PolicyEditReport, PolicyReport, ReceiverReport,
    RemovalReport, RepairReport, RestoreReport, ScrubReport, SessionReport, StaleReport,
    StatusReport, TokenReport, UpgradeReport, UserReport, VolumeReport,
};
use std::borrow::Cow;
use std::time::Duration;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// Before each path.
pub const PREFIX: &str = "/api/v1";
/// The name in a path of the shard that is asked. It is no field of a command.
pub const SHARD: &str = "shard";

/// Longest wait for an answer: most commands wait for the directory and for the other hosts.
const USUAL: Duration = Duration::from_secs(30);
/// The same where copies are made, or much is read first.
const LONG: Duration = Duration::from_secs(120);
/// The same where thousands of records are written, or all volumes of a policy changed.
const MANY_RECORDS: Duration = Duration::from_secs(600);
/// The same where devices are formatted: a new file is written completely.
const FORMAT: Duration = Duration::from_secs(1800);

/// Methods of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Reads, and changes nothing.
    Get,
    /// Makes something new, or begins something.
    Post,
    /// Sets something: twice is as once.
    Put,
    /// Changes some of it.
    Patch,
    /// Deletes, or ends.
    Delete,
}

impl Method {
    /// As HTTP writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether a request of it has a body. Others say the same in the query.
    #[must_use]
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedShards {
    /// All shards, and one picture is made of their answers.
    All,
    /// Any shard: each knows it.
    Any,
    /// The shard that the path names.
    Named,
    /// None: the API looks at all of them from time to time, and says what it has seen.
    Health,
    /// The same of what they did.
    Performance,
    /// None: the API tells a receiver of notifications.
    Receiver,
}

/// A schema, where it is named.
type Named = (String, RefOr<Schema>);

/// What a route answers.
#[derive(Clone, Copy, Debug)]
pub enum RouteAnswer {
    /// `null`.
    Nothing,
    /// One of these.
    One(Shape),
    /// A list of these.
    Many(Shape),
}

/// The type of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: fn() -> Cow<'static, str>,
    /// It.
    pub schema: fn() -> RefOr<Schema>,
    /// The named types in it.
    pub parts: fn(&mut Vec<Named>),
}

pub(crate) const fn shape<T: ToSchema>() -> Shape {
    Shape { name: T::name, schema: T::schema, parts: T::schemas }
}

const fn one<T: ToSchema>() -> RouteAnswer {
    RouteAnswer::One(shape::<T>())
}

const fn many<T: ToSchema>() -> RouteAnswer {
    RouteAnswer::Many(shape::<T>())
}

/// One thing that the API can do.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// How it is asked for.
    pub method: Method,
    /// Where, behind [`PREFIX`].
    pub path: &'static str,
    /// Which command it is: the value of its field `command`.
    pub command: &'static str,
    /// Who is asked.
    pub asked: AskedShards,
    /// What the caller must be allowed to do.
    pub right: AccessRole,
    /// Whether it is for those whom nobody knows yet: to sign in. They have no rights.
    pub is_open: bool,
    /// What comes back.
    pub answer: RouteAnswer,
    /// Longest wait for it.
    pub patience: Duration,
}

const fn route(
    method: Method,
    path: &'static str,
    command: &'static str,
    right: AccessRole,
    answer: RouteAnswer,
) -> Route {
    let (asked, is_open, patience) = (AskedShards::Any, false, USUAL);
    Route { method, path, command, asked, right, is_open, answer, patience }
}

impl Route {
    const fn of(self, asked: AskedShards) -> Self {
        Self { asked, ..self }
    }

    const fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    const fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    const fn long(self) -> Self {
        self.within(LONG)
    }

    /// Whether requests of it may carry an idempotency key. Where nobody knows who asks, one's key
    /// could bring another's answer.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.method != Method::Get && !self.is_open
    }

    /// The names in its path.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The fields of its command that stand in its path.
    pub fn path_fields(&self) -> impl Iterator<Item = &'static str> {
        self.names().filter(|name| *name != SHARD)
    }
}

/// Commands that no route carries out, and why.
pub const WITHOUT_ROUTE: [(&str, &str); 2] = [
    ("stop", "it ends the host's daemon: whoever started it ends it"),
    ("admission", "the API asks so itself, where somebody brings a secret or gets one"),
];

use AccessRole::{Administrator as Administer, Operator as Operate, Viewer as View};
use AskedShards::{
    All, Health as Watched, Named as OfShard, Performance as Kept, Receiver as Told,
};
use Method::{Delete, Get, Patch, Post, Put};

const VOLUME: RouteAnswer = one::<VolumeReport>();
const CLUSTER: RouteAnswer = one::<ClusterReport>();
const DOMAINS: RouteAnswer = one::<DomainsReport>();
const MAINTENANCE: RouteAnswer = one::<MaintenanceReport>();
const GROUP: RouteAnswer = one::<GroupConfig>();
const CHECK: RouteAnswer = one::<CheckReport>();
const RECEIVER: RouteAnswer = one::<ReceiverReport>();
const SCRUBS: RouteAnswer = many::<ScrubReport>();

/// All of it.
pub const ROUTES: &[Route] = &[
    route(Get, "/status", "status", View, one::<StatusReport>()).of(All),
    route(Post, "/volumes", "volume-create", Operate, VOLUME).long(),
    route(Get, "/volumes/{name}", "volume-show", View, VOLUME),
    route(Delete, "/volumes/{name}", "volume-delete", Operate, RouteAnswer::Nothing),
    route(Put, "/volumes/{name}/name", "volume-rename", Operate, VOLUME),
    route(Put, "/volumes/{name}/size", "volume-grow", Operate, VOLUME).long(),
    route(Put, "/volumes/{name}/reserve", "volume-change", Operate, VOLUME),
    route(Put, "/volumes/{name}/redundancy", "volume-redundancy", Operate, VOLUME).long(),
    route(Put, "/volumes/{name}/policy", "volume-set-policy", Operate, VOLUME).long(),
    route(Put, "/volumes/{name}/read-cache", "volume-cache", Operate, VOLUME),
    route(Put, "/volumes/{name}/home", "volume-keep", Operate, VOLUME).long(),
    route(Put, "/volumes/{name}/connections", "volume-connections", Operate, VOLUME),
    route(Put, "/volumes/{name}/writers", "volume-writers", Operate, VOLUME),
    route(Put, "/volumes/{name}/writer", "volume-take-over", Operate, VOLUME),
    route(Patch, "/volumes/{name}/labels", "volume-label", Operate, VOLUME),
    route(Post, "/volumes/{name}/moves", "volume-move", Operate, one::<MoveReport>()).long(),
    route(Delete, "/volumes/{name}/moves", "volume-stay", Operate, one::<MoveReport>()),
    route(Get, "/volumes/{name}/placement", "volume-explain", View, one::<PlacementReport>()),
    route(Post, "/volumes/{name}/recovery", "volume-recover", Administer, one::<StaleReport>())
        .long(),
    route(Post, "/deleted-volumes/{volume}/undelete", "volume-undelete", Operate, VOLUME),
    route(Delete, "/deleted-volumes/{volume}", "volume-purge", Operate, RouteAnswer::Nothing),
    route(Get, "/policies", "policy-list", View, many::<PolicyReport>()),
    route(Post, "/policies", "policy-create", Operate, one::<PolicyReport>()),
    route(Patch, "/policies/{name}", "policy-edit", Operate, one::<PolicyEditReport>())
        .within(MANY_RECORDS),
    route(Delete, "/policies/{name}", "policy-delete", Operate, one::<PolicyReport>()),
    route(Post, "/policies/{name}/check", "policy-check", View, one::<PolicyCheckReport>()),
    route(Post, "/policies/{name}/what-if", "policy-what-if", View, one::<PolicyCheckReport>()),
    route(Get, "/cluster", "cluster-show", View, CLUSTER),
    route(Put, "/cluster/repair-delay", "cluster-set", Administer, CLUSTER),
    route(Put, "/cluster/rebalance", "rebalance", Administer, CLUSTER),
    route(Put, "/cluster/rebuild-reserve", "rebuild-reserve", Administer, CLUSTER),
    route(Put, "/cluster/encrypt-links", "encrypt-links", Administer, CLUSTER).long(),
    route(Put, "/cluster/kind", "cluster-kind", Administer, CLUSTER),
    route(Put, "/cluster/resync-limit", "resync-limit", Administer, CLUSTER),
    route(Post, "/cluster/upgrade", "cluster-upgrade", Administer, one::<UpgradeReport>()),
    route(Post, "/invitations", "host-invite", Administer, one::<InviteReport>()),
    route(Post, "/hosts", "host-join", View, one::<JoinReport>()).open(),
    route(Delete, "/hosts/{host}", "host-remove", Administer, one::<RemovalReport>()),
    route(Get, "/hosts/{host}/maintenance", "maintenance-check", View, MAINTENANCE),
    route(Put, "/hosts/{host}/maintenance", "maintenance-enter", Administer, MAINTENANCE),
    route(Delete, "/hosts/{host}/maintenance", "maintenance-exit", Administer, MAINTENANCE),
    route(Get, "/health", "health-show", View, one::<HealthReport>()).of(Watched),
    route(Get, "/health/history", "health-history", View, one::<HealthHistory>()).of(Watched),
    route(Put, "/health/{check}/silence", "health-silence", Operate, CHECK).of(Watched),
    route(Delete, "/health/{check}/silence", "health-unsilence", Operate, CHECK).of(Watched),
    route(Get, "/receivers", "notify-list", View, many::<ReceiverReport>()),
    route(Post, "/receivers", "notify-add", Administer, RECEIVER),
    route(Get, "/receivers/{name}", "notify-show", View, RECEIVER),
    route(Delete, "/receivers/{name}", "notify-delete", Administer, RECEIVER),
    route(Post, "/receivers/{name}/test", "notify-test", Operate, one::<NotifyTestReport>())
        .of(Told)
        .long(),
    route(Get, "/performance/{kind}", "performance-top", View, one::<PerformanceTop>()).of(Kept),
    route(Get, "/performance/{kind}/{name}", "performance-show", View, one::<PerformanceReport>())
        .of(Kept),
    route(Get, "/tokens", "token-list", Administer, many::<TokenReport>()),
    route(Post, "/tokens", "token-create", Administer, one::<NewTokenReport>()),
    route(Delete, "/tokens/{name}", "token-delete", Administer, one::<TokenReport>()),
    route(Get, "/users", "user-list", Administer, many::<UserReport>()),
    route(Post, "/users", "user-create", Administer, one::<NewCodeReport>()),
    route(Delete, "/users/{name}", "user-delete", Administer, one::<UserReport>()),
    route(Put, "/users/{name}/role", "user-role", Administer, one::<UserReport>()),
    route(Post, "/users/{name}/code", "user-code", Administer, one::<NewCodeReport>()),
    route(Put, "/users/{name}/password", "user-password", View, one::<UserReport>()),
    route(Get, "/sessions", "session-show", View, one::<SessionReport>()),
    route(Post, "/sessions", "session-create", View, one::<NewSessionReport>()).open(),
    route(Delete, "/sessions", "session-delete", View, RouteAnswer::Nothing),
    route(Get, "/domains", "domain-list", View, DOMAINS),
    route(Post, "/domains", "domain-create", Administer, DOMAINS),
    route(Delete, "/domains/{name}", "domain-delete", Administer, DOMAINS),
    route(Post, "/domains/assignments", "domain-assign", Administer, DOMAINS),
    route(Post, "/repairs", "repair-now", Operate, one::<RepairReport>()).within(MANY_RECORDS),
    route(Get, "/orphans", "orphan-list", View, many::<OrphanReport>()),
    route(Post, "/orphans/{volume}/adopt", "orphan-adopt", Administer, VOLUME).long(),
    route(Delete, "/orphans/{volume}", "orphan-delete", Administer, RouteAnswer::Nothing),
    route(Post, "/shards/{shard}/groups", "group-create", Administer, GROUP)
        .of(OfShard)
        .within(FORMAT),
    route(Get, "/shards/{shard}/groups/{group}", "group-show", View, one::<GroupDetail>())
        .of(OfShard),
    route(Delete, "/shards/{shard}/groups/{group}", "group-remove", Administer, GROUP)
        .of(OfShard)
        .within(FORMAT),
    route(Post, "/shards/{shard}/groups/{group}/devices", "group-extend", Administer, GROUP)
        .of(OfShard)
        .within(FORMAT),
    route(Post, "/shards/{shard}/groups/{group}/close", "group-close", Administer, GROUP)
        .of(OfShard)
        .within(FORMAT),
    route(Post, "/shards/{shard}/groups/{group}/open", "group-open", Administer, GROUP)
        .of(OfShard)
        .within(FORMAT),
    route(Get, "/shards/{shard}/metrics", "metrics", View, one::<MetricsReport>()).of(OfShard),
    route(Get, "/shards/{shard}/scrub", "scrub-status", View, SCRUBS).of(OfShard),
    route(Post, "/shards/{shard}/scrub", "scrub-start", Operate, SCRUBS).of(OfShard),
    route(Delete, "/shards/{shard}/scrub", "scrub-pause", Operate, SCRUBS).of(OfShard),
    route(
        Get,
        "/shards/{shard}/directory-backups",
        "directory-backups",
        View,
        many::<BackupReport>(),
    )
    .of(OfShard),
    route(
        Post,
        "/shards/{shard}/directory-restore",
        "directory-restore",
        Administer,
        one::<RestoreReport>(),
    )
    .of(OfShard)
    .within(MANY_RECORDS),
];
