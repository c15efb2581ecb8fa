// SPDX-License-Identifier: Apache-2.0
//! The handshake: the client sends options until GO or EXPORT_NAME opens an export.

use crate::admission::{self, ExportAsker};
use crate::crowd::Stage;
use crate::exports::{Exports, OpenError, Sharing};
use crate::inbox::Inbox;
use crate::numbers::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, FIXED_NEWSTYLE, NO_ZEROES, info, option, reply,
    transmission,
};
use crate::options::{CLIENT_NAME_MAX, OPTION_MAX, OPTION_SKIP_MAX, OPTIONS_MAX};
use crate::proto::{self, OptionFields};
use crate::request::Agreed;
use crate::server::Inner;
use crate::session::SessionEnd;
use env::{Either, IoError, Link, select};
use volume::Device;
use zerocopy::IntoBytes;

/// One handshake under way.
pub(crate) struct Handshake<'a, E: Exports> {
    server: &'a Inner<E>,
    link: &'a Link,
    is_tcp: bool,
    /// The number of the connection in the crowd.
    id: u64,
    inbox: &'a mut Inbox,
    is_structured: bool,
    has_zeroes: bool,
    /// The export for which base:allocation was selected.
    allocation_of: Option<String>,
    out: Vec<u8>,
}

/// One option of the client.
struct Asked {
    option: u32,
    data: Vec<u8>,
}

type Admitted<E> = admission::Admitted<<E as Exports>::Device>;

/// Why a connection does not get the export that it asked for.
enum NotIn {
    /// The client is told why, and may ask for something else.
    Refused(OpenError),
    /// The client has hung up.
    Left,
}

impl From<OpenError> for NotIn {
    fn from(error: OpenError) -> Self {
        Self::Refused(error)
    }
}

/// What a client asks for: an export, and the name that it gives itself (`NAME@CLIENT`).
struct Wanted {
    name: String,
    client: Option<String>,
}

impl From<IoError> for SessionEnd {
    fn from(_: IoError) -> Self {
        Self::Left
    }
}

impl<'a, E: Exports> Handshake<'a, E> {
    pub(crate) fn new(
        server: &'a Inner<E>,
        (link, is_tcp, id): (&'a Link, bool, u64),
        inbox: &'a mut Inbox,
    ) -> Self {
        Self {
            server,
            link,
            is_tcp,
            id,
            inbox,
            is_structured: false,
            has_zeroes: true,
            allocation_of: None,
            out: Vec::new(),
        }
    }

    /// Runs the handshake up to the transmission phase.
    pub(crate) async fn run(mut self) -> Result<Admitted<E>, SessionEnd> {
        self.out.extend(proto::greeting().as_bytes());
        self.send().await?;
        let flags = u32::from_be_bytes(self.inbox.take().await?);
        if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(SessionEnd::Malformed);
        }
        self.has_zeroes = flags & NO_ZEROES == 0;
        for _ in 0..OPTIONS_MAX {
            self.server.is_at(self.id, Stage::Owed(self.server.env.now()));
            let Some(asked) = self.next_option().await? else { continue };
            if let Some(session) = self.option(&asked).await? {
                return Ok(session);
            }
        }
        Err(SessionEnd::Malformed)
    }

    async fn send(&mut self) -> Result<(), SessionEnd> {
        if self.out.is_empty() {
            return Ok(());
        }
        let mut buf = self.server.env.buf(self.out.len());
        buf.copy_from_slice(&self.out);
        self.out.clear();
        Ok(self.link.send(buf.freeze()).await?)
    }

    /// The next option. `None` where it was too long: it was skipped and refused.
    async fn next_option(&mut self) -> Result<Option<Asked>, SessionEnd> {
        let head = self.inbox.take().await?;
        let (option, length) = proto::option_of(&head).ok_or(SessionEnd::Malformed)?;
        if length > OPTION_MAX {
            if length > OPTION_SKIP_MAX || option == option::EXPORT_NAME {
                return Err(SessionEnd::Malformed);
            }
            self.inbox.skip(u64::from(length)).await?;
            self.reply(option, reply::ERR_TOO_BIG, &[]);
            self.send().await?;
            return Ok(None);
        }
        let length = usize::try_from(length).unwrap_or(0);
        let data =
            if length == 0 { Vec::new() } else { self.inbox.take_slice(length).await?.to_vec() };
        Ok(Some(Asked { option, data }))
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.out.extend(proto::option_reply(option, kind, length).as_bytes());
        self.out.extend(data);
    }

