//! `Queue`: work for a task, which is woken for it.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::task::{Context, Waker};

use super::sync::{Mutex, MutexGuard};

/// Connections to serve and orders to carry out, of the types `C` and `O`.
pub(crate) struct Queue<C, O>(Mutex<Queued<C, O>>);

struct Queued<C, O> {
    connections: Vec<C>,
    orders: VecDeque<O>,
    task: Option<Waker>,
    /// Whether an order was ever queued.
    was_used: bool,
    is_closed: bool,
}

impl<C, O> Default for Queue<C, O> {
    fn default() -> Self {
        Self(Mutex::new(Queued {
            connections: Vec::new(),
            orders: VecDeque::new(),
            task: None,
            was_used: false,
            is_closed: false,
        }))
    }
}

impl<C, O> Queue<C, O> {
    fn lock(&self) -> MutexGuard<'_, Queued<C, O>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an order; returns it when the task has ended.
    pub(crate) fn order(&self, order: O) -> Result<(), O> {
        let mut queued = self.lock();
        if queued.is_closed {
            return Err(order);
        }
        queued.orders.push_back(order);
        queued.was_used = true;
        let task = queued.task.take();
        drop(queued);
        task.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Queues a connection, unless the task has ended.
    pub(crate) fn schedule(&self, connection: C) {
        let mut queued = self.lock();
        if queued.is_closed {
            return;
        }
        queued.connections.push(connection);
        let task = queued.task.take();
        drop(queued);
        task.into_iter().for_each(Waker::wake);
    }

    /// Takes the queued work, and registers the task to be woken for more.
    pub(crate) fn take(&self, cx: &Context<'_>, connections: &mut Vec<C>) -> VecDeque<O> {
        let mut queued = self.lock();
        connections.append(&mut queued.connections);
        let task = queued.task.take();
        let known = task.filter(|task| task.will_wake(cx.waker()));
        queued.task = known.or_else(|| Some(cx.waker().clone()));
        std::mem::take(&mut queued.orders)
    }

    /// Closes the queue if it is empty and was used; returns whether it is closed.
    pub(crate) fn close_if_idle(&self) -> bool {
        let mut queued = self.lock();
        let is_idle = queued.orders.is_empty() && queued.connections.is_empty();
        queued.is_closed |= is_idle && queued.was_used;
        queued.is_closed
    }

    /// Closes the queue and drops the work in it.
    pub(crate) fn close(&self) {
        let mut queued = self.lock();
        queued.is_closed = true;
        let orders = std::mem::take(&mut queued.orders);
        let connections = std::mem::take(&mut queued.connections);
        drop(queued);
        drop((orders, connections));
    }
}
