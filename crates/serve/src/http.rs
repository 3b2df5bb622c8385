//! HTTP/1.1 over a socket: a request in, an answer out. A client that asks for it may send another
//! request over the same connection.
//!
//! Every step has a limit: bytes and time of the head, bytes and time of the body, time of the
//! response. `httparse` parses the head; a body needs a `Content-Length`.

use std::{
    fmt,
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use serde_json::Value;

/// More than any head: one with a token and a long query has less than 2 KiB.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// How long a client may take for its head, from the end of the answer before it.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a client may take to send its body, and to read a response.
const BODY_TIME: Duration = Duration::from_secs(30);
/// What a body must bring on average after [`BODY_GRACE`]. The slowest of today's networks bring more.
const BODY_BYTES_PER_S: f64 = 16384.0;
const BODY_GRACE: Duration = Duration::from_secs(2);
/// How much a client may still send after it was refused, so that it can read the response.
const MAX_DRAINED_BYTES: usize = 4 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// A connection to a client.
pub trait Wire: fmt::Debug {
    /// Reads some bytes within this time; 0 if the client sends no more.
    fn read(&self, bytes: &mut [u8], within: Duration) -> io::Result<usize>;
    /// Writes some bytes within this time.
    fn write(&self, bytes: &[u8], within: Duration) -> io::Result<usize>;
    /// Says that nothing more will be written.
    fn finish(&self) -> io::Result<()>;
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Asks for something.
    Get,
    /// Sends something.
    Post,
}

/// A request whose head has been read.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// Starts with `/`; without the query, and not decoded.
    pub path: String,
    query: String,
    headers: Vec<(String, String)>, // names in lower case
    body: Body<'a>,
}

/// The rest of the connection, up to the stated length.
#[derive(Debug)]
struct Body<'a> {
    /// The bytes that arrived together with the head.
    start: io::Cursor<Vec<u8>>,
    wire: &'a dyn Wire,
    /// When its head was there.
    since: Instant,
    left_bytes: u64,
    /// What has been read of it.
    read_bytes: u64,
}

/// A refused request: its status and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// Why.
    pub message: &'static str,
}

/// A refusal with this status.
pub const fn refuse(status: u16, message: &'static str) -> Refusal {
    Refusal { status, message }
}

/// A socket with a deadline instead of a timeout, so that sending a byte now and then does not
/// extend it.
#[derive(Clone, Copy, Debug)]
struct Timed<'a> {
    wire: &'a dyn Wire,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wire.read(bytes, self.left()?)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.write(bytes, self.left()?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Body<'_> {
    /// Until when the next bytes must be there: a slow sender would keep others from what it has, such
    /// as the permit to upload.
    fn until(&self) -> Instant {
        let earned = Duration::from_secs_f64(self.read_bytes as f64 / BODY_BYTES_PER_S);
        self.since + (BODY_GRACE + earned).min(BODY_TIME)
    }
}

impl Read for Body<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(bytes.len());
        if most == 0 {
            return Ok(0);
        }
        let mut count = self.start.read(&mut bytes[..most])?;
        if count == 0 {
            count = Timed { wire: self.wire, until: self.until() }.read(&mut bytes[..most])?;
        }
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left_bytes -= count as u64;
        self.read_bytes += count as u64;
        Ok(count)
    }
}

impl<'a> Request<'a> {
    /// Reads the head of a request; `None` if the client sends none. `ahead` is what has been read
    /// of the connection after the request before.
    pub fn read(wire: &'a dyn Wire, ahead: Vec<u8>) -> Result<Option<Self>, Refusal> {
        let mut timed = Timed { wire, until: Instant::now() + HEAD_TIME };
        let mut bytes = ahead;
        let mut chunk = [0; 2048];
        loop {
            if !bytes.is_empty()
                && let Some(request) = Self::parse(&bytes, wire)?
            {
                return Ok(Some(request));
            }
            if bytes.len() > MAX_HEAD_BYTES {
                return Err(refuse(431, "the request's head is too long"));
            }
            match timed.read(&mut chunk) {
                Ok(0) | Err(_) if bytes.is_empty() => return Ok(None),
                Ok(0) => return Err(refuse(400, "the request has no end")),
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(_) => return Err(refuse(408, "no request in time")),
            }
        }
    }