    /// Answers one option. Returns the session if this option ends the handshake.
    async fn option(&mut self, asked: &Asked) -> Result<Option<Admitted<E>>, SessionEnd> {
        let mut session = None;
        match asked.option {
            option::EXPORT_NAME => session = Some(self.export_name(asked).await?),
            option::ABORT => {
                self.reply(asked.option, reply::ACK, &[]);
                self.send().await?;
                return Err(SessionEnd::Left);
            }
            option::LIST => self.list(asked),
            option::INFO => self.info(asked).await,
            option::GO => session = self.go(asked).await?,
            option::STRUCTURED_REPLY if asked.data.is_empty() => {
                self.is_structured = true;
                self.reply(asked.option, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => self.reply(asked.option, reply::ERR_INVALID, &[]),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(asked),
            // STARTTLS, PEEK_EXPORT, EXTENDED_HEADERS and whatever comes later.
            _ => self.reply(asked.option, reply::ERR_UNSUP, &[]),
        }
        self.send().await?;
        Ok(session)
    }

    /// Splits `NAME@CLIENT`. An empty name stands for the only export, where there is exactly one.
    /// Whether the export exists is not checked.
    fn resolve(&self, asked: &str) -> Result<Wanted, OpenError> {
        let (name, client) = match asked.split_once('@') {
            None => (asked, None),
            Some((name, client)) if is_client_name(client) => (name, Some(client.to_owned())),
            Some(_) => return Err(OpenError::NotFound),
        };
        let mut name = name.to_owned();
        if name.is_empty()
            && let [only] = self.server.exports.list().as_slice()
        {
            name.clone_from(only);
        }
        Ok(Wanted { name, client })
    }

    fn can_multi_conn(&self, name: &str) -> bool {
        !self.is_tcp && self.server.exports.sharing(name) == Sharing::Shared
    }

    /// Waits until this connection may use the export. Gives up when the client hangs up.
    async fn admit(&mut self, wanted: &Wanted) -> Result<Admitted<E>, NotIn> {
        let Inner { env, exports, options, gates, .. } = self.server;
        let name = wanted.name.as_str();
        let is_selected = self.allocation_of.as_deref() == Some(name);
        let agreed = Agreed {
            size: 0,
            is_structured: self.is_structured,
            has_allocation: self.is_structured && is_selected,
        };
        let client = wanted.client.as_deref();
        let caller = ExportAsker { link: self.link, is_tcp: self.is_tcp, client };
        let pulse = self.inbox.pulse();
        self.server.is_at(self.id, Stage::Owing);
        let admitted = gates.admit((env, exports, *options), name, &caller, pulse, agreed);
        let admitted = match select(admitted, self.inbox.until_left()).await {
            Either::First(admitted) => admitted?,
            Either::Second(_) => return Err(NotIn::Left),
        };
        self.server.is_at(self.id, Stage::Owed(self.server.env.now()));
        Ok(admitted)
    }

    async fn export_name(&mut self, asked: &Asked) -> Result<Admitted<E>, SessionEnd> {
        let name = std::str::from_utf8(&asked.data).map_err(|_| SessionEnd::Malformed)?;
        // This option has no error reply: closing is the answer.
        let wanted = self.resolve(name).map_err(|_| SessionEnd::Left)?;
        let admitted = self.admit(&wanted).await.map_err(|_| SessionEnd::Left)?;
        let flags = transmission_flags(self.is_structured, self.can_multi_conn(&wanted.name));
        self.out.extend(proto::export(admitted.session.agreed.size, flags).as_bytes());
        if self.has_zeroes {
            self.out.extend([0; 124]);
        }
        Ok(admitted)
    }

    fn list(&mut self, asked: &Asked) {
        if !asked.data.is_empty() {
            return self.reply(asked.option, reply::ERR_INVALID, &[]);
        }
        for name in self.server.exports.list() {
            let mut data = u32::try_from(name.len()).unwrap_or(0).to_be_bytes().to_vec();
            data.extend(name.as_bytes());
            self.reply(asked.option, reply::SERVER, &data);
        }
        self.reply(asked.option, reply::ACK, &[]);
    }

    async fn info(&mut self, asked: &Asked) {
        let Some((name, infos)) = parse_info(&asked.data) else {
            return self.reply(asked.option, reply::ERR_INVALID, &[]);
        };
        match self.look_at(name).await {
            Ok((name, size)) => self.describe(asked.option, &name, size, &infos),
            Err(error) => self.refuse(asked.option, error),
        }
    }

    async fn look_at(&self, name: &str) -> Result<(String, u64), OpenError> {
        let Wanted { name, .. } = self.resolve(name)?;
        let device = self.server.exports.open(&name).await?;
        Ok((name, device.size()))
    }

    async fn go(&mut self, asked: &Asked) -> Result<Option<Admitted<E>>, SessionEnd> {
        let Some((name, infos)) = parse_info(&asked.data) else {
            self.reply(asked.option, reply::ERR_INVALID, &[]);
            return Ok(None);
        };
        let admitted = match self.resolve(name) {
            Ok(wanted) => self.admit(&wanted).await.map(|admitted| (admitted, wanted)),
            Err(error) => Err(error.into()),
        };
        match admitted {
            Ok((admitted, wanted)) => {
                let size = admitted.session.agreed.size;
                self.describe(asked.option, &wanted.name, size, &infos);
                Ok(Some(admitted))
            }
            Err(NotIn::Refused(error)) => {
                self.refuse(asked.option, error);
                Ok(None)
            }
            Err(NotIn::Left) => Err(SessionEnd::Left),
        }
    }

    fn refuse(&mut self, option: u32, error: OpenError) {
        let kind = match error {
            OpenError::NotFound => reply::ERR_UNKNOWN,
            OpenError::Unavailable | OpenError::InUse | OpenError::TooMany => reply::ERR_POLICY,
            OpenError::ShuttingDown => reply::ERR_SHUTDOWN,
        };
        self.reply(option, kind, error.to_string().as_bytes());
    }

    /// Answers INFO and GO. Size, flags and block sizes are always sent, texts if the client asked
    /// for them.
    fn describe(&mut self, option: u32, name: &str, size: u64, infos: &[u16]) {
        let flags = transmission_flags(self.is_structured, self.can_multi_conn(name));
        self.reply(option, reply::INFO, proto::export_info(size, flags).as_bytes());
        self.reply(option, reply::INFO, proto::block_sizes().as_bytes());
        for (kind, text) in [(info::NAME, name), (info::DESCRIPTION, "Gabion volume")] {
            if infos.contains(&kind) {
                let mut data = kind.to_be_bytes().to_vec();
                data.extend(text.as_bytes());
                self.reply(option, reply::INFO, &data);
            }
        }
        self.reply(option, reply::ACK, &[]);
    }

    fn meta_context(&mut self, asked: &Asked) {
        let is_set = asked.option == option::SET_META_CONTEXT;
        if is_set {
            self.allocation_of = None;
        }
        let parsed = parse_queries(&asked.data);
        let Some((name, queries)) = parsed.filter(|_| self.is_structured) else {
            return self.reply(asked.option, reply::ERR_INVALID, &[]);
        };
        let known = self.resolve(name).map(|wanted| wanted.name);
        let known = known.ok().filter(|name| self.server.exports.list().contains(name));
        let Some(name) = known else {
            return self.reply(asked.option, reply::ERR_UNKNOWN, &[]);
        };
        let lists_all = !is_set && (queries.is_empty() || queries.contains(&"base:"));
        if lists_all || queries.contains(&BASE_ALLOCATION) {
            let id = if is_set { BASE_ALLOCATION_ID } else { 0 };
            let mut data = id.to_be_bytes().to_vec();
            data.extend(BASE_ALLOCATION.as_bytes());
            self.reply(asked.option, reply::META_CONTEXT, &data);
            if is_set {
                self.allocation_of = Some(name);
            }
        }
        self.reply(asked.option, reply::ACK, &[]);
    }
}

/// The transmission flags of an export. CAN_MULTI_CONN tells a client that it may use several
/// connections at once. `can_multi_conn` says whether rule 47 allows that here.
fn transmission_flags(is_structured: bool, can_multi_conn: bool) -> u16 {
    let always = transmission::HAS_FLAGS
        | transmission::SEND_FLUSH
        | transmission::SEND_FUA
        | transmission::SEND_TRIM
        | transmission::SEND_WRITE_ZEROES
        | transmission::SEND_CACHE
        | transmission::SEND_FAST_ZERO;
    let multi = if can_multi_conn { transmission::CAN_MULTI_CONN } else { 0 };
    let whole = if is_structured { transmission::SEND_DF } else { 0 };
    always | multi | whole
}

/// Whether `text` can be a client's name: 1 to [`CLIENT_NAME_MAX`] letters, digits, '.', '_' and
/// '-'.
fn is_client_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=CLIENT_NAME_MAX).contains(&text.len()) && text.chars().all(is_plain)
}

/// The data of INFO and GO: the name of an export, and the numbers of the infos that the client
/// wants. `None` where the data is malformed.
fn parse_info(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut fields = OptionFields(data);
    let name = fields.string()?;
    let count = fields.u16()?;
    let infos = (0..count).map(|_| fields.u16()).collect::<Option<Vec<_>>>()?;
    fields.is_empty().then_some((name, infos))
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT: the name of an export, and queries. `None`
/// where the data is malformed.
fn parse_queries(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut fields = OptionFields(data);
    let name = fields.string()?;
    let count = fields.u32()?;
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(fields.string()?);
    }
    fields.is_empty().then_some((name, queries))
}
