// SPDX-License-Identifier: Apache-2.0
//! `gabion up` and `gabion down`.

use super::create;
use super::first_user::first_code;
use super::layout::{ClusterFile, DATA_DEFAULT, Layout, Mode};
use super::lock::{FolderClaim, is_held};
use super::supervisor::{Question, Supervisor, SupervisorAnswer};
use crate::Fail;
use crate::args::{Cli, Output, UpArgs};
use crate::client::ApiDoor;
use crate::daemon::start_log;
use crate::output::{self, say};
use anyhow::{Context, Result};
use operator::NewCodeReport;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest start, with etcd's election and the recovery of large write buffers.
const READY_MAX: Duration = Duration::from_secs(60);
/// Time between looks at a cluster that is starting.
const LOOK: Duration = Duration::from_millis(20);
/// Longest answer of a supervisor that ends hosts.
const DOWN_MAX: Duration = Duration::from_secs(40);

/// A line that says how a cluster is.
pub type StatusLine<'a> = &'a dyn Fn(&Layout, &ClusterFile) -> String;

/// Starts the cluster on this machine. Creates it first where needed. On a terminal it shows
/// `status_line` while the cluster runs.
pub fn up(cli: &Cli, up: &UpArgs, status_line: StatusLine<'_>) -> Result<()> {
    let folder = cli.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
    let layout = Layout::new(&folder)?;
    // Only to report errors early. What counts is read again under the lock.
    layout.read()?;
    let claim =
        if up.background { FolderClaim::inherit(&layout) } else { FolderClaim::take(&layout) };
    let claim = match (claim, layout.read()?) {
        (Ok(claim), _) => claim,
        (Err(error), None) => return Err(error),
        (Err(error), Some(cluster)) => {
            create::check_same(&cluster, up, &layout)?;
            return Err(error);
        }
    };
    let cluster = match find_or_create(&layout, up) {
        Ok(cluster) => cluster,
        Err(error) => {
            claim.undo(&layout);
            return Err(error);
        }
    };
    let lock = claim.into_file();
    if up.detach {
        return detach(cli, &layout, &cluster, lock);
    }
    run(cli, up, (&layout, &cluster), lock, status_line)
}

fn find_or_create(layout: &Layout, up: &UpArgs) -> Result<ClusterFile> {
    let Some(cluster) = layout.read()? else { return create::create(layout, up) };
    create::check_same(&cluster, up, layout)?;
    layout.check_place(&cluster)?;
    Ok(cluster)
}

fn run(
    cli: &Cli,
    up: &UpArgs,
    (layout, cluster): (&Layout, &ClusterFile),
    lock: std::fs::File,
    status_line: StatusLine<'_>,
) -> Result<()> {
    start_log(Some(layout.open_log().context("cannot write the log")?))?;
    let signals =
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    let supervisor = Supervisor::start(layout, cluster, lock)?;
    let stopper = Arc::clone(&supervisor);
    let ignore_hangup = up.background;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if !(ignore_hangup && signal == signal_hook::consts::SIGHUP) {
                stopper.down();
            }
        }
    });
    if up.background {
        supervisor.wait_until_down(|| {});
        return Ok(());
    }
    if let Err(error) = wait_ready(|| Ok(supervisor.readiness())) {
        supervisor.down();
        return Err(error);
    }
    announce(cli, layout, cluster)?;
    let live = std::io::stdout().is_terminal() && cli.output == Output::Table;
    supervisor.wait_until_down(|| {
        if live {
            // A terminal that was closed is no reason to end.
            let line = format!("\r\x1b[K{}", status_line(layout, cluster));
            let _ = output::write(line.as_bytes());
        }
    });
    if live {
        say!("");
    }
    Ok(())
}

