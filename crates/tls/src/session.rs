// SPDX-License-Identifier: Apache-2.0
//! One end of TLS, without I/O: bytes of the link in, bytes of its user out, and back.

use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// Most bytes of one record's content.
const RECORD_MAX: usize = 16 << 10;
/// Bytes that a record takes beside its content: header, type and tag, and one to spare.
const RECORD_COST: usize = 5 + 1 + 16 + 1;
/// Bytes of a message about keys, which may go before the content.
const KEY_MESSAGE_MAX: usize = 128;

/// One end.
pub(crate) enum TlsEnd {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// What came of some bytes of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsStep {
    /// Something happened: there may be more.
    Again,
    /// What was put out has to be sent now.
    Send,
    /// Further bytes are needed before the two ends know each other.
    Wait,
    /// The two ends know each other; there is no whole record here.
    Open,
    /// The other end sends nothing more.
    Closed,
}

/// Where bytes go.
pub(crate) struct Sink<'a> {
    /// For the user, as far as there is room.
    pub(crate) room: &'a mut [u8],
    /// How much of the room is used.
    pub(crate) used: usize,
    /// For the user, what there was no room for.
    pub(crate) rest: &'a mut Vec<u8>,
    /// For the other end.
    pub(crate) out: &'a mut Vec<u8>,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.room.len() - self.used);
        self.room[self.used..self.used + count].copy_from_slice(&bytes[..count]);
        self.used += count;
        self.rest.extend_from_slice(&bytes[count..]);
    }
}

impl TlsEnd {
    /// Takes in what lies at the front of `incoming`, one record of it at most. Returns how many
    /// bytes of it are done with.
    pub(crate) fn step(
        &mut self,
        incoming: &mut [u8],
        sink: &mut Sink<'_>,
    ) -> Result<(usize, TlsStep), Error> {
        match self {
            Self::Client(end) => act(end.process_tls_records(incoming), sink),
            Self::Server(end) => act(end.process_tls_records(incoming), sink),
        }
    }

    /// Puts records with all of `plain` into `out`. Returns how many bytes of it they take.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        match self {
            Self::Client(end) => seal(end.process_tls_records(&mut []), plain, out),
            Self::Server(end) => seal(end.process_tls_records(&mut []), plain, out),
        }
    }

    /// The certificate of the other end, once the two know each other.
    pub(crate) fn certificate(&self) -> Option<CertificateDer<'static>> {
        let chain = match self {
            Self::Client(end) => end.peer_certificates(),
            Self::Server(end) => end.peer_certificates(),
        };
        Some(chain?.first()?.clone().into_owned())
    }
}

/// How many bytes records with `len` bytes of content may take.
pub(crate) fn sealed_max(len: usize) -> usize {
    len + len.div_ceil(RECORD_MAX) * RECORD_COST + KEY_MESSAGE_MAX
}

fn act<D>(
    status: UnbufferedStatus<'_, '_, D>,
    sink: &mut Sink<'_>,
) -> Result<(usize, TlsStep), Error> {
    let mut done = status.discard;
    let step = match status.state? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                done += record.discard;
                sink.take(record.payload);
            }
            TlsStep::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let start = sink.out.len();
            let needed = match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(size)) => size.required_size,
                _ => 0,
            };
            sink.out.resize(start + needed, 0);
            data.encode(&mut sink.out[start..]).map_err(|error| other(&error))?;
            TlsStep::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            TlsStep::Send
        }
        ConnectionState::BlockedHandshake => TlsStep::Wait,
        ConnectionState::WriteTraffic(_) => TlsStep::Open,
        ConnectionState::PeerClosed | ConnectionState::Closed => TlsStep::Closed,
        // Nobody here sends before the two ends know each other.
        _ => return Err(Error::General("early data".to_owned())),
    };
    Ok((done, step))
}

fn seal<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &[u8],
    out: &mut [u8],
) -> Result<usize, Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => match traffic.encrypt(plain, out) {
            Ok(count) => Ok(count),
            Err(error @ EncryptError::InsufficientSize(_)) => Err(other(&error)),
            Err(EncryptError::EncryptExhausted) => Err(Error::EncryptError),
        },
        ConnectionState::PeerClosed | ConnectionState::Closed => {
            Err(Error::General("the other end has closed".to_owned()))
        }
        _ => Err(Error::HandshakeNotComplete),
    }
}

fn other(error: &dyn std::fmt::Display) -> Error {
    Error::General(error.to_string())
}
