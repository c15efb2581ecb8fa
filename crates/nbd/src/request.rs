// SPDX-License-Identifier: Apache-2.0
//! Which requests are valid, and what they ask for. Pure.

use crate::numbers::{command, flag};
use crate::options::PAYLOAD_MAX;
use crate::proto::{Errno, RequestHeader};

/// What a request asks for, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceCommand {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    /// A cache hint or an empty range: there is nothing to do.
    Nothing,
    BlockStatus {
        is_one: bool,
    },
}

/// What client and server agreed on in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Size of the export in bytes.
    pub(crate) size: u64,
    /// Whether replies are structured.
    pub(crate) is_structured: bool,
    /// Whether the client selected the context base:allocation.
    pub(crate) has_allocation: bool,
}

/// The command of `header`, or the error that answers it.
pub(crate) fn check(header: &RequestHeader, agreed: Agreed) -> Result<DeviceCommand, Errno> {
    let command = command_of(header, agreed)?;
    if command == DeviceCommand::Flush {
        return Ok(command);
    }
    if !header.offset.is_multiple_of(512) || !header.length.is_multiple_of(512) {
        return Err(Errno::Invalid);
    }
    let end = header.offset.checked_add(u64::from(header.length));
    if end.is_none_or(|end| end > agreed.size) {
        let is_write = matches!(header.command, command::WRITE | command::WRITE_ZEROES);
        return Err(if is_write { Errno::NoSpace } else { Errno::Invalid });
    }
    if matches!(command, DeviceCommand::Read | DeviceCommand::Write) && header.length > PAYLOAD_MAX
    {
        let is_whole = header.flags & flag::DF != 0;
        return Err(if is_whole { Errno::Overflow } else { Errno::Invalid });
    }
    match command {
        DeviceCommand::BlockStatus { .. } if header.length == 0 => Err(Errno::Invalid),
        _ if header.length == 0 => Ok(DeviceCommand::Nothing),
        _ => Ok(command),
    }
}

fn command_of(header: &RequestHeader, agreed: Agreed) -> Result<DeviceCommand, Errno> {
    let whole = if agreed.is_structured { flag::DF } else { 0 };
    let (command, flags) = match header.command {
        command::READ => (DeviceCommand::Read, whole),
        command::WRITE => (DeviceCommand::Write, 0),
        command::FLUSH => (DeviceCommand::Flush, 0),
        command::TRIM => (DeviceCommand::Discard, 0),
        command::CACHE => (DeviceCommand::Nothing, 0),
        command::WRITE_ZEROES if header.flags & flag::NO_HOLE == 0 => {
            (DeviceCommand::Discard, flag::FAST_ZERO)
        }
        command::WRITE_ZEROES => (DeviceCommand::WriteZeroes, flag::NO_HOLE | flag::FAST_ZERO),
        command::BLOCK_STATUS if agreed.has_allocation => {
            let is_one = header.flags & flag::REQ_ONE != 0;
            (DeviceCommand::BlockStatus { is_one }, flag::REQ_ONE)
        }
        _ => return Err(Errno::Invalid),
    };
    // FUA may come with any command; every completed write is durable anyway.
    if header.flags & !(flags | flag::FUA) != 0 { Err(Errno::Invalid) } else { Ok(command) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_requests_get_the_error_that_the_protocol_names() {
        let agreed = Agreed { size: 1 << 30, is_structured: true, has_allocation: true };
        let ask = |command, flags, offset, length| {
            check(&RequestHeader { flags, command, cookie: 0, offset, length }, agreed)
        };
        assert_eq!(ask(command::READ, flag::DF, 0, 4096), Ok(DeviceCommand::Read));
        assert_eq!(ask(command::READ, 0, 1, 512), Err(Errno::Invalid));
        assert_eq!(ask(command::READ, 0, 0, 100), Err(Errno::Invalid));
        assert_eq!(ask(command::READ, 0, 1 << 30, 512), Err(Errno::Invalid));
        assert_eq!(ask(command::WRITE, 0, 1 << 30, 512), Err(Errno::NoSpace));
        assert_eq!(ask(command::WRITE, flag::FUA, (1 << 30) - 512, 512), Ok(DeviceCommand::Write));
        assert_eq!(ask(command::WRITE, flag::DF, 0, 512), Err(Errno::Invalid));
        assert_eq!(ask(command::WRITE_ZEROES, 0, u64::MAX - 511, 512), Err(Errno::NoSpace));
        assert_eq!(
            ask(command::WRITE_ZEROES, flag::NO_HOLE, 0, 512),
            Ok(DeviceCommand::WriteZeroes)
        );
        assert_eq!(
            ask(command::WRITE_ZEROES, flag::FAST_ZERO, 0, 1 << 30),
            Ok(DeviceCommand::Discard)
        );
        assert_eq!(ask(command::READ, 0, 0, (32 << 20) + 512), Err(Errno::Invalid));
        assert_eq!(ask(command::READ, flag::DF, 0, (32 << 20) + 512), Err(Errno::Overflow));
        assert_eq!(ask(command::BLOCK_STATUS, 0, 0, 0), Err(Errno::Invalid));
        assert_eq!(ask(command::TRIM, 0, 1 << 30, 512), Err(Errno::Invalid));
        assert_eq!(ask(99, 0, 0, 512), Err(Errno::Invalid));
        let plain = Agreed { is_structured: false, has_allocation: false, ..agreed };
        let header =
            RequestHeader { flags: flag::DF, command: 0, cookie: 0, offset: 0, length: 512 };
        assert_eq!(check(&header, plain), Err(Errno::Invalid));
        let header = RequestHeader { flags: 0, command: command::BLOCK_STATUS, ..header };
        assert_eq!(check(&header, plain), Err(Errno::Invalid));
    }
}
