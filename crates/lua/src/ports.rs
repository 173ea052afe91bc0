//! Where the workers of a script listen: one address, a socket for each worker.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use sluice_net::process::ensure_unclaimed;
use sluice_net::{Binding, Endpoint};

/// An address as scripts ask for it. Port 0 is another port each time a worker asks, but the same for all workers
/// that ask for the same time.
type Key = (Endpoint, usize);

#[derive(Debug)]
struct Bound {
    binding: Arc<Binding>,
    /// The workers that listen.
    by: Vec<usize>,
}

#[derive(Debug, Default)]
struct Book {
    bound: HashMap<Key, Bound>,
    /// How often each worker asked for any port of an address.
    asked: HashMap<(Endpoint, usize), usize>,
}

/// The addresses of all workers of a script.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    book: Arc<Mutex<Book>>,
    workers: usize,
}

/// What a worker listens at; the others may go on when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) binding: Arc<Binding>,
    ports: Ports,
    key: Key,
    worker: usize,
}

impl Ports {
    /// For so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { book: Arc::default(), workers }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// What the kernel says, and that the address is in use if this worker or another program listens there.
    pub(crate) fn listen(&self, endpoint: Endpoint, worker: usize) -> io::Result<Share> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let time = match &endpoint {
            Endpoint::Tcp(address) if address.port() == 0 => {
                let asked = book.asked.entry((endpoint.clone(), worker)).or_default();
                *asked += 1;
                *asked
            }
            _ => 0,
        };
        let key = (endpoint, time);
        if let Some(bound) = book.bound.get_mut(&key) {
            if bound.by.contains(&worker) {
                return Err(io::Error::from_raw_os_error(98));
            }
            bound.by.push(worker);
            let binding = Arc::clone(&bound.binding);
            return Ok(Share { binding, ports: self.clone(), key, worker });
        }
        if let Endpoint::Tcp(address) = &key.0 {
            ensure_unclaimed(*address)?;
        }
        let binding = Arc::new(Binding::bind(&key.0, self.workers)?);
        let bound = Bound { binding: Arc::clone(&binding), by: vec![worker] };
        book.bound.insert(key.clone(), bound);
        Ok(Share { binding, ports: self.clone(), key, worker })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut book = self.ports.book.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bound) = book.bound.get_mut(&self.key) else { return };
        bound.by.retain(|worker| *worker != self.worker);
        if bound.by.is_empty() {
            book.bound.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(share: &Share) -> u16 {
        match share.binding.endpoint() {
            Endpoint::Tcp(address) => address.port(),
            Endpoint::Unix(_) => 0,
        }
    }

    #[test]
    fn workers_share_an_address_and_nobody_else_does() {
        let ports = Ports::new(2);
        let any = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
        let (first, second) =
            (ports.listen(any.clone(), 0).unwrap(), ports.listen(any.clone(), 1).unwrap());
        assert_eq!(port(&first), port(&second));
        let another = ports.listen(any, 0).unwrap();
        assert_ne!(port(&first), port(&another));
        let taken = Endpoint::Tcp(format!("127.0.0.1:{}", port(&first)).parse().unwrap());
        assert_eq!(ports.listen(taken.clone(), 0).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop((first, second));
        let again = ports.listen(taken.clone(), 0).unwrap();
        assert_eq!(ports.listen(taken, 0).unwrap_err().raw_os_error(), Some(98));
        drop(again);
    }
}
