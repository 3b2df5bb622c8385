//! The page of `fitgpt serve`: a small HTTP server, the page's files, and the runs it shows.
//!
//! A thread per connection, at most [`MAX_CONNECTIONS`], and every connection ends: requests and
//! answers have deadlines. What the page asks for is computed by a [`Service`].
//!
//! Invariant: no request names a file. Runs have ids, and the page's files are in the program.

mod beacon;
mod guard;
mod http;
mod page;
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
    beacon::{Beacon, page_of},
    guard::{Guard, new_token},
    http::{EventStream, Method, Refusal, Request, Response, refuse},
    page::asset,
    runs::{Resolution, Runs},
};

/// A browser opens six; a few tabs are plenty.
const MAX_CONNECTIONS: usize = 64;

/// Answers requests that have passed the guard.
pub(crate) trait Service: Send + Sync + 'static {
    /// The answer.
    fn answer(&self, request: &mut Request<'_>) -> Response;
}

/// Answers every connection of `listener` until the process ends.
pub(crate) fn serve(listener: TcpListener, guard: Guard, service: impl Service) -> io::Result<()> {
    let shared = Arc::new((guard, service));
    let open = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("accept".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            // Out of handles, or gone already: others may still come.
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
            let (shared, slot) = (Arc::clone(&shared), Slot(Arc::clone(&open)));
            let spawned = thread::Builder::new().spawn(move || {
                let (guard, service) = &*shared;
                exchange(&stream, guard, service);
                drop(slot);
            });
            drop(spawned); // without a thread, the closure and its slot are gone
        }
    })?;
    Ok(())
}

/// A place among the connections, given back however its thread ends.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One request and its answer.
fn exchange(stream: &TcpStream, guard: &Guard, service: &impl Service) {
    let response = match Request::read(stream) {
        Ok(mut request) => match guard.check(&request) {
            Ok(()) => service.answer(&mut request),
            Err(refusal) => refusal.into(),
        },
        Err(refusal) => refusal.into(),
    };
    // A client that is gone needs no answer.
    let _ = http::respond(stream, response);
    http::finish(stream);
}
