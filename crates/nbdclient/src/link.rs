// SPDX-License-Identifier: Apache-2.0
//! The client over a link of a shard. A step that fails is a test that fails, so most steps panic;
//! those that a test may see fail return what the link said.
#![allow(clippy::unwrap_used, reason = "a failing step is a failing test")]

use crate::frames::{
    GREETING_SIZE, NbdReply, OPTION_REPLY_SIZE, OptionReply, REPLY_SIZE, ReplyHead, ReplyKind,
    export_info, go_data, greeting, meta_data, option, request,
};
use env::{Address, Env, IoError, Link};
use nbd::numbers::{
    BASE_ALLOCATION, FIXED_NEWSTYLE, NO_ZEROES, chunk, command, option as options, reply,
};

/// The longest piece that is taken from the link at once, bytes.
const PIECE_MAX: usize = 256 << 10;

/// One connection.
pub struct LinkClient {
    env: Env,
    link: Link,
    held: Vec<u8>,
    /// Whether it sends in pieces of random sizes, so that the server sees requests in parts.
    pub is_choppy: bool,
    /// Whether structured replies were agreed on.
    pub is_structured: bool,
    /// Bytes of the export, once it was chosen.
    pub size: u64,
    /// Its transmission flags, once it was chosen.
    pub flags: u16,
}

impl LinkClient {
    /// Connects and takes the greeting; the client's flags are still to be sent.
    pub async fn connect(env: &Env, address: &Address) -> LinkClient {
        Self::try_connect(env, address).await.unwrap()
    }

    /// The same, where the server may close the connection at once.
    ///
    /// # Errors
    /// As the link's.
    pub async fn try_connect(env: &Env, address: &Address) -> Result<LinkClient, IoError> {
        let link = env.dial(address.clone()).await?;
        let mut client = LinkClient {
            env: env.clone(),
            link,
            held: Vec::new(),
            is_choppy: false,
            is_structured: false,
            size: 0,
            flags: 0,
        };
        let offered = greeting(&client.array::<GREETING_SIZE>().await?);
        assert_eq!(offered, Some(FIXED_NEWSTYLE | NO_ZEROES));
        Ok(client)
    }

    /// Connects and sends the client's flags: options may follow.
    pub async fn greeted(env: &Env, address: &Address) -> LinkClient {
        let mut client = LinkClient::connect(env, address).await;
        client.send(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes()).await.unwrap();
        client
    }

    /// Connects up to the transmission phase; with structured replies also base:allocation.
    pub async fn open(env: &Env, address: &Address, name: &str, is_structured: bool) -> LinkClient {
        let mut client = LinkClient::greeted(env, address).await;
        if is_structured {
            assert_eq!(client.ask(options::STRUCTURED_REPLY, &[]).await, [(reply::ACK, vec![])]);
            client.is_structured = true;
            let asked = meta_data(name, &[BASE_ALLOCATION]);
            let answers = client.ask(options::SET_META_CONTEXT, &asked).await;
            assert_eq!(answers.len(), 2);
            assert_eq!(&answers[0].1[4..], BASE_ALLOCATION.as_bytes());
        }
        client.go(name).await.unwrap();
        client
    }

    /// Chooses an export with GO.
    ///
    /// # Errors
    /// The number of the error, where it is refused.
    pub async fn go(&mut self, name: &str) -> Result<(), u32> {
        for (kind, data) in self.ask(options::GO, &go_data(name, &[])).await {
            match kind {
                reply::ACK => return Ok(()),
                reply::INFO => {
                    if let Some((size, flags)) = export_info(&data) {
                        (self.size, self.flags) = (size, flags);
                    }
                }
                error => return Err(error),
            }
        }
        unreachable!("answers end with an acknowledgement or an error")
    }

