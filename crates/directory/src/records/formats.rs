// SPDX-License-Identifier: Apache-2.0
//! Formats of the records of volumes and objects. Each is written only where it is needed, so that
//! what says nothing new can be read by a release of before.

/// The format of a volume's record with a reserve.
pub const FORMAT_RESERVE: u32 = 2;
/// The format of a volume's record that allows one connection at a time, with or without a reserve.
pub const FORMAT_CONNECTIONS: u32 = 3;
/// The format of a volume's record that follows a policy without limits, whatever else it has.
pub const FORMAT_POLICY: u32 = 4;
/// The format of a volume's record that follows a policy with limits, whatever else it has.
pub const FORMAT_LIMITS: u32 = 5;
/// The format of a volume's record that says how large its objects are, whatever else it has.
pub const FORMAT_RUNS: u32 = 6;
/// The format of the record of a volume that can be brought back, whatever else it has.
pub const FORMAT_TRASHED: u32 = 7;
/// The format of a volume's record that is, or is to be, striped, whatever else it has.
pub const FORMAT_STRIPED: u32 = 8;
/// The format of an object's record that has claims or is doubted.
pub const FORMAT_HISTORY: u32 = 2;
/// The format of an object's record in which a component takes the place of another one, or that
/// names components that were taken out; with or without claims.
pub const FORMAT_MEMBERS: u32 = 3;
/// The format of the record of an object of which one host writes at a time, whatever else it has.
pub const FORMAT_WRITER: u32 = 4;
