//! The page of `fitgpt serve`: a small HTTP server, the page's files, and the runs it shows.
//!
//! A thread per connection, at most [`MAX_CONNECTIONS`], and every connection ends: requests and
//! answers have deadlines, and there are at most [`MAX_REQUESTS`]. What the page asks for is computed
//! by a [`Service`].
//!
//! Invariant: no request names a file. Runs have ids, the page's files are in the program, and what a
//! config in a request may name is listed in `powers.rs` of the command.
//!
//! The server is ours, over `std::net` with a thread per connection, and `httparse` for the heads.
//! The page has one user and three kinds of answers (a file, a document, a stream of events), and
//! what matters is limits: bytes and time of a head, of a body, of an answer, the number of
//! connections, and deadlines that a byte now and then does not extend. `axum` with `tokio` brings
//! dozens of crates, and its `serve` has no deadline for heads; the limits would still be ours to
//! add. A connection is kept for the next request if the browser asks for it, for as long as a head
//! may take, and only while few are open; a refused request, or one whose body was not read to its
//! end, closes it. One stream reports all runs, because a browser opens only six connections to a
//! server.

#![forbid(unsafe_code)]

mod http;
mod connections;
mod memory;
mod guard;
mod page;
mod labels;
mod runs;
mod record;

use std::{io, net::TcpListener, sync::Arc, thread, time::Duration};

use self::{
    connections::{Connections, Place},
    http::Wire,
    memory::MemoryWire,
};

pub use self::{
    guard::{Guard, new_token},
    http::{Connection, EventStream, Method, Refusal, Request, Response, refuse},
    labels::labels,
    page::{asset, html, page},
    record::{RecordFile, page_of},
    runs::{Resolution, Runs},
};

/// Enough for several tabs: a browser opens six.
const MAX_CONNECTIONS: usize = 64;
/// With more open, connections are closed after one answer: those that wait for a next request must
/// not keep others out.
const MAX_KEPT: usize = 32;
/// Requests over one connection.
const MAX_REQUESTS: u32 = 1000;

/// Responds to requests that have passed the guard.
pub trait Service: Send + Sync + 'static {
    /// The response.
    fn answer(&self, request: &mut Request<'_>) -> Response;
}

/// Serves every connection of `listener` until the process ends.
pub fn serve(listener: TcpListener, guard: Guard, service: impl Service) -> io::Result<()> {
    let shared = Arc::new((guard, service));
    let connections = Connections::new(MAX_CONNECTIONS);
    thread::Builder::new().name("accept".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            // Out of file handles, or already disconnected: later connections may work.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let _ = stream.set_nodelay(true);
            let place = match connections.place(stream) {
                Ok(place) => place,
                Err(client) => {
                    // Small enough for the socket's buffer, so that it cannot block.
                    let busy = refuse(503, "too many connections");
                    let _ = http::respond(&*client, busy.into(), Connection::Closed);
                    continue;
                }
            };
            let shared = Arc::clone(&shared);
            let spawned = thread::Builder::new().spawn(move || {
                let (guard, service) = &*shared;
                converse(&*place.client, guard, service, Some(&place));
                drop(place);
            });
            drop(spawned); // if no thread was started, the closure and its place are dropped
        }
    })?;
    Ok(())
}

/// What is written to a client that sends these bytes and no more, over a connection in memory: for
/// tests and fuzzing. An answer longer than a few megabytes is cut off.
pub fn answers(bytes: &[u8], guard: &Guard, service: &impl Service) -> Vec<u8> {
    let wire = MemoryWire::new(bytes);
    converse(&wire, guard, service, None);
    wire.into_written()
}

/// The requests of a connection and their responses.
fn converse(wire: &dyn Wire, guard: &Guard, service: &impl Service, place: Option<&Place>) {
    let mut ahead = Vec::new();
    for left in (0..MAX_REQUESTS).rev() {
        if let Some(place) = place {
            place.begins_request();
        }
        let mut request = match Request::read(wire, ahead) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refusal) => {
                let _ = http::respond(wire, refusal.into(), Connection::Closed);
                break;
            }
        };
        let (response, is_refused) = match guard.check(&request) {
            Ok(()) => (service.answer(&mut request), false),
            Err(refusal) => (refusal.into(), true),
        };
        let may_wait = place.is_none_or(|place| place.others() <= MAX_KEPT);
        let is_kept = !is_refused && left > 0 && request.keeps_connection() && may_wait;
        let connection = if is_kept { Connection::Kept } else { Connection::Closed };
        // Ignore errors: the client may have disconnected.
        let is_stream = response.is_stream();
        let written = http::respond(wire, response, connection);
        if !is_kept || is_stream || written.is_err() {
            break;
        }
        ahead = request.into_ahead();
    }
    http::finish(wire);
}
