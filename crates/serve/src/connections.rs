//! Who is connected, and who gives way if there is no place for another client.
//!
//! A connection that waits for its client loses its place to a new one if all are taken: the one that
//! has waited longest for little, which is a silent or a dripping client. One whose answer is being
//! computed keeps it, and those that move bytes come last. A deadline alone would let a few dozen slow senders keep everybody out for as long
//! as they come back.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::http::Wire;

/// How long a client may keep its place without sending or reading anything, if others wait for it. A
/// browser's request follows its connection at once. The less it is, the more slow clients must come
/// at a time to keep others out: more than all places can be given to in it.
const PATIENCE: Duration = Duration::from_millis(10);
/// A client that moves as much is not slow.
const FAST_BYTES_PER_S: f64 = 16384.0;

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    open: Mutex<Vec<Arc<Client>>>,
}

/// A connection, with what it has cost us to wait for its client.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    waits: Mutex<Waits>,
}

/// Waiting during the request that is being read or answered.
#[derive(Debug, Default)]
struct Waits {
    /// Since when it waits, if it does.
    since: Option<Instant>,
    /// How long it waited before that.
    before: Duration,
    /// What came or went in that time.
    bytes: u64,
    /// Whether it has lost its place.
    is_dropped: bool,
}

impl Waits {
    /// How long it has waited for its client; `None` if it does not wait now.
    fn total(&self) -> Option<Duration> {
        Some(self.before + self.since?.elapsed())
    }
}

/// The place of a connection, free again when dropped.
pub(super) struct Place {
    pub(super) client: Arc<Client>,
    connections: Arc<Connections>,
}

impl Connections {
    /// At most `most` connections that have a place.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// A place for a new connection, of which a slow one is deprived if necessary; gives the client
    /// back if there is none.
    pub(super) fn place(self: &Arc<Self>, stream: TcpStream) -> Result<Place, Arc<Client>> {
        let client = Arc::new(Client { stream, waits: Mutex::default() });
        let mut open = self.open();
        let placed = open.iter().filter(|client| !client.waits().is_dropped).count();
        // Those that were dropped end as soon as their threads notice.
        if open.len() >= 2 * self.most || placed >= self.most && !drop_slowest(&open) {
            return Err(client);
        }
        open.push(Arc::clone(&client));
        Ok(Place { client, connections: Arc::clone(self) })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.open().len()
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the connection with the slowest client; `false` if none may be closed.
fn drop_slowest(open: &[Arc<Client>]) -> bool {
    let waiting = open.iter().filter_map(|client| {
        let waits = client.waits();
        let waited = waits.total().filter(|waited| !waits.is_dropped && *waited >= PATIENCE)?;
        let is_slow = (waits.bytes as f64) < FAST_BYTES_PER_S * waited.as_secs_f64();
        Some(((is_slow, waited), client))
    });
    let Some((_, client)) = waiting.max_by_key(|(key, _)| *key) else { return false };
    client.waits().is_dropped = true;
    let _ = client.stream.shutdown(Shutdown::Both); // it may have disconnected
    true
}

impl Place {
    /// The next request begins: what was waited for before does not count.
    pub(super) fn begins_request(&self) {
        let mut waits = self.client.waits();
        (waits.before, waits.bytes) = (Duration::ZERO, 0);
    }

    /// How many connections there are.
    pub(super) fn others(&self) -> usize {
        self.connections.count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().retain(|client| !Arc::ptr_eq(client, &self.client));
    }
}

impl Client {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the time and the bytes of `move_bytes`.
    fn waiting(&self, move_bytes: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.waits().since = Some(Instant::now());
        let moved = move_bytes();
        let mut waits = self.waits();
        waits.before = waits.total().unwrap_or_default();
        waits.since = None;
        waits.bytes += *moved.as_ref().unwrap_or(&0) as u64;
        moved
    }
}

impl Wire for Client {
    fn read(&self, bytes: &mut [u8], within: Duration) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(within))?;
        self.waiting(|| (&self.stream).read(bytes))
    }

    fn write(&self, bytes: &[u8], within: Duration) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(within))?;
        self.waiting(|| (&self.stream).write(bytes))
    }

    fn finish(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Both ends of a connection.
    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_slowest_sender_gives_way_and_a_working_connection_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connections = Connections::new(3);
        let mut clients = Vec::new();
        let mut places = Vec::new();
        for _ in 0..3 {
            let (client, stream) = pair(&listener);
            clients.push(client);
            places.push(connections.place(stream).unwrap());
        }
        // Nobody waits: all compute.
        let (_refused, stream) = pair(&listener);
        assert!(connections.place(stream).is_err());
        // One has received much, one little.
        clients[1].write_all(&[7; 10_000]).unwrap();
        clients[2].write_all(&[7; 10]).unwrap();
        for place in &places[1..] {
            place.client.read(&mut [0; 16_000], Duration::from_secs(1)).unwrap();
        }
        let waiting: Vec<_> = places[1..]
            .iter()
            .map(|place| {
                let client = Arc::clone(&place.client);
                thread::spawn(move || client.read(&mut [0; 9], Duration::from_secs(20)))
            })
            .collect();
        let has_waited = |place: &Place| place.client.waits().total() > Some(2 * PATIENCE);
        while !places[1..].iter().all(has_waited) {
            thread::sleep(Duration::from_millis(5));
        }
        let (_new, stream) = pair(&listener);
        let place = connections.place(stream).expect("the slower one gives way");
        assert!(places[2].client.waits().is_dropped && !places[1].client.waits().is_dropped);
        // Its thread notices; then the other, which now is the slowest, gives way too.
        let (_other, stream) = pair(&listener);
        let other = connections.place(stream).expect("one more");
        for waiting in waiting {
            assert!(matches!(waiting.join().unwrap(), Ok(0) | Err(_)));
        }
        assert!(places[1].client.waits().is_dropped && !places[0].client.waits().is_dropped);
        assert_eq!(connections.count(), 5);
        places.clear();
        assert_eq!((connections.count(), place.others(), other.others()), (2, 2, 2));
    }

    #[test]
    fn waiting_for_the_request_before_does_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_client, stream) = pair(&listener);
        let place = Connections::new(1).place(stream).unwrap();
        let error = place.client.read(&mut [0; 9], Duration::from_millis(30)).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        assert!(place.client.waits().before >= Duration::from_millis(20));
        assert_eq!(place.client.waits().total(), None);
        place.begins_request();
        assert_eq!(place.client.waits().before, Duration::ZERO);
    }
}
