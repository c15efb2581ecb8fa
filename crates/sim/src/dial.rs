// SPDX-License-Identifier: Apache-2.0
//! How links come about: listeners, dials and accepts.

use crate::core::{Core, EventKind};
use crate::ends::EndRef;
use crate::host::{SimListener, Waiting};
use crate::options::nanos;
use crate::under_way::Dial;
use env::{Address, Caller, Completion, Done, IoError, ListenerId, Token};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The first port that port 0 resolves to.
const PORT_FIRST: u16 = 32_768;

/// Whether a listener at `at` answers calls to `to`. Both addresses are of the same host.
fn answers(at: &Address, to: &Address) -> bool {
    match (at, to) {
        (Address::Tcp(at), Address::Tcp(to)) => {
            let any = at.ip().is_unspecified() || to.ip().is_unspecified();
            at.port() == to.port() && (any || at.ip() == to.ip())
        }
        (at, to) => at == to,
    }
}

impl Core {
    fn has_listener(&self, process: u32, address: &Address) -> Option<u32> {
        let listeners = &self.processes[process as usize].listeners;
        let found = listeners.iter().position(|l| l.is_open && answers(&l.address, address));
        found.map(|index| index as u32)
    }

    pub(crate) fn listen(&mut self, process: u32, token: Token, address: Address) {
        let result = self.try_listen(process, address);
        self.answer(process, token, result);
    }

    fn try_listen(&mut self, process: u32, address: Address) -> Result<Done, IoError> {
        let host = self.processes[process as usize].host;
        let mut address = address;
        if let Address::Tcp(socket) = &mut address {
            let ip = socket.ip();
            let own = self.hosts[host as usize].ip;
            if !(ip == own || ip.is_loopback() || ip.is_unspecified()) {
                return Err(IoError::AddressInUse);
            }
            while socket.port() == 0 {
                let port = &mut self.hosts[host as usize].port_next;
                *port = port.checked_add(1).unwrap_or(PORT_FIRST).max(PORT_FIRST);
                let candidate = Address::Tcp(SocketAddr::new(ip, *port));
                if self.has_listener(process, &candidate).is_none()
                    && let Address::Tcp(free) = candidate
                {
                    *socket = free;
                }
            }
        }
        if self.has_listener(process, &address).is_some() {
            return Err(IoError::AddressInUse);
        }
        let listeners = &mut self.processes[process as usize].listeners;
        listeners.push(SimListener {
            address: address.clone(),
            is_open: true,
            backlog: VecDeque::new(),
            accepts: VecDeque::new(),
        });
        Ok(Done::Listener(ListenerId(listeners.len() as u32 - 1), address))
    }

    pub(crate) fn accept(&mut self, process: u32, token: Token, id: ListenerId) {
        let state = &mut self.processes[process as usize];
        let Some(listener) = state.listeners.get_mut(id.0 as usize).filter(|l| l.is_open) else {
            return self.answer(process, token, Err(IoError::Closed));
        };
        match listener.backlog.pop_front() {
            Some(end) => {
                let is_unix = matches!(listener.address, Address::Unix(_));
                let caller = self.caller(is_unix, end);
                let link = self.adopt(process, end);
                self.answer(process, token, Ok(Done::Caller(link, caller)));
            }
            None => {
                listener.accepts.push_back(token);
                state.waiting.insert(token, Waiting::Accept(id.0));
            }
        }
    }

    /// Who called: the owner of the other side of `end`. All processes of a host belong to user 0.
    fn caller(&mut self, is_unix: bool, end: EndRef) -> Caller {
        let host = self.end(end.other()).map_or(0, |other| other.host);
        if is_unix { Caller::User(0) } else { Caller::Remote(self.hosts[host as usize].ip) }
    }

    pub(crate) fn close_listener(&mut self, process: u32, token: Token, id: ListenerId) {
        let state = &mut self.processes[process as usize];
        if let Some(listener) = state.listeners.get_mut(id.0 as usize) {
            listener.is_open = false;
            let accepts = std::mem::take(&mut listener.accepts);
            let backlog = std::mem::take(&mut listener.backlog);
            for token in accepts {
                self.processes[process as usize].waiting.remove(&token);
                self.answer(process, token, Err(IoError::Closed));
            }
            for end in backlog {
                self.kill_end(end);
                if self.end(end).is_some() {
                    self.send_reset(end.other(), 0);
                }
            }
        }
        self.answer(process, token, Ok(Done::Unit));
    }

    pub(crate) fn dial(&mut self, process: u32, token: Token, address: Address) {
        let host = self.processes[process as usize].host;
        let to = match &address {
            Address::Unix(_) => Some(host),
            Address::Tcp(socket) => self.machine(host, socket.ip()),
        };
        let until = self.now + nanos(self.options.net.dial_timeout);
        let outcome = Err(IoError::Refused);
        let token = Some(token);
        let dial = Dial { process, token, to, address, until, hangs: false, outcome };
        let slot = self.dials_free.pop().unwrap_or_else(|| {
            self.dials.push(None);
            self.dials.len() as u32 - 1
        });
        if let Some(token) = token {
            let waiting = &mut self.processes[process as usize].waiting;
            waiting.insert(token, Waiting::Dial(slot));
        }
        self.dials[slot as usize] = Some(dial);
        let travel = self.travel(host, to.unwrap_or(host));
        self.push(self.now + travel, EventKind::Dial { slot });
    }