    /// The request at the start of `bytes`; `None` if its head is incomplete.
    fn parse(bytes: &[u8], wire: &'a dyn Wire) -> Result<Option<Self>, Refusal> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(refuse(431, "too many headers")),
            Err(_) => return Err(refuse(400, "this is not HTTP/1.1")),
        };
        let method = match head.method {
            Some("GET") => Method::Get,
            Some("POST") => Method::Post,
            _ => return Err(refuse(405, "only GET and POST are supported")),
        };
        let target = head.path.unwrap_or("/");
        if !target.starts_with('/') {
            return Err(refuse(400, "the target is not a path"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
        let headers: Vec<_> = head
            .headers
            .iter()
            .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
            .collect();
        let mut request = Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Body {
                start: io::Cursor::new(bytes[length..].to_vec()),
                wire,
                since: Instant::now(),
                left_bytes: 0,
                read_bytes: 0,
            },
        };
        request.body.left_bytes = request.content_length()?;
        Ok(Some(request))
    }

    /// Refuses two lengths, or a length and chunks, because they allow request smuggling.
    fn content_length(&self) -> Result<u64, Refusal> {
        if self.header("transfer-encoding").is_some() {
            return Err(refuse(501, "a body needs a Content-Length"));
        }
        let mut lengths = self.headers.iter().filter(|(name, _)| name == "content-length");
        let Some((_, length)) = lengths.next() else { return Ok(0) };
        let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        match length.parse() {
            Ok(length) if is_number && lengths.next().is_none() => Ok(length),
            _ => Err(refuse(400, "the Content-Length is not one number")),
        }
    }

    /// The first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// How many headers of this name there are.
    pub fn headers_of(&self, name: &str) -> usize {
        self.headers.iter().filter(|(found, _)| found == name).count()
    }

    /// The header of this name, if there is exactly one.
    pub fn only_header(&self, name: &str) -> Option<&str> {
        self.header(name).filter(|_| self.headers_of(name) == 1)
    }

    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
    }

    /// Whether the client asks to send another request after this one, and can: a body that was
    /// not read to its end would be taken for a request.
    pub fn keeps_connection(&self) -> bool {
        let connection = self.only_header("connection");
        connection.is_some_and(|it| it.eq_ignore_ascii_case("keep-alive"))
            && self.body.left_bytes == 0
    }

    /// What has been read of the connection after this request.
    pub fn into_ahead(self) -> Vec<u8> {
        let used = usize::try_from(self.body.start.position()).unwrap_or(usize::MAX);
        let mut bytes = self.body.start.into_inner();
        bytes.drain(..used.min(bytes.len()));
        bytes
    }

    /// The stated length of the body.
    pub fn body_bytes(&self) -> u64 {
        self.body.left_bytes
    }

    /// The body as a stream, if it is no longer than `limit_bytes`.
    pub fn body(&mut self, limit_bytes: u64) -> Result<&mut dyn Read, Refusal> {
        if self.body.left_bytes > limit_bytes {
            return Err(refuse(413, "the body is too long"));
        }
        Ok(&mut self.body)
    }

    /// The body as JSON, if it is no longer than `limit_bytes`.
    pub fn json(&mut self, limit_bytes: u64) -> Result<Value, Refusal> {
        let mut bytes = Vec::new();
        self.body(limit_bytes)?
            .read_to_end(&mut bytes)
            .map_err(|_| refuse(408, "the body did not arrive"))?;
        serde_json::from_slice(&bytes).map_err(|_| refuse(400, "the body is not JSON"))
    }
}

/// Decodes `+` and `%20`. Bytes that are not UTF-8 are replaced.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The response to a request.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Headers in addition to those of every response.
    pub headers: Vec<(&'static str, String)>,
    /// What follows the head.
    pub body: ResponseBody,
}

