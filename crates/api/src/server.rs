// SPDX-License-Identifier: Apache-2.0
//! The listeners: a thread of its own beside the shards. There is one on a Unix socket that only
//! its user may connect to, and one on the network where there are keys for it (`network`).

use crate::access::{ApiCaller, Origin};
use crate::audit::AuditLog;
use crate::configs::ShardConfigs;
use crate::gather::ShardDoor;
use crate::health::{self, HealthWatch};
use crate::history::{self, PerformanceWatch};
use crate::joining::JoinDoor;
use crate::machine::MachineLook;
use crate::network::{self, NetworkDoor, NetworkListener};
use crate::notifications::{HostSight, Teller};
use crate::service::{ADMISSIONS_MAX, Api, REQUESTS_MAX, router, serve};
use axum::Router;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, oneshot};

/// Most connections at once. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// After a failure to accept a connection: the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no API.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody could say who changed what.
    #[error("cannot keep the audit in '{place}': {source}")]
    Audit {
        /// Its path.
        place: String,
        /// What the system says.
        source: io::Error,
    },
    /// Nobody could say what changed.
    #[error("cannot keep what health checks find beside '{place}': {source}")]
    Health {
        /// The path of the audit.
        place: String,
        /// What the system says.
        source: io::Error,
    },
    /// A socket cannot be made.
    #[error("cannot listen on '{place}': {source}")]
    Listen {
        /// Its path or address.
        place: String,
        /// What the system says.
        source: io::Error,
    },
}

/// What an API is to be.
pub struct ApiOptions {
    /// Its Unix socket.
    pub socket: PathBuf,
    /// The shards that it answers for.
    pub shards: Vec<ShardDoor>,
    /// Their configuration files.
    pub configs: Arc<dyn ShardConfigs>,
    /// What is looked at beside the shards.
    pub machine: Arc<dyn MachineLook>,
    /// Where it is on the network, if it is.
    pub network: Option<NetworkDoor>,
    /// What it gives to machines that are to become hosts, if any may. It is asked for it where it
    /// is on the network.
    pub joining: Option<JoinDoor>,
    /// The file that says who changed what; none: nobody keeps it. What health checks found is in
    /// files beside it, and what the shards did; without, health is looked at when somebody asks
    /// and at no other time, and nobody looks at performance.
    pub audit: Option<PathBuf>,
}

/// A running API. It ends when this is dropped.
#[derive(Debug)]
pub struct ApiServer {
    socket: PathBuf,
    network: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has said why, if it panicked.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl ApiServer {
    /// Where it is on the network, if it is.
    #[must_use]
    pub fn network(&self) -> Option<SocketAddr> {
        self.network
    }
}

/// Begins to answer.
///
/// # Errors
/// [`ApiError::Listen`].
pub fn start(options: ApiOptions) -> Result<ApiServer, ApiError> {
    let ApiOptions { socket, shards, configs, machine, network, joining, audit } = options;
    let failed = |source| ApiError::Listen { place: socket.display().to_string(), source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One more for the scrape of metrics that has its turn, one for health checks, and one for
        // looks at performance.
        .max_blocking_threads(REQUESTS_MAX + ADMISSIONS_MAX + 3)
        .build()
        .map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        listen(&socket).map_err(failed)?
    };
    let on_network = |door: NetworkDoor| {
        let place = door.address.to_string();
        network::listen(door, &runtime).map_err(|source| ApiError::Listen { place, source })
    };
    let network = network.map(on_network).transpose()?;
    let address = network.as_ref().map(NetworkListener::address);
    let door = joining.zip(address).map(|(door, address)| JoinDoor { address, ..door });
    let (stop, stopped) = oneshot::channel();
    let place = audit.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let is_kept = audit.is_some();
    let performance = PerformanceWatch::new(shards.clone(), Arc::clone(&machine), audit.as_deref());
    let performance = Arc::new(performance);
    let health = HealthWatch::open(shards.clone(), machine, audit.as_deref());
    let health = health.map_err(|source| ApiError::Health { place: place.clone(), source })?;
    let health = Arc::new(health);
    let audit = AuditLog::open(audit).map_err(|source| ApiError::Audit { place, source })?;
    let sight = HostSight::new(shards.clone(), Arc::clone(&health), address);
    let teller = Teller::start(sight, is_kept);
    let watches = (Arc::clone(&health), Arc::clone(&performance), teller);
    let api = Arc::new(Api::new(shards, configs, (audit, run()), watches, door));
    let serve = move || {
        runtime.block_on(async {
            tokio::spawn(accept(listener, router(&api)));
            if let Some(network) = network {
                tokio::spawn(network.accept(network::guarded(router(&api), &api)));
            }
            let feed = Arc::clone(&api);
            tokio::spawn(async move { feed.watch().await });
            if is_kept {
                tokio::spawn(health::watch(health));
                tokio::spawn(history::watch(Arc::clone(&performance)));
            }
            let _ = stopped.await;
            performance.close();
        });
        // Whoever waits for a shard does not hold up the end.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("api".to_owned()).spawn(serve).map_err(failed)?;
    Ok(ApiServer { socket, network: address, stop: Some(stop), thread: Some(thread) })
}

/// A socket that nobody else may connect to, at no moment: it gets its name last.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    let mut new = socket.as_os_str().to_owned();
    new.push(".new");
    let _ = std::fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&new, socket)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, router: Router) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let router = router.clone();
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        let caller = Some(ApiCaller::local(uid));
        tokio::spawn(async move {
            serve(stream, router, Origin { from: "unix".to_owned(), caller }).await;
            drop(place);
        });
    }
}

/// Tells this run of the program from others.
fn run() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}
