// SPDX-License-Identifier: Apache-2.0
//! A host's part in the directory: runs its member of etcd if it has one, knows where the others
//! are, and, where its member leads, changes who the members are.

use super::data::MemberData;
use super::look::{Listed, ask, ask_all, list};
use super::picture;
use super::plan::{DirectoryStep, next_step};
use crate::client::{DirectoryDoor, Endpoints, follow_to};
use crate::error::ControlError;
use crate::keeper::Keeper;
use crate::member_file::MemberFile;
use crate::supervise::{EtcdProcess, EtcdStart};
use crate::thread::{DirectoryThread, Started, Stop, runtime};
use etcd_client::{Client, MemberAddOptions, PutOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::{error, info, warn};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time from one plan, and one sign of life, to the next, at most.
const TURN_MAX: Duration = Duration::from_secs(5);
/// For so long after its start a host that is a member asks the others first whether it still is.
const ASKS_FIRST: Duration = Duration::from_secs(3);
/// A host that has given no sign of life for so long cannot become a member.
const SIGN_TTL_S: i64 = 15;
/// Longest wait for a change of members, or for a sign of life to be written.
const CHANGE_MAX: Duration = Duration::from_secs(3);

/// Runs this host's part in the directory, as the file at `path` has it, until the thread is
/// stopped or dropped; its member ends with it. What is kept beside the file is kept up to date.
///
/// # Errors
/// [`ControlError`]: the file cannot be read.
pub fn keep_member(path: &Path) -> Result<DirectoryThread, ControlError> {
    let path = path.to_owned();
    DirectoryThread::start("directory member", move |started| {
        let runtime = runtime()?;
        runtime.block_on(run(path, &started))
    })
}

async fn run(path: PathBuf, started: &Started) -> Result<(), ControlError> {
    let mut keep = Keep::open(&path).await?;
    let stop = Arc::new(Notify::new());
    let for_stop = Arc::clone(&stop);
    let report: Stop = Box::new(move || for_stop.notify_one());
    if started.send(Ok(report)).is_err() {
        return Ok(());
    }
    loop {
        tokio::select! {
            () = stop.notified() => break,
            () = keep.look() => {}
        }
        tokio::select! {
            () = stop.notified() => break,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    keep.hand_over().await;
    Ok(())
}

struct Keep {
    file: MemberFile,
    data: MemberData,
    door: DirectoryDoor,
    client: Client,
    /// What `client` uses.
    endpoints: BTreeSet<String>,
    /// The member on this host, and its process.
    own: Option<(u64, Keeper<EtcdProcess>)>,
    /// Members that do not answer, and since when.
    silent: BTreeMap<u64, Instant>,
    /// Whether the last look changed who the members are.
    is_changing: bool,
    /// Holds this host's sign of life.
    lease: Option<i64>,
    begun: Instant,
    next_turn: Instant,
}

impl Keep {
    async fn open(path: &Path) -> Result<Self, ControlError> {
        let file = MemberFile::read(path)?;
        let urls = match file.state.endpoints.is_empty() {
            true => vec![file.client_url()],
            false => file.state.endpoints.clone(),
        };
        let door = DirectoryDoor::to(&Endpoints { urls: urls.clone(), ..file.endpoints() })?;
        let client = door.connect(&urls, false).await?;
        Ok(Self {
            data: MemberData::of(&file)?,
            door,
            file,
            client,
            endpoints: urls.into_iter().collect(),
            own: None,
            silent: BTreeMap::new(),
            is_changing: false,
            lease: None,
            begun: Instant::now(),
            next_turn: Instant::now(),
        })
    }

    async fn look(&mut self) {
        if self.data.is_to_go_on_alone() {
            if let Err(error) = self.go_on_alone().await {
                error!(
                    error = format!("{error:#}"),
                    "the directory cannot go on on this host alone"
                );
            }
            return;
        }
        self.data.renew_proof();
        let listed = list(&self.client).await;
        self.run_own(listed.as_deref());
        let Some(listed) = listed else { return };
        self.remember(&listed).await;
        let is_turn = self.next_turn <= Instant::now();
        if is_turn {
            self.next_turn = Instant::now() + TURN_MAX.min(self.file.move_after() / 4);
            self.give_sign().await;
            if self.is_voter(&listed) {
                self.data.remove_others(self.file.member());
            }
        }
        // One step leads to the next.
        if is_turn || self.is_changing {
            self.is_changing = self.plan(&listed).await;
        }
    }

    fn is_voter(&self, listed: &[Listed]) -> bool {
        let own = self.file.member();
        listed.iter().any(|member| Some(member.id) == own && !member.is_learner)
    }

    /// Starts, restarts or leaves alone the member on this host. A member that was taken out ends
    /// by itself once it hears of it; it is never ended because of a list, which may be an old one.
    fn run_own(&mut self, listed: Option<&[Listed]>) {
        let url = self.file.member_url();
        let entry = listed.map(|all| all.iter().find(|member| member.member_url == url));
        let known = self.file.member();
        let is_running = self.own.as_mut().is_some_and(|(_, keeper)| keeper.is_running());
        let wanted = match entry {
            // Nobody answers. It may be this one that is missing.
            None if self.begun.elapsed() >= ASKS_FIRST || is_running || self.is_only() => known,
            None => return,
            Some(_) if is_running => known,
            Some(entry) => entry.map(|member| member.id),
        };
        if wanted != known {
            let (of, is) = (known.map(hex), wanted.map(hex));
            info!(?of, ?is, "this host's member of the directory is another one now");
            self.file = self.file.clone().with_member(wanted);
            self.write();
        }
        if self.own.as_ref().map(|(id, _)| *id) != wanted {
            self.own = wanted.map(|id| (id, Keeper::idle("the directory's member on this host")));
        }
        let Some((id, keeper)) = &mut self.own else { return };
        let is_learner = |all: &[Listed]| all.iter().any(|it| it.id == *id && it.is_learner);
        let start = match listed {
            _ if self.data.has(*id) => EtcdStart::Again,
            Some(all) if is_learner(all) => {
                EtcdStart::Join(initial_cluster(all, *id, &self.file.host))
            }
            // Without its data a member that voted must not come back as if it had them: it stays
            // silent until its place goes to another one.
            _ => return,
        };
        keeper.look(Instant::now(), || Ok(self.data.start(*id, start)?));
    }

    /// Whether the directory was on this host alone when it was last heard of.
    fn is_only(&self) -> bool {
        self.file.state.endpoints == [self.file.client_url()]
    }

    /// Keeps where the directory is, for this host's next start and for its shards.
    async fn remember(&mut self, listed: &[Listed]) {
        let voters = listed.iter().filter(|member| !member.is_learner);
        let urls: BTreeSet<String> = voters.filter_map(|it| it.client_url.clone()).collect();
        if urls.is_empty() {
            return;
        }
        follow_to(&self.client, &mut self.endpoints, &urls).await;
        if !self.file.state.endpoints.iter().eq(&urls) {
            self.file.state.endpoints = urls.into_iter().collect();
            self.write();
        }
    }

    fn write(&self) {
        if let Err(error) = self.file.write_state() {
            error!(error = format!("{error:#}"), "where the directory is cannot be kept");
        }
    }

    /// Says that this host runs and could be a member.
    async fn give_sign(&mut self) {
        let mut client = self.client.clone();
        let kept = async {
            let lease = self.lease?;
            client.lease_keep_alive(lease).await.ok().map(|_| lease)
        };
        let kept = tokio::time::timeout(CHANGE_MAX, kept).await.ok().flatten();
        if kept.is_some() {
            return;
        }
        let (mut client, key) = (self.client.clone(), picture::sign_key(&self.file.host));
        let url = self.file.member_url();
        let given = async {
            let lease = client.lease_grant(SIGN_TTL_S, None).await.ok()?.id();
            let options = PutOptions::new().with_lease(lease);
            client.put(key, url, Some(options)).await.ok().map(|_| lease)
        };
        self.lease = tokio::time::timeout(CHANGE_MAX, given).await.ok().flatten();
    }

    /// Changes who the members are, one step, if the one on this host leads. Returns whether it
    /// did.
    async fn plan(&mut self, listed: &[Listed]) -> bool {
        let Some((id, _)) = self.own else { return false };
        if ask(&self.door, &self.file.client_url()).await.is_none_or(|said| said.leader != id) {
            self.silent.clear();
            return false;
        }
        let said = ask_all(&self.door, listed).await;
        let answers: BTreeSet<u64> = listed
            .iter()
            .zip(&said)
            .filter_map(|(it, said)| said.as_ref().map(|_| it.id))
            .collect();
        self.silent.retain(|id, _| !answers.contains(id) && listed.iter().any(|it| it.id == *id));
        let now = Instant::now();
        for member in listed.iter().filter(|member| !answers.contains(&member.id)) {
            self.silent.entry(member.id).or_insert(now);
        }
        let silent = |id: u64| self.silent.get(&id).map(|since| now.duration_since(*since));
        let drawn = picture::draw(&self.client, listed, id, silent, self.file.move_after());
        let Ok(Some(drawn)) = tokio::time::timeout(CHANGE_MAX, drawn).await else { return false };
        let Some(step) = next_step(&drawn.picture) else { return false };
        self.carry_out(step, &drawn.urls).await
    }

    async fn carry_out(&self, step: DirectoryStep, urls: &BTreeMap<String, String>) -> bool {
        let mut cluster = self.client.cluster_client();
        let (what, done) = match step {
            DirectoryStep::Add(host) => {
                let Some(url) = urls.get(&host) else { return false };
                let options = MemberAddOptions::new().with_is_learner();
                let done = cluster.member_add(vec![url.clone()], Some(options));
                let done = tokio::time::timeout(CHANGE_MAX, done).await;
                (format!("{host} gets a member"), done.map(|done| done.map(drop)))
            }
            DirectoryStep::Promote(id) => {
                let done = tokio::time::timeout(CHANGE_MAX, cluster.member_promote(id)).await;
                (format!("{} votes", hex(id)), done.map(|done| done.map(drop)))
            }
            DirectoryStep::Remove(id) => {
                let done = tokio::time::timeout(CHANGE_MAX, cluster.member_remove(id)).await;
                (format!("{} is taken out", hex(id)), done.map(|done| done.map(drop)))
            }
        };
        let why = match done {
            Ok(Ok(())) => {
                info!(what, "the members of the directory change");
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        warn!(what, why, "not yet");
        false
    }

    /// The other members are gone for good, an operator says: this host's goes on without them, or,
    /// where it has none, with nothing.
    async fn go_on_alone(&mut self) -> Result<(), ControlError> {
        self.own = None;
        let known = self.file.member().filter(|id| self.data.has(*id));
        let (id, process) = match known {
            Some(id) => (id, self.data.start(id, EtcdStart::Alone)?),
            None => self.data.begin().await?,
        };
        self.data.wait_until_it_answers().await?;
        self.own = Some((id, Keeper::new("the directory's member on this host", process)));
        let url = self.file.client_url();
        self.file = self.file.clone().with_member(Some(id)).with_endpoints(vec![url.clone()]);
        self.file.write_state()?;
        self.client = self.door.connect(std::slice::from_ref(&url), false).await?;
        (self.endpoints, self.lease) = (BTreeSet::from([url]), None);
        self.silent.clear();
        self.data.has_gone_on_alone();
        info!(member = hex(id), "the directory goes on on this host alone");
        Ok(())
    }

    /// Before the end: another member leads, so that nobody waits for an election.
    async fn hand_over(&mut self) {
        let Some((id, _)) = self.own else { return };
        let url = self.file.client_url();
        let handed_over = async {
            let said = ask(&self.door, &url).await.filter(|said| said.leader == id)?;
            let listed = list(&self.client).await?;
            let others: Vec<_> =
                listed.into_iter().filter(|it| it.id != said.leader && !it.is_learner).collect();
            let answers = ask_all(&self.door, &others).await;
            let (heir, _) = others.iter().zip(answers).find(|(_, said)| said.is_some())?;
            // Only the leader itself can do it.
            let mut client = self.door.connect(std::slice::from_ref(&url), false).await.ok()?;
            client.move_leader(heir.id).await.ok()
        };
        let _ = tokio::time::timeout(CHANGE_MAX, handed_over).await;
    }
}

fn hex(id: u64) -> String {
    format!("{id:x}")
}

/// All members as etcd wants to be told of them before it joins.
fn initial_cluster(listed: &[Listed], own: u64, host: &str) -> String {
    let entry = |member: &Listed| {
        let name = match (member.id == own, member.name.is_empty()) {
            (true, _) => host.to_owned(),
            (false, true) => hex(member.id),
            (false, false) => member.name.clone(),
        };
        format!("{name}={}", member.member_url)
    };
    listed.iter().map(entry).collect::<Vec<_>>().join(",")
}
