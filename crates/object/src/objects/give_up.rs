// SPDX-License-Identifier: Apache-2.0
//! Components that are given up where another host stands for them: see `replica/vouch.rs`.

use super::Objects;
use crate::status::Vouched;
use base::{ComponentId, ShardId};
use env::join_all;
use std::time::Duration;
use wire::{Holding, Refusal, Request, Response};

/// How long hosts are given to answer.
const VOUCH_WAIT: Duration = Duration::from_secs(2);

impl Objects {
    /// From now on this host does not stand for `component`: before it asks others to.
    pub fn begin_giving_up(&self, component: ComponentId) {
        self.0.0.replicas.begin_giving_up(component);
    }

    /// It does again. Only for whoever knows that the component is not being deleted any more.
    pub fn end_giving_up(&self, component: ComponentId) {
        self.0.0.replicas.end_giving_up(component);
    }

    /// Asks other hosts whether one of them surely has all that `holding` says; for two seconds at
    /// most.
    pub async fn vouched(&self, shards: Vec<ShardId>, holding: Holding) -> Vouched {
        let inner = &self.0.0;
        let ask = async |shard: ShardId| {
            let call = inner.context.peers.call(shard, Request::Vouch { holding });
            (shard, inner.env().timeout(VOUCH_WAIT, call).await)
        };
        let others = shards.into_iter().filter(|shard| *shard != inner.context.me.shard);
        let answers = join_all(others.map(|shard| Box::pin(ask(shard))).collect()).await;
        let mut vouched = Vouched::ByNobody;
        for (shard, answer) in answers {
            match answer {
                Ok(Ok(Response::Done)) => return Vouched::By(shard),
                Ok(Ok(Response::Refused { reason: Refusal::NotReady })) => vouched = Vouched::Busy,
                _ => {}
            }
        }
        vouched
    }
}
