// SPDX-License-Identifier: Apache-2.0
//! One request to etcd and its answer.

use directory::protocol::{Answer, DirectoryRequest, PART_BYTES_MAX, split_listing};
use directory::{
    DirectoryError, Entry, Expect, LeaseId, Listing, Transacted, Transaction, VALUE_BYTES_MAX,
    check_key,
};
use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, KeyValue, KvClient, PutOptions, Txn, TxnOp,
};
use std::time::Duration;
use tokio::time::Instant;

/// Shorter than the shard's own timeout, so that the shard gets a precise answer instead of none.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(2500);
/// A request is made again after this where the members surely did nothing about it.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What a member says that knows no leader: it has not looked at the request.
const NO_LEADER: &str = "etcdserver: no leader";
/// Keys that one page of a listing holds.
const PAGE_KEYS: i64 = 128;
/// Bytes of one answer of etcd: a page of the largest values, or all changes that a watch catches
/// up on.
pub const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Numbers of gRPC's status codes.
const GRPC_INVALID_ARGUMENT: i32 = 3;
const GRPC_NOT_FOUND: i32 = 5;
const GRPC_RESOURCE_EXHAUSTED: i32 = 8;

/// Carries out a request that is no watch, and returns the answers to send, at least one.
pub async fn carry_out(client: Client, request: DirectoryRequest) -> Vec<Answer> {
    // What to say where the outcome is not known.
    let unsure = match request {
        DirectoryRequest::Transact(_) | DirectoryRequest::LeaseRevoke { .. } => {
            DirectoryError::Unknown
        }
        _ => DirectoryError::Unavailable,
    };
    // A lease that is granted twice would be one too many.
    let is_repeatable = matches!(
        request,
        DirectoryRequest::Get { .. }
            | DirectoryRequest::List { .. }
            | DirectoryRequest::Transact(_)
    );
    let ask = || ask(client.clone(), request.clone(), unsure);
    let answered = patiently(is_repeatable, unsure, ask).await;
    answered.unwrap_or_else(|error| vec![Answer::Failed(error)])
}

/// Asks, and asks again where that `is_repeatable` and the members surely did nothing: they are
/// electing a leader, or the one that was asked has gone.
async fn patiently<T, F: Future<Output = Result<T, DirectoryError>>>(
    is_repeatable: bool,
    unsure: DirectoryError,
    ask: impl Fn() -> F,
) -> Result<T, DirectoryError> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    loop {
        let answer = tokio::time::timeout_at(deadline, ask()).await.unwrap_or(Err(unsure));
        let is_over = Instant::now() + ASK_AGAIN_AFTER >= deadline;
        if is_over || !is_repeatable || !matches!(answer, Err(DirectoryError::Unavailable)) {
            return answer;
        }
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
}

async fn ask(
    mut client: Client,
    request: DirectoryRequest,
    unsure: DirectoryError,
) -> Result<Vec<Answer>, DirectoryError> {
    match request {
        DirectoryRequest::Ping => Ok(vec![Answer::Done]),
        DirectoryRequest::Get { key } => Ok(vec![Answer::Entry(get(&client, &key, unsure).await?)]),
        DirectoryRequest::List { prefix } => {
            check_key(&prefix)?;
            Ok(split_listing(list(&client, &prefix).await?, PART_BYTES_MAX))
        }
        DirectoryRequest::Transact(transaction) => {
            Ok(vec![Answer::Transacted(transact(&mut client, transaction).await?)])
        }
        DirectoryRequest::LeaseGrant { ttl_ms } => {
            Ok(vec![Answer::Lease(grant(&mut client, ttl_ms).await?)])
        }
        DirectoryRequest::LeaseKeep { lease } => {
            let kept = client.lease_keep_alive(id_of(lease)).await;
            kept.map(|_| vec![Answer::Done]).map_err(|error| cause(&error, unsure))
        }
        DirectoryRequest::LeaseRevoke { lease } => {
            let revoked = client.lease_revoke(id_of(lease)).await;
            revoked.map(|_| vec![Answer::Done]).map_err(|error| cause(&error, unsure))
        }
        DirectoryRequest::Watch { .. } | DirectoryRequest::Unwatch { .. } => {
            unreachable!("the connection carries these out itself")
        }
    }
}

/// What an error of etcd means. It is `unsure` where it does not tell whether the request had an
/// effect.
fn cause(error: &Error, unsure: DirectoryError) -> DirectoryError {
    match error {
        Error::LeaseKeepAliveError(text) if text == "lease not found" => DirectoryError::LeaseGone,
        Error::GRpcStatus(status) if status.message() == NO_LEADER => DirectoryError::Unavailable,
        // Believes only what etcd itself said after it looked at the request.
        Error::GRpcStatus(status) if status.message().starts_with("etcdserver: ") => {
            match i32::from(status.code()) {
                GRPC_NOT_FOUND => DirectoryError::LeaseGone,
                GRPC_RESOURCE_EXHAUSTED => DirectoryError::Unavailable,
                GRPC_INVALID_ARGUMENT if status.message().contains("too large") => {
                    DirectoryError::TooLarge
                }
                GRPC_INVALID_ARGUMENT if status.message().contains("too many") => {
                    DirectoryError::TooLarge
                }
                GRPC_INVALID_ARGUMENT => DirectoryError::Malformed,
                _ => unsure,
            }
        }
        _ => unsure,
    }
}

fn kv(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(RESPONSE_BYTES_MAX)
}

/// etcd's numbers are signed and never negative.
pub fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A lease's id for etcd. An id that etcd cannot have given becomes 0, which is no lease of etcd.
fn id_of(lease: LeaseId) -> i64 {
    i64::try_from(lease.0).unwrap_or(0)
}

