// SPDX-License-Identifier: Apache-2.0
//! What the members say: which there are, and how each is.

use crate::client::{DirectoryDoor, Endpoints};
use crate::error::ControlError;
use crate::thread::runtime;
use etcd_client::Client;
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A question to a member is given up after this.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Members that lost their leader answer nothing for about as long, until they elected another one.
pub const ELECTION_MAX: Duration = Duration::from_secs(3);
/// A question that nobody answered is asked again after this. A client asks any of the members, and
/// does not ask another one by itself where that one is gone.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A member, as the members list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub id: u64,
    /// The host that it is on; empty as long as it was never started.
    pub name: String,
    /// Where other members reach it.
    pub member_url: String,
    /// Where clients reach it; `None` as long as it was never started.
    pub client_url: Option<String>,
    /// Whether it is being filled and has no vote yet.
    pub is_learner: bool,
}

/// A member, and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberReport {
    /// Its number, hexadecimal.
    pub id: String,
    /// The host that it is on; empty as long as it was never started.
    pub host: String,
    /// Where clients reach it; empty as long as it was never started.
    pub url: String,
    /// What it is.
    pub role: MemberRole,
    /// Whether it answers.
    pub answers: bool,
    /// Bytes of its file; 0 where it does not answer.
    pub bytes: u64,
    /// Its version of etcd; empty where it does not answer.
    pub version: String,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberRole {
    /// It votes, and leads.
    Leader,
    /// It votes.
    Voter,
    /// It is being filled.
    Learner,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who leads, as it knows.
    pub leader: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Its version of etcd.
    pub version: String,
}

/// All members, as any of them lists them. `None`: nobody answers.
pub async fn list(client: &Client) -> Option<Vec<Listed>> {
    let mut cluster = client.cluster_client();
    let answer = tokio::time::timeout(ANSWER_MAX, cluster.member_list()).await.ok()?.ok()?;
    let listed = |member: &etcd_client::Member| Listed {
        id: member.id(),
        name: member.name().to_owned(),
        member_url: member.peer_urls().first().cloned().unwrap_or_default(),
        client_url: member.client_urls().first().cloned(),
        is_learner: member.is_learner(),
    };
    Some(answer.members().iter().map(listed).collect())
}

/// Asks one member how it is. `None`: it does not answer.
pub async fn ask(door: &DirectoryDoor, url: &str) -> Option<Said> {
    let asked = async {
        let mut client = door.connect(&[url.to_owned()], false).await.ok()?;
        let status = client.status().await.ok()?;
        let bytes = u64::try_from(status.db_size()).unwrap_or(0);
        Some(Said { leader: status.leader(), bytes, version: status.version().to_owned() })
    };
    tokio::time::timeout(ANSWER_MAX, asked).await.ok()?
}

/// Asks all of them at once. What each says is in the order of the list.
pub async fn ask_all(door: &DirectoryDoor, listed: &[Listed]) -> Vec<Option<Said>> {
    let mut asked = JoinSet::new();
    for (at, member) in listed.iter().enumerate() {
        if let Some(url) = member.client_url.clone() {
            let door = door.clone();
            asked.spawn(async move { (at, ask(&door, &url).await) });
        }
    }
    let mut said = vec![None; listed.len()];
    while let Some(Ok((at, answer))) = asked.join_next().await {
        said[at] = answer;
    }
    said
}

/// All members of the directory behind `endpoints`, and how each is. Where nobody answers it asks
/// again for as long as `patience`: members that elect a leader answer nothing meanwhile. Blocks
/// for two seconds more at most.
///
/// # Errors
/// [`ControlError::Silent`]: no member answers. [`ControlError::Endpoints`]. The key of the
/// cluster's CA is wanted, and is not here.
pub fn members(
    endpoints: &Endpoints,
    patience: Duration,
) -> Result<Vec<MemberReport>, ControlError> {
    let (runtime, door) = (runtime()?, DirectoryDoor::to(endpoints)?);
    let begun = Instant::now();
    runtime.block_on(async {
        let client = door.connect(&endpoints.urls, false).await?;
        let listed = loop {
            match list(&client).await {
                Some(listed) => break listed,
                None if begun.elapsed() < patience => tokio::time::sleep(ASK_AGAIN_AFTER).await,
                None => return Err(ControlError::Silent { endpoints: endpoints.urls.join(", ") }),
            }
        };
        let said = ask_all(&door, &listed).await;
        Ok(listed.iter().zip(said).map(|(member, said)| report(member, said)).collect())
    })
}

fn report(member: &Listed, said: Option<Said>) -> MemberReport {
    let leads = said.as_ref().is_some_and(|said| said.leader == member.id);
    let role = match (member.is_learner, leads) {
        (true, _) => MemberRole::Learner,
        (false, true) => MemberRole::Leader,
        (false, false) => MemberRole::Voter,
    };
    MemberReport {
        id: format!("{:x}", member.id),
        host: member.name.clone(),
        url: member.client_url.clone().unwrap_or_default(),
        role,
        answers: said.is_some(),
        bytes: said.as_ref().map_or(0, |said| said.bytes),
        version: said.map(|said| said.version).unwrap_or_default(),
    }
}

/// What an operator should know of the members, a line each.
#[must_use]
pub fn alarms(members: &[MemberReport]) -> Vec<String> {
    let voters: Vec<_> = members.iter().filter(|it| it.role != MemberRole::Learner).collect();
    let answering = voters.iter().filter(|voter| voter.answers).count();
    // Further ones that may go silent while a majority answers.
    let spare = answering.saturating_sub(voters.len() / 2 + 1);
    let silent = voters.iter().filter(|voter| !voter.answers);
    let line = |voter: &&&MemberReport| {
        let then = match spare {
            0 => {
                "if one more does not, nothing can be changed and no host can take over".to_owned()
            }
            spare => format!("{spare} more may be silent"),
        };
        format!(
            "the directory's member on {} does not answer, {answering} of {} do: {then}; start the \
             host again, or wait: another host gets its place (gabion directory members)",
            voter.host,
            voters.len()
        )
    };
    silent.map(|voter| line(&voter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_says_how_many_more_may_be_silent() {
        let member = |host: &str, role, answers| MemberReport {
            id: "1".to_owned(),
            host: host.to_owned(),
            url: String::new(),
            role,
            answers,
            bytes: 0,
            version: String::new(),
        };
        let (leader, voter) = (MemberRole::Leader, MemberRole::Voter);
        let mut all = vec![member("a", leader, true), member("b", voter, true)];
        assert_eq!(alarms(&all), [""; 0]);
        all.push(member("c", voter, false));
        let said = alarms(&all);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("on c does not answer, 2 of 3 do: if one more"), "{}", said[0]);
        all.extend([member("d", voter, true), member("e", voter, true)]);
        assert!(alarms(&all)[0].contains("4 of 5 do: 1 more may be silent"), "{:?}", alarms(&all));
        all.push(member("f", MemberRole::Learner, false));
        assert_eq!(alarms(&all).len(), 1, "a learner is not missed");
    }
}