    /// Sends an option and takes answers up to the last.
    pub async fn ask(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option(number, data)).await.unwrap();
        self.answers(number).await
    }

    /// Takes answers to option `number` up to the last: kind and data of each.
    pub async fn answers(&mut self, number: u32) -> Vec<(u32, Vec<u8>)> {
        let mut answers = Vec::new();
        loop {
            let head = self.array::<OPTION_REPLY_SIZE>().await.unwrap();
            let head = OptionReply::decode(&head).expect("an answer to an option");
            assert_eq!(head.option, number);
            let data = self.take(usize::try_from(head.length).unwrap()).await.unwrap();
            answers.push((head.kind, data));
            if head.is_last() {
                return answers;
            }
        }
    }

    /// Sends any bytes.
    ///
    /// # Errors
    /// As the link's.
    pub async fn send(&mut self, mut bytes: &[u8]) -> Result<(), IoError> {
        while !bytes.is_empty() {
            let is_cut = self.is_choppy && !self.env.random().is_multiple_of(4);
            let cut = if is_cut { self.up_to(bytes.len()) } else { bytes.len() };
            let (now, later) = bytes.split_at(cut);
            let mut buf = self.env.buf(now.len());
            buf.copy_from_slice(now);
            self.link.send(buf.freeze()).await?;
            bytes = later;
        }
        Ok(())
    }

    /// A random number from 1 to `most`.
    fn up_to(&self, most: usize) -> usize {
        1 + usize::try_from(self.env.random() % u64::try_from(most).unwrap()).unwrap()
    }

    /// Takes exactly `count` bytes.
    ///
    /// # Errors
    /// As the link's; [`IoError::Closed`] where the connection ends before.
    pub async fn take(&mut self, count: usize) -> Result<Vec<u8>, IoError> {
        while self.held.len() < count {
            let room = self.up_to(PIECE_MAX);
            let (buf, received) = self.link.recv(self.env.buf(room), 0).await?;
            if received == 0 {
                return Err(IoError::Closed);
            }
            self.held.extend(&buf[..received]);
        }
        let rest = self.held.split_off(count);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    async fn array<const N: usize>(&mut self) -> Result<[u8; N], IoError> {
        Ok(self.take(N).await?.try_into().unwrap())
    }

    /// The next reply; `data_len` says how much data a simple reply to that cookie brings.
    ///
    /// # Errors
    /// As the link's.
    pub async fn reply(&mut self, data_len: impl Fn(u64) -> usize) -> Result<NbdReply, IoError> {
        let head = self.array::<REPLY_SIZE>().await?;
        let head = ReplyHead::decode(&head).expect("a reply of a known kind");
        let cookie = head.cookie;
        match head.kind {
            ReplyKind::Simple { errno } => {
                let len = if errno == 0 && !self.is_structured { data_len(cookie) } else { 0 };
                let data = self.take(len).await?;
                Ok(NbdReply { cookie, errno, data, extents: Vec::new() })
            }
            ReplyKind::Chunk { flags, kind } => {
                assert!(self.is_structured, "structured replies only after the agreement");
                assert_eq!(flags, chunk::DONE, "one chunk, the last");
                let len = u32::from_be_bytes(self.array().await?);
                let body = self.take(usize::try_from(len).unwrap()).await?;
                Ok(NbdReply::of_chunk(cookie, kind, body).expect("a chunk of a known kind"))
            }
        }
    }

    /// One request without data and its reply.
    pub async fn call(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> NbdReply {
        self.send(&request(command, flags, 9, offset, length)).await.unwrap();
        let len = if command == command::READ { usize::try_from(length).unwrap() } else { 0 };
        self.reply(|_| len).await.unwrap()
    }

    /// One write and its reply.
    pub async fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> NbdReply {
        let length = u32::try_from(data.len()).unwrap();
        let mut bytes = request(command::WRITE, flags, 9, offset, length).to_vec();
        bytes.extend(data);
        self.send(&bytes).await.unwrap();
        self.reply(|_| 0).await.unwrap()
    }

    /// Whether the server closed the connection, after whatever it still sent.
    pub async fn is_closed(&mut self) -> bool {
        loop {
            match self.link.recv(self.env.buf(4096), 0).await {
                Ok((_, 0)) | Err(_) => return true,
                Ok(_) => {}
            }
        }
    }
}
