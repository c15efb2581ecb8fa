// SPDX-License-Identifier: Apache-2.0
//! A directory on its own thread.

use crate::error::ControlError;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::runtime::Runtime;

/// Asks a thread to end.
pub type Stop = Box<dyn Fn() + Send>;
/// How a started thread reports, once: with the way to stop it, or with why it did not start.
pub type Started = mpsc::SyncSender<Result<Stop, ControlError>>;

/// A runtime for what one thread does: all of etcd's client.
pub fn runtime() -> Result<Runtime, ControlError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|source| ControlError::Thread { source })
}

/// A directory that serves until it is stopped or dropped.
pub struct DirectoryThread {
    stop: Stop,
    thread: Option<JoinHandle<Result<(), ControlError>>>,
}

impl DirectoryThread {
    /// Runs `body` on a thread of this name and waits until it reports that it serves.
    pub(crate) fn start(
        name: &str,
        body: impl FnOnce(Started) -> Result<(), ControlError> + Send + 'static,
    ) -> Result<Self, ControlError> {
        let (started, report) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(started))
            .map_err(|source| ControlError::Thread { source })?;
        match report.recv() {
            Ok(Ok(stop)) => Ok(Self { stop, thread: Some(thread) }),
            Ok(Err(error)) => Err(error),
            // The thread ended without a report, so its result is the report.
            Err(mpsc::RecvError) => match thread.join() {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) => Err(ControlError::Thread { source: io::ErrorKind::Other.into() }),
                Err(_) => Err(ControlError::Panicked),
            },
        }
    }

    /// Whether it still serves.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it and waits for its end. Every connection is closed; what was answered is durable.
    ///
    /// # Errors
    /// Why it had ended by itself before, if it had.
    pub fn stop(mut self) -> Result<(), ControlError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ControlError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        (self.stop)();
        thread.join().unwrap_or(Err(ControlError::Panicked))
    }
}

impl Drop for DirectoryThread {
    fn drop(&mut self) {
        // A caller who wants to know how it ended calls `stop`.
        let _ = self.end();
    }
}
