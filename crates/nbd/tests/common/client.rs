// SPDX-License-Identifier: Apache-2.0
//! A plain NBD client that can also misbehave.

use env::{Address, Env, IoError, Link};

pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub const GO: u32 = 7;
pub const STRUCTURED: u32 = 8;
pub const SET_META: u32 = 10;
pub const ACK: u32 = 1;
pub const ERR: u32 = 1 << 31;

/// One connection to the server.
pub struct Client {
    pub env: Env,
    pub link: Link,
    held: Vec<u8>,
    /// Sends in pieces of random sizes, so that the server sees requests in parts.
    pub is_choppy: bool,
    pub is_structured: bool,
    pub size: u64,
    pub flags: u16,
}

/// What came back for one request.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub data: Vec<u8>,
    pub extents: Vec<(u32, u32)>,
}

/// The bytes of a request without payload.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The bytes of an option.
pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A string behind its length.
pub fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// The data of GO and INFO.
pub fn go_data(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend((infos.len() as u16).to_be_bytes());
    bytes.extend(infos.iter().flat_map(|info| info.to_be_bytes()));
    bytes
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend((queries.len() as u32).to_be_bytes());
    bytes.extend(queries.iter().flat_map(|query| string(query)));
    bytes
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

impl Client {
    /// Connects and takes the greeting; the client's flags are still to be sent.
    pub async fn connect(env: &Env, address: &Address) -> Client {
        Self::try_connect(env, address).await.unwrap()
    }

    /// As [`Client::connect`], for a server that may close the connection at once.
    pub async fn try_connect(env: &Env, address: &Address) -> Result<Client, IoError> {
        let link = env.dial(address.clone()).await?;
        let mut client = Client {
            env: env.clone(),
            link,
            held: Vec::new(),
            is_choppy: false,
            is_structured: false,
            size: 0,
            flags: 0,
        };
        let greeting = client.take(18).await?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(&greeting[16..], [0, 3], "fixed newstyle, no zeroes");
        Ok(client)
    }

    /// Connects up to the transmission phase.
    pub async fn open(env: &Env, address: &Address, name: &str, is_structured: bool) -> Client {
        let mut client = Client::connect(env, address).await;
        client.send(&3u32.to_be_bytes()).await.unwrap();
        if is_structured {
            assert_eq!(client.ask(STRUCTURED, &[]).await, [(ACK, vec![])]);
            client.is_structured = true;
            let answers = client.ask(SET_META, &meta_data(name, &["base:allocation"])).await;
            assert_eq!(answers.len(), 2);
            assert_eq!(&answers[0].1[4..], b"base:allocation");
        }
        client.go(name).await.unwrap();
        client
    }

    /// Sends GO. The error is the number of the refusal.
    pub async fn go(&mut self, name: &str) -> Result<(), u32> {
        for (kind, data) in self.ask(GO, &go_data(name, &[])).await {
            match kind {
                ACK => return Ok(()),
                3 if data[..2] == [0, 0] => {
                    self.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    self.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                error => return Err(error),
            }
        }
        unreachable!("answers end with an acknowledgement or an error")
    }

    /// Sends an option and takes its answers, up to the last one.
    pub async fn ask(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option(number, data)).await.unwrap();
        self.answers(number).await
    }

    /// Takes the answers to option `number`, each with its kind and data, up to the last one.
    pub async fn answers(&mut self, number: u32) -> Vec<(u32, Vec<u8>)> {
        let mut answers = Vec::new();
        loop {
            let head = self.take(20).await.unwrap();
            assert_eq!(head[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
            assert_eq!(be32(&head[8..12]), number);
            let kind = be32(&head[12..16]);
            let data = self.take(be32(&head[16..20]) as usize).await.unwrap();
            answers.push((kind, data));
            if kind == ACK || kind >= ERR {
                return answers;
            }
        }
    }

    pub async fn send(&mut self, mut bytes: &[u8]) -> Result<(), IoError> {
        while !bytes.is_empty() {
            let is_cut = self.is_choppy && !self.env.random().is_multiple_of(4);
            let cut =
                if is_cut { 1 + self.env.random() as usize % bytes.len() } else { bytes.len() };
            let (now, later) = bytes.split_at(cut);
            let mut buf = self.env.buf(now.len());
            buf.copy_from_slice(now);
            self.link.send(buf.freeze()).await?;
            bytes = later;
        }
        Ok(())
    }

    /// Takes exactly `count` bytes.
    pub async fn take(&mut self, count: usize) -> Result<Vec<u8>, IoError> {
        while self.held.len() < count {
            let room = 1 + self.env.random() as usize % (256 << 10);
            let (buf, received) = self.link.recv(self.env.buf(room), 0).await?;
            if received == 0 {
                return Err(IoError::Closed);
            }
            self.held.extend(&buf[..received]);
        }
        let rest = self.held.split_off(count);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    /// The next reply. `data_len` says how many bytes of data come with a simple reply to a cookie.
    pub async fn reply(&mut self, data_len: impl Fn(u64) -> usize) -> Result<Reply, IoError> {
        let magic = be32(&self.take(4).await?);
        if magic == 0x6744_6698 {
            let head = self.take(12).await?;
            let (error, cookie) = (be32(&head[..4]), head[4..12].try_into().unwrap());
            let cookie = u64::from_be_bytes(cookie);
            let len = if error == 0 && !self.is_structured { data_len(cookie) } else { 0 };
            let data = self.take(len).await?;
            return Ok(Reply { cookie, error, data, extents: Vec::new() });
        }
        assert_eq!(magic, 0x668e_33ef, "a reply of a known kind");
        assert!(self.is_structured, "structured replies only after the agreement");
        let head = self.take(16).await?;
        assert_eq!(head[..2], [0, 1], "one chunk, the last");
        let kind = u16::from_be_bytes(head[2..4].try_into().unwrap());
        let cookie = u64::from_be_bytes(head[4..12].try_into().unwrap());
        let mut body = self.take(be32(&head[12..16]) as usize).await?;
        let mut reply = Reply { cookie, error: 0, data: Vec::new(), extents: Vec::new() };
        match kind {
            0 => assert!(body.is_empty()),
            1 => reply.data = body.split_off(8),
            5 => {
                assert_eq!(be32(&body[..4]), 1, "the number of base:allocation");
                let words = body[4..].chunks(8);
                reply.extents = words.map(|w| (be32(&w[..4]), be32(&w[4..]))).collect();
            }
            0x8001 => reply.error = be32(&body[..4]),
            other => panic!("chunk of kind {other}"),
        }
        Ok(reply)
    }

    /// One request and its reply.
    pub async fn call(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> Reply {
        self.send(&request(command, flags, 9, offset, length)).await.unwrap();
        let len = if command == 0 { length as usize } else { 0 };
        self.reply(|_| len).await.unwrap()
    }

    pub async fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Reply {
        let mut bytes = request(1, flags, 9, offset, data.len() as u32);
        bytes.extend(data);
        self.send(&bytes).await.unwrap();
        self.reply(|_| 0).await.unwrap()
    }

    /// Whether the server closes the connection. What it still sends before that is dropped.
    pub async fn is_closed(&mut self) -> bool {
        loop {
            match self.link.recv(self.env.buf(4096), 0).await {
                Ok((_, 0)) | Err(_) => return true,
                Ok(_) => {}
            }
        }
    }
}