/// Starts the background process, which inherits the lock, and waits until the cluster is ready.
fn detach(cli: &Cli, layout: &Layout, cluster: &ClusterFile, lock: std::fs::File) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let log = layout.open_log()?;
    let mut child = crate::program::again()?
        .arg("up")
        .arg("--background")
        .arg("--data")
        .arg(layout.root())
        .stdin(lock)
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("cannot start the cluster in the background")?;
    let socket = layout.supervisor_socket();
    let ready = wait_ready(|| {
        if let Some(status) = child.try_wait()? {
            let log = std::fs::read_to_string(layout.log()).unwrap_or_default();
            let last = log.lines().last().unwrap_or_default().to_owned();
            return Ok(SupervisorAnswer::Failed(format!("the cluster ended ({status}): {last}")));
        }
        Ok(api::exchange(&socket, &Question::Ready, Duration::from_secs(5))
            .unwrap_or(SupervisorAnswer::Waiting))
    });
    if let Err(error) = ready {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return Err(error); // a cluster that runs here now is somebody else's
        }
        let _ = api::exchange::<_, SupervisorAnswer>(&socket, &Question::Down, DOWN_MAX);
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    announce(cli, layout, cluster)
}

fn wait_ready(mut look: impl FnMut() -> Result<SupervisorAnswer>) -> Result<()> {
    let until = Instant::now() + READY_MAX;
    loop {
        match look()? {
            SupervisorAnswer::Done => return Ok(()),
            SupervisorAnswer::Failed(message) => return Err(Fail::failed(message).into()),
            SupervisorAnswer::Waiting if Instant::now() > until => {
                return Err(Fail::failed(
                    "the cluster did not get ready within 60 s: see gabion.log in its folder",
                )
                .into());
            }
            SupervisorAnswer::Waiting => std::thread::sleep(LOOK),
        }
    }
}

fn announce(cli: &Cli, layout: &Layout, cluster: &ClusterFile) -> Result<()> {
    let address = layout.api_address().map(|address| format!("https://{address}"));
    let ca_file = layout.keys().join(keys::CA_FILE);
    let code = first_code(&ApiDoor::any(&layout.api_socket()));
    if cli.output == Output::Json {
        let urls: Vec<_> = address.iter().collect();
        let summary = serde_json::json!({
            "data": layout.root(), "hosts": cluster.machine_names(), "shards": cluster.host_names(),
            "mode": cluster.mode,
            "api": { "socket": layout.api_socket(), "urls": urls, "ca_file": ca_file },
            "user": code.as_ref().map(|code| &code.name),
            "code": code.as_ref().map(|code| &code.code),
        });
        say!("{summary}");
        return Ok(());
    }
    let how = match cluster.mode {
        Mode::Threads => "in one process",
        Mode::Processes => "in processes of their own, with etcd",
    };
    say!("the hosts are up {how}; data in {}", layout.root().display());
    say!(
        "the API: curl --unix-socket {} http://gabion/api/v1/status",
        layout.api_socket().display()
    );
    if let Some(address) = address {
        let ca = ca_file.display();
        say!("the page: {address}/ (browsers know it by {ca}, or ask)");
        if let Some(NewCodeReport { name, code, .. }) = code {
            say!("sign in there as '{name}', once with the code {code}");
        }
        say!("programs need a token: gabion token create NAME --role viewer");
    }
    say!("next: gabion volume create NAME --size 1GiB; gabion status; gabion down");
    Ok(())
}

/// Stops the cluster on this machine.
pub fn down(cli: &Cli, layout: &Layout) -> Result<()> {
    if !is_held(layout) {
        if cli.output == Output::Table {
            say!("the cluster is not running");
        }
        return Ok(());
    }
    let answer = api::exchange(&layout.supervisor_socket(), &Question::Down, DOWN_MAX);
    if let Ok(SupervisorAnswer::Failed(message)) = answer {
        return Err(Fail::failed(message).into());
    }
    // The supervisor may end before it answers. Once the lock is free it is over.
    let until = Instant::now() + DOWN_MAX;
    while is_held(layout) {
        if Instant::now() > until {
            return Err(Fail::failed("the supervisor does not end: see gabion.log").into());
        }
        std::thread::sleep(LOOK);
    }
    if cli.output == Output::Table {
        say!("the cluster is down; its data stays in {}", layout.root().display());
    }
    Ok(())
}
