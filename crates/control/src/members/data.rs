// SPDX-License-Identifier: Apache-2.0
//! What a member on this host keeps, and starting it. Each member has a folder that is named after
//! its number: what an earlier one left is never taken for the data of a later one.

use super::look::list;
use super::proof::MemberProof;
use crate::client::{DirectoryDoor, Endpoints};
use crate::error::ControlError;
use crate::member_file::MemberFile;
use crate::supervise::{EtcdProcess, EtcdSettings, EtcdStart};
use crate::thread::runtime;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Folder of a member whose number is not known yet.
const NEW: &str = "etcd-new";
/// How long a member that needs no other one may take until it answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);
/// The wait between two questions.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The folder of the members on this host.
pub struct MemberData {
    folder: PathBuf,
    settings: EtcdSettings,
    /// Where this one answers.
    own: Endpoints,
    /// Where it answers other members.
    member_url: String,
    proof: Option<MemberProof>,
}

impl MemberData {
    /// That of the host whose file this is.
    pub fn of(file: &MemberFile) -> Result<Self, ControlError> {
        let proof = file.keys().map(|keys| MemberProof::open(file, keys)).transpose()?;
        let settings = EtcdSettings {
            name: file.host.clone(),
            clients: file.for_clients(),
            members: file.for_members(),
            folder: file.data.clone(),
            data: String::new(),
            start: EtcdStart::Again,
            proof: proof.as_ref().map(MemberProof::files),
        };
        let own = Endpoints { urls: vec![file.client_url()], ..file.endpoints() };
        let (folder, member_url) = (file.data.clone(), file.member_url());
        Ok(Self { folder, settings, own, member_url, proof })
    }

    /// Makes what the member on this host proves itself with again, where that is due.
    pub fn renew_proof(&mut self) {
        if let Some(proof) = &mut self.proof {
            proof.renew();
        }
    }

    /// Whether anything is there of this member.
    pub fn has(&self, id: u64) -> bool {
        has(&self.folder, id)
    }

    /// Starts this member. Does not wait until it answers.
    pub fn start(&self, id: u64, start: EtcdStart) -> Result<EtcdProcess, ControlError> {
        EtcdProcess::spawn(&EtcdSettings { data: name(id), start, ..self.settings.clone() })
    }

    /// Begins a new directory with a member on this host alone. Returns it running.
    pub async fn begin(&self) -> Result<(u64, EtcdProcess), ControlError> {
        let fresh = self.folder.join(NEW);
        let wrap = |source| ControlError::EtcdStart { path: fresh.clone(), source };
        if fresh.exists() {
            // An attempt that was interrupted; nobody has used it.
            fs::remove_dir_all(&fresh).map_err(wrap)?;
        }
        let (data, start) = (NEW.to_owned(), EtcdStart::New);
        let process = EtcdProcess::spawn(&EtcdSettings { data, start, ..self.settings.clone() })?;
        let id = self.wait_until_it_answers().await?;
        drop(process);
        fs::rename(&fresh, self.folder.join(name(id))).map_err(wrap)?;
        let process = self.start(id, EtcdStart::Again)?;
        self.wait_until_it_answers().await?;
        Ok((id, process))
    }

    /// Waits until the member on this host answers, and returns its number.
    pub async fn wait_until_it_answers(&self) -> Result<u64, ControlError> {
        let begun = Instant::now();
        let client = DirectoryDoor::to(&self.own)?.connect(&self.own.urls, false).await?;
        while begun.elapsed() < ANSWERS_WITHIN {
            let listed = list(&client).await.unwrap_or_default();
            let own = listed.iter().find(|member| member.member_url == self.member_url);
            // It lists itself before it can write: its name is a first write.
            if let Some(own) = own.filter(|own| own.client_url.is_some()) {
                return Ok(own.id);
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Err(ControlError::Silent { endpoints: self.own.urls.join(", ") })
    }

    /// Removes what other members than this one left.
    pub fn remove_others(&self, id: Option<u64>) {
        let Some(own) = id.map(name) else { return };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let other =
                entry.file_name().to_str().is_some_and(|it| it.starts_with("etcd-") && it != own);
            if other && entry.path().is_dir() {
                // It is tried again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Whether an operator said that this host's member is to go on alone.
    pub fn is_to_go_on_alone(&self) -> bool {
        alone(&self.folder).exists()
    }

    /// It does.
    pub fn has_gone_on_alone(&self) {
        // Left behind, it would only make the same again.
        let _ = fs::remove_file(alone(&self.folder));
    }
}

fn has(folder: &Path, id: u64) -> bool {
    folder.join(name(id)).join("member").is_dir()
}

fn name(id: u64) -> String {
    format!("etcd-{id:x}")
}

/// Stands for an operator's word until it is done.
fn alone(folder: &Path) -> PathBuf {
    folder.join("go-on-alone")
}

/// Tells the daemon of the host whose file this is that its member is to go on without the others.
/// Returns whether the host has anything of the directory.
///
/// # Errors
/// [`ControlError::EtcdStart`]: its folder cannot be written.
pub fn go_on_alone(file: &MemberFile) -> Result<bool, ControlError> {
    let wrap = |source| ControlError::EtcdStart { path: file.data.clone(), source };
    fs::create_dir_all(&file.data).map_err(wrap)?;
    fs::write(alone(&file.data), "").map_err(wrap)?;
    Ok(has_any(file))
}

/// Whether a host has anything of the directory.
#[must_use]
pub fn has_any(file: &MemberFile) -> bool {
    file.member().is_some_and(|id| has(&file.data, id))
}

/// Begins the directory of a new cluster on the host whose file this is. Returns the file as it is
/// then, and the member, which ends when it is dropped.
///
/// # Errors
/// [`ControlError`]: there is a directory already, or etcd does not start.
pub fn begin_directory(file: &MemberFile) -> Result<(MemberFile, EtcdProcess), ControlError> {
    if fs::read_dir(&file.data).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(ControlError::DirectoryExists { path: file.data.clone() });
    }
    let runtime = runtime()?;
    let begun = MemberData::of(file).and_then(|data| runtime.block_on(data.begin()));
    let (id, process) = begun.inspect_err(|_| {
        // There was nothing before: the next attempt begins again.
        let _ = fs::remove_dir_all(&file.data);
    })?;
    let file = file.clone().with_member(Some(id)).with_endpoints(vec![file.client_url()]);
    Ok((file, process))
}