    fn machine(&self, from: u32, ip: IpAddr) -> Option<u32> {
        if ip.is_loopback() || ip.is_unspecified() {
            return Some(from);
        }
        self.hosts.iter().position(|host| host.ip == ip).map(|index| index as u32)
    }

    /// A dial reaches its machine. If it cannot, it fails or tries again.
    pub(crate) fn dial_arrives(&mut self, slot: u32) {
        let Some(dial) = &self.dials[slot as usize] else { return };
        let (process, until) = (dial.process, dial.until);
        let from = self.processes[process as usize].host;
        if dial.token.is_none() || !self.processes[process as usize].is_live {
            self.dials[slot as usize] = None;
            self.dials_free.push(slot);
            return;
        }
        let target = dial.to.filter(|to| self.can_reach(from, *to));
        let outcome = match target {
            Some(to) => match self.knock(slot, to) {
                Some(outcome) => outcome,
                None => return self.dial_again(slot), // a full backlog
            },
            None if self.now >= until => Err(IoError::Reset),
            None => {
                let is_dead = dial.to.is_some_and(|to| !self.hosts[to as usize].is_powered);
                let decide = is_dead && !dial.hangs;
                let ppm = self.options.crash.dial_error_ppm;
                if !(decide && self.rng.net.chance_ppm(ppm)) {
                    if let Some(dial) = &mut self.dials[slot as usize] {
                        dial.hangs |= decide;
                    }
                    return self.dial_again(slot);
                }
                match self.rng.net.below(2) {
                    0 => Err(IoError::Refused),
                    _ => Err(IoError::Reset),
                }
            }
        };
        if let Some(dial) = &mut self.dials[slot as usize] {
            dial.outcome = outcome;
        }
        let travel = self.travel(target.unwrap_or(from), from);
        self.push(self.now + travel, EventKind::Linked { slot });
    }

    fn dial_again(&mut self, slot: u32) {
        let pause = nanos(self.options.net.dial_retry);
        let at = self.now + pause + self.rng.net.below(pause / 4 + 1);
        self.push(at, EventKind::Dial { slot });
    }

    /// What the machine answers: a link or an error, or `None` if the caller must try again.
    fn knock(&mut self, slot: u32, to: u32) -> Option<Result<EndRef, IoError>> {
        let Some(dial) = &self.dials[slot as usize] else { return None };
        let (caller, address) = (dial.process, &dial.address);
        let is_unix = matches!(address, Address::Unix(_));
        let server = self.hosts[to as usize].process;
        let found = server.and_then(|p| Some((p, self.has_listener(p, address)?)));
        let Some((server, listener)) = found else {
            // The socket file of a dead process may still stand there. Chance decides.
            let is_missing = is_unix && self.rng.net.below(2) == 0;
            return Some(Err(if is_missing { IoError::NotFound } else { IoError::Refused }));
        };
        let backlog_max = self.options.net.backlog_max.max(1);
        let backlog = self.processes[server as usize].listeners[listener as usize].backlog.len();
        if backlog >= backlog_max {
            return None;
        }
        let from = self.processes[caller as usize].host;
        let mine = self.new_link((from, caller), (to, server));
        let state = &mut self.processes[server as usize];
        let listener = &mut state.listeners[listener as usize];
        match listener.accepts.pop_front() {
            Some(token) => {
                state.waiting.remove(&token);
                let caller = self.caller(is_unix, mine.other());
                let link = self.adopt(server, mine.other());
                let result = Ok(Done::Caller(link, caller));
                self.complete(server, Completion { token, result, buf: None });
            }
            None => listener.backlog.push_back(mine.other()),
        }
        Some(Ok(mine))
    }

    /// The answer to a dial is back at its caller, or comes later if the way back is cut.
    pub(crate) fn dial_answered(&mut self, slot: u32) {
        let Some(dial) = &self.dials[slot as usize] else { return };
        let process = dial.process;
        let from = self.processes[process as usize].host;
        let is_live = self.processes[process as usize].is_live && dial.token.is_some();
        let is_cut = dial.to.is_some_and(|to| self.paths[to as usize][from as usize].is_cut);
        if is_live && is_cut && self.now < dial.until {
            let again = self.now + nanos(self.options.net.dial_retry);
            return self.push(again, EventKind::Linked { slot });
        }
        let Some(dial) = self.dials[slot as usize].take() else { return };
        self.dials_free.push(slot);
        match (dial.token, dial.outcome) {
            (Some(token), outcome) if is_live => {
                self.processes[process as usize].waiting.remove(&token);
                let result = match outcome {
                    Ok(end) if is_cut => {
                        self.close_end(end);
                        Err(IoError::Reset)
                    }
                    outcome => outcome.map(|end| Done::Link(self.adopt(process, end))),
                };
                self.complete(process, Completion { token, result, buf: None });
            }
            (_, Ok(end)) => self.close_end(end),
            _ => {}
        }
    }

    /// Ends an operation early, if it can be cancelled and still waits.
    pub(crate) fn cancel(&mut self, process: u32, token: Token) {
        let Some(what) = self.processes[process as usize].waiting.remove(&token) else { return };
        match what {
            Waiting::Recv(end) => return self.cancel_recv(process, end),
            Waiting::Accept(id) => {
                let listener = &mut self.processes[process as usize].listeners[id as usize];
                listener.accepts.retain(|waiting| *waiting != token);
            }
            Waiting::Dial(slot) => {
                if let Some(dial) = &mut self.dials[slot as usize] {
                    dial.token = None;
                }
            }
        }
        self.answer(process, token, Err(IoError::Cancelled));
    }
}