/// A key and its entry. `None` where another program wrote what this protocol cannot carry.
pub fn entry_of(pair: &KeyValue) -> Option<(String, Entry)> {
    let key = pair.key_str().ok()?.to_owned();
    let value = pair.value().to_vec();
    if check_key(&key).is_err() || value.len() > VALUE_BYTES_MAX {
        return None;
    }
    Some((key, Entry { value, revision: number(pair.mod_revision()) }))
}

async fn get(
    client: &Client,
    key: &str,
    unsure: DirectoryError,
) -> Result<Option<Entry>, DirectoryError> {
    check_key(key)?;
    let response = kv(client).get(key, None).await.map_err(|error| cause(&error, unsure))?;
    match response.kvs().first() {
        None => Ok(None),
        Some(pair) => match entry_of(pair) {
            Some((_, entry)) => Ok(Some(entry)),
            None => Err(DirectoryError::TooLarge),
        },
    }
}

/// All keys with a prefix at one revision, the newest one: the first page is linearizable and
/// decides the revision of the others.
pub async fn list(client: &Client, prefix: &str) -> Result<Listing, DirectoryError> {
    let mut kv = kv(client);
    let end = prefix_end(prefix.as_bytes());
    let mut listing = Listing::default();
    let mut from = prefix.as_bytes().to_vec();
    loop {
        let mut options = GetOptions::new().with_range(end.clone()).with_limit(PAGE_KEYS);
        if listing.revision > 0 {
            options = options.with_revision(i64::try_from(listing.revision).unwrap_or(0));
        }
        let page = kv.get(from, Some(options)).await;
        let page = page.map_err(|error| cause(&error, DirectoryError::Unavailable))?;
        if listing.revision == 0 {
            listing.revision = page.header().map_or(0, |header| number(header.revision()));
        }
        listing.entries.extend(page.kvs().iter().filter_map(entry_of));
        let Some(last) = page.kvs().last().filter(|_| page.more()) else { return Ok(listing) };
        from = last.key().to_vec();
        from.push(0);
    }
}

/// The first key behind all keys with `prefix`. Where there is none, etcd's "to the end".
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

async fn grant(client: &mut Client, ttl_ms: u64) -> Result<LeaseId, DirectoryError> {
    let seconds = i64::try_from(ttl_ms.div_ceil(1000)).map_err(|_| DirectoryError::Malformed)?;
    if seconds == 0 {
        return Err(DirectoryError::Malformed);
    }
    let granted = client.lease_grant(seconds, None).await;
    let granted = granted.map_err(|error| cause(&error, DirectoryError::Unavailable))?;
    Ok(LeaseId(number(granted.id())))
}

async fn transact(
    client: &mut Client,
    transaction: Transaction,
) -> Result<Transacted, DirectoryError> {
    transaction.check()?;
    let compare: Vec<Compare> =
        transaction.compare.into_iter().map(|(key, expect)| compare(key, expect)).collect();
    let put = |(key, value, lease): (String, Vec<u8>, Option<LeaseId>)| {
        let options = lease.map(|lease| PutOptions::new().with_lease(id_of(lease)));
        TxnOp::put(key, value, options)
    };
    let mut operations: Vec<TxnOp> = transaction.puts.into_iter().map(put).collect();
    operations.extend(transaction.deletes.into_iter().map(|key| TxnOp::delete(key, None)));
    let response = client.txn(Txn::new().when(compare).and_then(operations)).await;
    let response = response.map_err(|error| cause(&error, DirectoryError::Unknown))?;
    let revision = response.header().map_or(0, |header| number(header.revision()));
    Ok(Transacted { succeeded: response.succeeded(), revision })
}

fn compare(key: String, expect: Expect) -> Compare {
    match expect {
        Expect::Absent => Compare::create_revision(key, CompareOp::Equal, 0),
        Expect::Present => Compare::create_revision(key, CompareOp::Greater, 0),
        // To etcd, 0 is the revision of an absent key. Here no key has revision 0, so it must not
        // match.
        Expect::Revision(0) => Compare::mod_revision(key, CompareOp::Equal, i64::MAX),
        Expect::Revision(revision) => {
            let revision = i64::try_from(revision).unwrap_or(i64::MAX);
            Compare::mod_revision(key, CompareOp::Equal, revision)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::runtime;
    use DirectoryError::{Unavailable, Unknown};
    use std::cell::RefCell;

    /// What a request comes to whose attempts end so, the last one first, and how many are left.
    fn asked(
        is_repeatable: bool,
        ends: &[Result<(), DirectoryError>],
    ) -> (Result<(), DirectoryError>, usize) {
        let left = RefCell::new(ends.to_vec());
        let ask = || async { left.borrow_mut().pop().expect("no more than these") };
        let runtime = runtime().expect("a runtime");
        let end = runtime.block_on(patiently(is_repeatable, Unknown, ask));
        (end, left.into_inner().len())
    }

    #[test]
    fn what_surely_had_no_effect_is_asked_again_and_nothing_else() {
        let passing = [Ok(()), Err(Unavailable), Err(Unavailable)];
        assert_eq!(asked(true, &passing), (Ok(()), 0));
        assert_eq!(asked(false, &passing), (Err(Unavailable), 2));
        assert_eq!(asked(true, &[Ok(()), Err(Unknown), Err(Unavailable)]), (Err(Unknown), 1));
        assert_eq!(asked(true, &[Err(Unavailable); 64]).0, Err(Unavailable), "not for ever");
    }

    #[test]
    fn what_gets_no_answer_at_all_is_given_up_in_time() {
        let runtime = runtime().expect("a runtime");
        let silent = || std::future::pending::<Result<(), DirectoryError>>();
        assert_eq!(runtime.block_on(patiently(true, Unknown, silent)), Err(Unknown));
    }
}
