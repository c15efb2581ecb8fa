// SPDX-License-Identifier: Apache-2.0
//! Why a disk group is out of service, and why it did not do what was asked.

use diskgroup::GroupError;
use env::IoError;
use thiserror::Error;

/// Why a disk group did not do what was asked.
#[derive(Debug, Error)]
pub enum StorageError {
    /// no such group
    #[error("{host} has no disk group '{wanted}': see 'gabion group list'")]
    Unknown {
        /// This host.
        host: String,
        /// As it was asked for.
        wanted: String,
    },
    /// a beginning of several ids
    #[error("several disk groups of {host} begin with '{wanted}': give more digits")]
    Ambiguous {
        /// This host.
        host: String,
        /// As it was asked for.
        wanted: String,
    },
    /// it serves
    #[error("the disk group of {cache} is open and takes writes: nothing to be done")]
    IsOpen {
        /// Its cache device.
        cache: String,
    },
    /// it does not serve
    #[error(
        "the disk group of {cache} is out of service: what is on it is not known; next: \
         'gabion group open {cache}'"
    )]
    IsClosed {
        /// Its cache device.
        cache: String,
    },
    /// it holds data
    #[error(
        "the disk group of {cache} holds {components} components: delete their volumes first \
         ('gabion group show {cache}')"
    )]
    NotEmpty {
        /// Its cache device.
        cache: String,
        /// How many.
        components: usize,
    },
    /// what is on a device of it is not known
    #[error(
        "a capacity device of the disk group of {cache} is out, and what is on it is not known: \
         put it back or replace it first ('gabion group show {cache}')"
    )]
    DeviceOut {
        /// Its cache device.
        cache: String,
    },
    /// a device of another group
    #[error("{0} is a device of a disk group of this host already: see 'gabion disk list'")]
    Taken(String),
    /// a limit
    #[error("{what} has {most} {things} at most")]
    TooMany {
        /// What has them.
        what: &'static str,
        /// How many.
        most: usize,
        /// Of what.
        things: &'static str,
    },
    /// the devices
    #[error("{0}{next}", next = next_step(.0))]
    Group(#[from] GroupError),
}

/// What whoever asked can do about it, to stand behind the error; empty where the error says that,
/// or where `gabion status` does.
fn next_step(error: &GroupError) -> &'static str {
    match error {
        GroupError::ForeignData { .. } => {
            "; name another device, or say --wipe if what it holds may be lost"
        }
        GroupError::TooSmall { .. } => "; name a larger device, or put back the one that was whole",
        GroupError::Device { source: IoError::NotFound, .. } => {
            "; correct the path, or put back what stood there"
        }
        GroupError::Device { source: IoError::Busy, .. } => {
            "; end what uses it, or name another device"
        }
        GroupError::Device { source: IoError::Denied, .. } => {
            "; give the user that the host runs as the right to read and write it"
        }
        GroupError::Device { source: IoError::NoSpace, .. } => {
            "; make room on the file system that holds it"
        }
        GroupError::NoMemory { .. } => {
            "; 'gabion host show' says what takes it: raise memory.total_bytes in host.toml and \
             start the host again, or use a smaller cache device"
        }
        GroupError::NotFormatted { .. } | GroupError::WrongGroup { .. } => {
            "; 'gabion disk inspect' shows what is on it: put the right device there"
        }
        _ => "",
    }
}

/// Why a group is out of service.
#[derive(Clone, Debug, Error)]
pub enum Closed {
    /// an operator closed it
    #[error("closed by an operator")]
    Asked,
    /// it is being opened, closed or extended
    #[error("being opened or closed")]
    Changing,
    /// it does not open
    #[error("{0}")]
    Failed(#[from] GroupError),
}

impl Closed {
    /// Whether it does not open for its log is damaged.
    pub(crate) fn is_rotten_log(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_rotten_log())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_command_says_what_to_do() {
        let device = "/dev/sdz".to_owned();
        let said = |error: GroupError| StorageError::from(error).to_string();
        let foreign = GroupError::ForeignData { device: device.clone(), what: "a swap area" };
        assert!(said(foreign.clone()).contains("say --wipe"), "{}", said(foreign));
        let absent = GroupError::Device { device: device.clone(), source: IoError::NotFound };
        assert_eq!(
            said(absent.clone()),
            "/dev/sdz: not found; correct the path, or put back what stood there"
        );
        // Of a group that is out of service `gabion status` says the next step behind the cause.
        assert_eq!(Closed::Failed(absent).to_string(), "/dev/sdz: not found");
        let other = GroupError::WrongGroup { device };
        assert!(said(other.clone()).contains("disk inspect"), "{}", said(other));
    }
}
