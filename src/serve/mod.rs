//! The page of `fitgpt serve`: a small HTTP server, the page's files, and the runs it shows.
//!
//! There is a thread per connection, at most [`MAX_CONNECTIONS`], and every connection ends,
//! because requests and responses have deadlines. A [`Service`] computes the responses.
//!
//! Invariant: no request names a file. Runs have ids, and the page's files are in the program.

mod guard;
mod http;
mod page;
mod record;
mod runs;

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

pub(crate) use self::{
    guard::{Guard, new_token},
    http::{EventStream, Method, Refusal, Request, Response, refuse},
    page::asset,
    record::{RecordFile, page_of},
    runs::{Resolution, Runs},
};

/// Enough for several tabs: a browser opens six.
const MAX_CONNECTIONS: usize = 64;

/// Responds to requests that have passed the guard.
pub(crate) trait Service: Send + Sync + 'static {
    /// The response.
    fn answer(&self, request: &mut Request<'_>) -> Response;
}

/// Serves every connection of `listener` until the process ends.
pub(crate) fn serve(listener: TcpListener, guard: Guard, service: impl Service) -> io::Result<()> {
    let shared = Arc::new((guard, service));
    let open = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("accept".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            // Out of file handles, or already disconnected: later connections may work.
            let Ok(stream) = stream else {
                thread::sleep(std::time::Duration::from_millis(20));
                continue;
            };
            let _ = stream.set_nodelay(true);
            if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                // Small enough for the socket's buffer, so that it cannot block.
                let busy = refuse(503, "too many connections");
                let _ = http::respond(&stream, busy.into());
                continue;
            }
            let (shared, slot) = (Arc::clone(&shared), ConnectionPermit(Arc::clone(&open)));
            let spawned = thread::Builder::new().spawn(move || {
                let (guard, service) = &*shared;
                exchange(&stream, guard, service);
                drop(slot);
            });
            drop(spawned); // if no thread was started, the closure and its slot are dropped
        }
    })?;
    Ok(())
}

/// One of the [`MAX_CONNECTIONS`], released however its thread ends.
struct ConnectionPermit(Arc<AtomicUsize>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One request and its response.
fn exchange(stream: &TcpStream, guard: &Guard, service: &impl Service) {
    let response = match Request::read(stream) {
        Ok(mut request) => match guard.check(&request) {
            Ok(()) => service.answer(&mut request),
            Err(refusal) => refusal.into(),
        },
        Err(refusal) => refusal.into(),
    };
    // Ignore errors: the client may have disconnected.
    let _ = http::respond(stream, response);
    http::finish(stream);
}
