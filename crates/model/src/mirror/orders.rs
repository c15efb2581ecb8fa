// SPDX-License-Identifier: Apache-2.0
//! The answers that clients may get, as all orders of their reads and writes that are still
//! possible.
//!
//! 1. A write that was sent takes effect at some moment before it is answered. A read sees what is
//!    there at some moment between its sending and its answer.
//! 2. An *order* is what one choice of these moments has led to so far. A state names the set of
//!    all orders that fit the answers given up to now.
//! 3. An answer takes away the orders that it contradicts. When none is left, the history is not
//!    linearizable.
//!
//! This is exact: nothing is guessed, and no history has to be searched at the end.

use super::setup::Setup;
use super::state::{
    BLOCKS_MAX, Block, Clients, Few, PerBlock, READS_MAX, Read, ReadState, Row, Value, Write,
    WriteState,
};
use hashbrown::{HashMap, HashSet};

/// A set of orders, by its number.
pub type OrdersId = u32;

/// One order: what it has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Order {
    /// What each block holds.
    values: [Value; BLOCKS_MAX],
    /// Writes that took effect, as bits.
    effective: u8,
    /// What each read saw.
    seen: [Option<Value>; READS_MAX],
}

/// Every set of orders that was met.
#[derive(Default)]
pub struct Orders {
    sets: Vec<Vec<Order>>,
    ids: HashMap<Vec<Order>, OrdersId>,
}

impl Orders {
    /// Before the first request: every block holds 0.
    pub fn initial(&mut self) -> OrdersId {
        let order = Order { values: [0; BLOCKS_MAX], effective: 0, seen: [None; READS_MAX] };
        self.intern(vec![order])
    }

    /// The history begins anew with these values. What was sent before has had its effect, or never
    /// has one. There must be no read under way.
    pub fn begin_anew(&mut self, values: PerBlock<Value>, clients: &mut Clients) {
        let was_sent = |write: &Write| clients.writes[*write] != WriteState::New;
        let writes = (0..).take(clients.writes.0.len()).filter(was_sent);
        let effective = writes.fold(0, |set, write: Write| set | 1 << write);
        let order = Order { values: values.0, effective, seen: [None; READS_MAX] };
        clients.orders = self.intern(vec![order]);
    }

    /// A request was sent.
    pub fn sent(&mut self, clients: &mut Clients, setup: &Setup) {
        let orders = self.get(clients.orders).to_vec();
        self.replace(orders, clients, setup);
    }

    /// `write` was answered: it took effect. Returns whether any order is left.
    pub fn answered(&mut self, write: Write, clients: &mut Clients, setup: &Setup) -> bool {
        let mut orders = self.get(clients.orders).to_vec();
        orders.retain(|order| order.effective >> write & 1 == 1);
        self.replace(orders, clients, setup)
    }

    /// `read` was answered with `value`. Returns whether any order is left.
    pub fn returned(
        &mut self,
        read: Read,
        value: Value,
        clients: &mut Clients,
        setup: &Setup,
    ) -> bool {
        let mut orders = self.get(clients.orders).to_vec();
        orders.retain(|order| order.seen[usize::from(read)] == Some(value));
        orders.iter_mut().for_each(|order| order.seen[usize::from(read)] = None);
        self.replace(orders, clients, setup)
    }

    /// `read` will not be answered.
    pub fn given_up(&mut self, read: Read, clients: &mut Clients, setup: &Setup) {
        let mut orders = self.get(clients.orders).to_vec();
        orders.iter_mut().for_each(|order| order.seen[usize::from(read)] = None);
        self.replace(orders, clients, setup);
    }

    /// Whether some order has led to these values.
    pub fn allow(&self, id: OrdersId, values: &PerBlock<Value>, setup: &Setup) -> bool {
        let blocks = usize::from(setup.blocks);
        self.get(id).iter().any(|order| order.values[..blocks] == values.0[..blocks])
    }

    fn get(&self, id: OrdersId) -> &[Order] {
        let at = usize::try_from(id).unwrap_or_else(|_| unreachable!("32 bits fit"));
        &self.sets[at]
    }

    /// Replaces the clients' present set by `orders` and all that they can still lead to. Returns
    /// whether any order is left.
    fn replace(&mut self, mut orders: Vec<Order>, clients: &mut Clients, setup: &Setup) -> bool {
        let mut met: HashSet<Order> = orders.iter().copied().collect();
        let mut at = 0;
        while at < orders.len() {
            let order = orders[at];
            at += 1;
            for next in order.successors(clients, setup) {
                if met.insert(next) {
                    orders.push(next);
                }
            }
        }
        let is_possible = !orders.is_empty();
        clients.orders = self.intern(orders);
        is_possible
    }

    fn intern(&mut self, mut orders: Vec<Order>) -> OrdersId {
        orders.sort_unstable();
        orders.dedup();
        if let Some(&id) = self.ids.get(&orders) {
            return id;
        }
        let id = OrdersId::try_from(self.sets.len()).unwrap_or_else(|_| panic!("too many orders"));
        self.sets.push(orders.clone());
        self.ids.insert(orders, id);
        id
    }
}

impl Order {
    /// All orders that this one leads to with one more moment.
    fn successors(&self, clients: &Clients, setup: &Setup) -> Vec<Order> {
        let mut next = Vec::new();
        for write in Few::below(setup.writes).each() {
            let is_open = clients.writes[write] == WriteState::Sent;
            if is_open && self.effective >> write & 1 == 0 {
                let mut order = *self;
                order.values[usize::from(setup.block_of(write))] = write + 1;
                order.effective |= 1 << write;
                next.push(order);
            }
        }
        for (read, seen) in (0..).zip(&self.seen) {
            if let Some(block) = open_read(&clients.reads, read).filter(|_| seen.is_none()) {
                let mut order = *self;
                order.seen[usize::from(read)] = Some(self.values[usize::from(block)]);
                next.push(order);
            }
        }
        next
    }
}

/// What `read` reads, while it is under way.
fn open_read(reads: &Row<ReadState, READS_MAX>, read: Read) -> Option<Block> {
    match reads[read] {
        ReadState::Loaded { block, .. } => Some(block),
        ReadState::New | ReadState::Over => None,
    }
}
