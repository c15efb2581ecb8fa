// SPDX-License-Identifier: Apache-2.0
//! The client over a Unix socket of the operating system: GO, simple or structured replies, many
//! requests under way. One thread may send while another one receives.

use crate::frames::{
    GREETING_SIZE, NbdReply, OPTION_REPLY_SIZE, OptionReply, REPLY_SIZE, ReplyHead, ReplyKind,
    export_info, go_data, greeting, meta_data, option,
};
use nbd::numbers::{BASE_ALLOCATION, FIXED_NEWSTYLE, NO_ZEROES, chunk, option as options, reply};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest answer to an option that makes sense; ours are below a hundred bytes.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Longest chunk that makes sense: the data of the largest read, and where it begins.
const CHUNK_BYTES_MAX: u32 = (32 << 20) + 8;

/// In which form a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// Simple replies.
    Simple,
    /// Structured replies. The client may ask for block status (base:allocation).
    Structured,
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    size: u64,
}

impl Connection {
    /// Connects to `export` behind the socket at `path`, and asks for answers in this form. No step
    /// of the handshake may take longer than `patience`.
    ///
    /// # Errors
    /// As the socket's; `InvalidData` where the server speaks otherwise or refuses.
    #[expect(clippy::disallowed_methods, reason = "for programs beside the data path")]
    pub fn open(
        path: &Path,
        export: &str,
        form: ReplyForm,
        patience: Duration,
    ) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        let size = shake_hands(&mut stream, export, form)?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, size })
    }

    /// Size of the volume, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Another handle on the socket, so that one thread can send while another one receives.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn stream(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

/// Waits for the next answer. `data_len` says how many bytes of data a simple reply to that cookie
/// brings if it is no error.
///
/// # Errors
/// As the stream's; `InvalidData` where this is no answer that a server of ours gives.
pub fn receive(
    stream: &mut impl Read,
    data_len: impl FnOnce(u64) -> usize,
) -> io::Result<NbdReply> {
    let head = ReplyHead::decode(&array::<REPLY_SIZE>(stream)?);
    let Some(ReplyHead { cookie, kind }) = head else { return Err(foreign("no reply")) };
    match kind {
        ReplyKind::Simple { errno } => {
            let len = if errno == 0 { data_len(cookie) } else { 0 };
            let data = bytes(stream, len)?;
            Ok(NbdReply { cookie, errno, data, extents: Vec::new() })
        }
        ReplyKind::Chunk { flags, kind } => {
            let len = u32::from_be_bytes(array(stream)?);
            if flags != chunk::DONE || len > CHUNK_BYTES_MAX {
                return Err(foreign("a chunk that is not the only one, or too long"));
            }
            let body = bytes(stream, usize::try_from(len).unwrap_or(usize::MAX))?;
            NbdReply::of_chunk(cookie, kind, body).ok_or_else(|| foreign("an unknown chunk"))
        }
    }
}