/// The body of a response.
pub enum ResponseBody {
    Text(String),
    Static(&'static [u8]),
    /// Server-sent events, as long as the function writes them.
    Events(WriteEvents),
}

/// Writes events until the client disconnects.
type WriteEvents = Box<dyn FnOnce(&mut EventStream<'_>) -> io::Result<()> + Send>;

impl Response {
    /// A document.
    pub fn json(value: &Value) -> Self {
        Self::text(200, "application/json", value.to_string())
    }

    /// A text of this type.
    pub fn text(status: u16, content_type: &'static str, text: String) -> Self {
        Self { status, content_type, headers: Vec::new(), body: ResponseBody::Text(text) }
    }

    /// Whether the answer has no end.
    pub const fn is_stream(&self) -> bool {
        matches!(self.body, ResponseBody::Events(_))
    }

    /// A stream of events.
    pub fn events(
        write: impl FnOnce(&mut EventStream<'_>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let body = ResponseBody::Events(Box::new(write));
        Self { status: 200, content_type: "text/event-stream", headers: Vec::new(), body }
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        let error = serde_json::json!({ "kind": "http", "message": refusal.message });
        let document = serde_json::json!({ "error": error });
        Self::text(refusal.status, "application/json", document.to_string())
    }
}

/// The headers of every response. Scripts, styles and data come only from this server; no other
/// page may frame it or read from it.
const SAFE: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; \
form-action 'none'; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n";

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The client may send another request.
    Kept,
    /// The caller closes it.
    Closed,
}

/// Writes an answer. After a stream of events the connection is closed in any case.
pub(super) fn respond(
    wire: &dyn Wire,
    response: Response,
    connection: Connection,
) -> io::Result<()> {
    let mut timed = Timed { wire, until: Instant::now() + BODY_TIME };
    let is_stream = response.is_stream();
    let Response { status, content_type, headers, body } = response;
    let mut head = format!("HTTP/1.1 {status} {}\r\n{SAFE}", reason(status));
    if !headers.iter().any(|(name, _)| *name == "Cache-Control") {
        head.push_str("Cache-Control: no-store\r\n");
    }
    for (name, value) in headers {
        head.extend([name, ": ", &value, "\r\n"]);
    }
    head.push_str(match connection {
        // A second less than we wait, so that no request meets a closed connection.
        Connection::Kept if !is_stream => "Connection: keep-alive\r\nKeep-Alive: timeout=4\r\n",
        _ => "Connection: close\r\n",
    });
    head.extend(["Content-Type: ", content_type, "\r\n"]);
    let bytes: &[u8] = match &body {
        ResponseBody::Text(text) => text.as_bytes(),
        ResponseBody::Static(bytes) => bytes,
        ResponseBody::Events(_) => {
            head.push_str("\r\n");
            timed.write_all(head.as_bytes())?;
            let ResponseBody::Events(write) = body else { unreachable!("matched above") };
            return write(&mut EventStream { wire });
        }
    };
    head.extend(["Content-Length: ", &bytes.len().to_string(), "\r\n\r\n"]);
    // One packet for a small response.
    let mut all = head.into_bytes();
    if bytes.len() <= 64 << 10 {
        all.extend_from_slice(bytes);
        return timed.write_all(&all);
    }
    timed.write_all(&all)?;
    timed.write_all(bytes)
}

/// Ends a connection whose request may not have been read completely. Closing it at once would
/// reset it, and the client would not see the response.
pub(super) fn finish(wire: &dyn Wire) {
    let _ = wire.finish();
    let mut timed = Timed { wire, until: Instant::now() + DRAIN_TIME };
    let mut chunk = [0; 16 << 10];
    let mut drained = 0;
    while drained < MAX_DRAINED_BYTES {
        match timed.read(&mut chunk) {
            Ok(count) if count > 0 => drained += count,
            _ => break,
        }
    }
}

/// A stream of server-sent events.
pub struct EventStream<'a> {
    wire: &'a dyn Wire,
}

impl EventStream<'_> {
    /// How long a client may take to read an event.
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// Sends one event of this name.
    pub fn send(&mut self, name: &str, data: &Value) -> io::Result<()> {
        self.write(&format!("event: {name}\ndata: {data}\n\n"))
    }