fn shake_hands(stream: &mut (impl Read + Write), export: &str, form: ReplyForm) -> io::Result<u64> {
    let flags = greeting(&array::<GREETING_SIZE>(stream)?)
        .ok_or_else(|| foreign("not a fixed newstyle NBD server"))?;
    stream.write_all(&(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes())?;
    if form == ReplyForm::Structured {
        agree(stream, options::STRUCTURED_REPLY, &[])?;
        agree(stream, options::SET_META_CONTEXT, &meta_data(export, &[BASE_ALLOCATION]))?;
    }
    stream.write_all(&option(options::GO, &go_data(export, &[])))?;
    let mut size = None;
    while let Some((head, body)) = option_answer(stream)? {
        if head.kind == reply::INFO {
            size = export_info(&body).map(|(size, _)| size).or(size);
        }
    }
    size.ok_or_else(|| foreign("no size was told"))
}

/// Asks for an option that the server must agree to.
fn agree(stream: &mut (impl Read + Write), number: u32, data: &[u8]) -> io::Result<()> {
    stream.write_all(&option(number, data))?;
    while option_answer(stream)?.is_some() {}
    Ok(())
}

/// The next answer to an option; nothing at the acknowledgement that ends them.
fn option_answer(stream: &mut impl Read) -> io::Result<Option<(OptionReply, Vec<u8>)>> {
    let (head, body) = option_reply(stream)?;
    if head.is_error() {
        return Err(foreign(&format!("refused: {}", String::from_utf8_lossy(&body))));
    }
    Ok((head.kind != reply::ACK).then_some((head, body)))
}

fn option_reply(stream: &mut impl Read) -> io::Result<(OptionReply, Vec<u8>)> {
    let head = OptionReply::decode(&array::<OPTION_REPLY_SIZE>(stream)?)
        .ok_or_else(|| foreign("malformed answer to an option"))?;
    if head.length > OPTION_BYTES_MAX {
        return Err(foreign("an answer to an option that long"));
    }
    let body = bytes(stream, usize::try_from(head.length).unwrap_or(usize::MAX))?;
    Ok((head, body))
}

fn bytes(stream: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a server of a few lines needs its own thread")]
mod tests {
    use super::*;
    use crate::frames::request;
    use nbd::numbers::command;
    use std::thread;

    /// What a server says of an export of 1 MiB: to the handshake and to one request.
    const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
    const OPTION_REPLY: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07";
    const BLOCK_SIZES: &[u8] = b"\0\0\0\x03\0\0\0\x04\0\x03\0\0";
    const EXPORT: &[u8] = b"\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\0\x01";
    const ACK: &[u8] = b"\0\0\0\x01\0\0\0\0";
    const NO_SUCH: &[u8] = b"\x80\0\0\x06\0\0\0\x0eno such export";

    /// A server that answers as told; what it was asked.
    fn server(mut stream: UnixStream, is_known: bool) -> Vec<u8> {
        stream.write_all(GREETING).unwrap();
        let mut asked = vec![0; 4 + 8 + 4 + 4 + 4 + 3 + 2];
        stream.read_exact(&mut asked).unwrap();
        if !is_known {
            stream.write_all(&[OPTION_REPLY, NO_SUCH].concat()).unwrap();
            return asked;
        }
        for answer in [BLOCK_SIZES, EXPORT, ACK] {
            stream.write_all(&[OPTION_REPLY, answer].concat()).unwrap();
        }
        let mut sent = [0; 28];
        stream.read_exact(&mut sent).unwrap();
        stream.write_all(&[b"\x67\x44\x66\x98\0\0\0\x05", &sent[8..16]].concat()).unwrap();
        asked
    }

    #[test]
    fn a_handshake_tells_the_size_and_an_answer_names_its_request() {
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(|| server(theirs, true));
        assert_eq!(shake_hands(&mut mine, "web", ReplyForm::Simple).unwrap(), 1 << 20);
        mine.write_all(&request(command::TRIM, 0, 77, 4096, 512)).unwrap();
        let refused = NbdReply { cookie: 77, errno: 5, ..NbdReply::default() };
        assert_eq!(receive(&mut mine, |_| 0).unwrap(), refused);
        let asked = served.join().unwrap();
        assert!(asked.ends_with(b"web\0\0"), "{asked:?}");
        assert!(receive(&mut mine, |_| 0).is_err(), "the server has left");
    }

    /// A server that agrees to structured replies and to base:allocation, and then sends `answer`.
    fn structured(mut stream: UnixStream, answer: Vec<u8>) {
        let head = |option: u8| [&OPTION_REPLY[..11], &[option]].concat();
        let mut flags = [0; 4];
        stream.write_all(GREETING).unwrap();
        stream.read_exact(&mut flags).unwrap();
        let meta = b"\0\0\0\x04\0\0\0\x13\0\0\0\x01base:allocation";
        let go = [EXPORT, &head(7), ACK].concat();
        for (asked, number, answer) in [
            (0, 8, ACK.to_vec()),
            (4 + 3 + 4 + 4 + 15, 10, [meta.as_slice(), &head(10), ACK].concat()),
            (4 + 3 + 2, 7, go),
        ] {
            let mut option = vec![0; 16 + asked];
            stream.read_exact(&mut option).unwrap();
            assert_eq!(option[8..12], u32::from(number).to_be_bytes());
            stream.write_all(&[head(number), answer].concat()).unwrap();
        }
        stream.write_all(&answer).unwrap();
    }

    #[test]
    fn a_structured_answer_tells_extents_or_an_error() {
        let chunk = |flags: u8, kind: [u8; 2], body: &[u8]| {
            let len = u32::try_from(body.len()).unwrap().to_be_bytes();
            let head = [b"\x66\x8e\x33\xef\0".as_slice(), &[flags], &kind].concat();
            [head.as_slice(), b"\0\0\0\0\0\0\0\x4d", &len, body].concat()
        };
        let status = [0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0];
        let answers = [
            chunk(1, [0, 5], &status),
            chunk(1, [0x80, 1], &[0, 0, 0, 5, 0, 0]),
            chunk(0, [0, 5], &status),
        ];
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(move || structured(theirs, answers.concat()));
        assert_eq!(shake_hands(&mut mine, "web", ReplyForm::Structured).unwrap(), 1 << 20);
        let reply = receive(&mut mine, |_| 0).unwrap();
        assert_eq!((reply.cookie, reply.errno), (77, 0));
        assert_eq!(reply.extents, [(512, 3), (1024, 0)]);
        assert_eq!(receive(&mut mine, |_| 0).unwrap().errno, 5);
        assert!(receive(&mut mine, |_| 0).is_err(), "no server of ours sends a part of an answer");
        served.join().unwrap();
    }

    #[test]
    fn a_refusal_says_why() {
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(|| server(theirs, false));
        let error = shake_hands(&mut mine, "web", ReplyForm::Simple).unwrap_err();
        assert!(error.to_string().contains("no such export"), "{error}");
        served.join().unwrap();
    }
}