    /// Sends a comment, to check that the client is still connected.
    pub fn ping(&mut self) -> io::Result<()> {
        self.write(":\n\n")
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let until = Instant::now() + Self::TIMEOUT;
        Timed { wire: self.wire, until }.write_all(text.as_bytes())
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryWire;

    /// What a server makes of these bytes, which are more than none.
    fn parsed<T>(bytes: &[u8], check: impl FnOnce(Result<Request<'_>, Refusal>) -> T) -> T {
        check(Request::read(&MemoryWire::new(bytes), Vec::new()).map(Option::unwrap))
    }

    fn status(bytes: &[u8]) -> u16 {
        parsed(bytes, |request| request.unwrap_err().status)
    }

    #[test]
    fn a_request_has_a_path_parameters_and_a_body() {
        let bytes = b"POST /api/x?a=1+2%203&b=%C3%A9&a=9 HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\n\r\n{}rest";
        parsed(bytes, |request| {
            let mut request = request.unwrap();
            assert_eq!((request.method, request.path.as_str()), (Method::Post, "/api/x"));
            assert_eq!(request.parameter("a").as_deref(), Some("1 2 3"));
            assert_eq!(request.parameter("b").as_deref(), Some("é"));
            assert_eq!(request.parameter("c"), None);
            assert_eq!(request.header("host"), Some("me"));
            assert_eq!(request.json(10).unwrap(), serde_json::json!({}));
        });
    }

    #[test]
    fn a_connection_is_kept_if_it_is_asked_for_and_the_body_was_read() {
        let kept = "Connection: Keep-Alive\r\n";
        let text = |headers: &str| {
            format!("POST / HTTP/1.1\r\n{headers}Content-Length: 2\r\n\r\n{{}}GET /")
        };
        parsed(text(kept).as_bytes(), |request| {
            let mut request = request.unwrap();
            assert!(!request.keeps_connection(), "its body would be the next request");
            request.json(10).unwrap();
            assert!(request.keeps_connection());
            assert_eq!(request.into_ahead(), b"GET /");
        });
        let both = "Connection: keep-alive\r\nConnection: close\r\n";
        for headers in ["", "Connection: close\r\n", both] {
            parsed(text(headers).as_bytes(), |request| {
                let mut request = request.unwrap();
                request.json(10).unwrap();
                assert!(!request.keeps_connection(), "{headers}");
            });
        }
    }

    #[test]
    fn a_body_longer_than_its_limit_is_refused_before_it_is_read() {
        let bytes = b"POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n";
        let refused = parsed(bytes, |request| request.unwrap().json(10).unwrap_err());
        assert_eq!(refused.status, 413);
    }

    #[test]
    fn anything_but_one_plain_request_is_refused() {
        assert_eq!(status(b"hello\r\n\r\n"), 400);
        assert_eq!(status(b"GET http://x/ HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status(b"PUT / HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\n"), 400);
        assert_eq!(status(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 501);
        for lengths in ["-1", "+1", "1x", "", "1\r\nContent-Length: 1", "99999999999999999999"] {
            let text = format!("POST / HTTP/1.1\r\nContent-Length: {lengths}\r\n\r\n");
            assert_eq!(status(text.as_bytes()), 400, "{lengths}");
        }
    }

    #[test]
    fn a_long_head_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(MAX_HEAD_BYTES + 4096));
        assert_eq!(status(long.as_bytes()), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(status(many.as_bytes()), 431);
    }

    /// A client that sends one byte of its body at a time.
    #[derive(Debug)]
    struct Dripping;

    impl Wire for Dripping {
        fn read(&self, bytes: &mut [u8], within: Duration) -> io::Result<usize> {
            assert!(within <= BODY_TIME, "{within:?}");
            bytes[0] = b' ';
            Ok(1)
        }

        fn write(&self, _: &[u8], _: Duration) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn finish(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_body_must_come_at_a_rate() {
        let head = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n";
        let mut request = Request::read(&Dripping, head.to_vec()).unwrap().unwrap();
        let body = &mut request.body;
        body.read_exact(&mut [0; 10]).unwrap();
        // Ten bytes later the grace is over, and a megabyte later it is not.
        body.since = Instant::now().checked_sub(BODY_GRACE).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(body.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        body.read_bytes = 1 << 20;
        body.read_exact(&mut [0; 10]).unwrap();
        body.since = Instant::now().checked_sub(BODY_TIME).unwrap();
        body.read_bytes = 1 << 40;
        assert_eq!(body.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn incomplete_escapes_are_kept() {
        assert_eq!(decoded("%4g%4"), "%4g%4");
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }
}
