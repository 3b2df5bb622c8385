//! Any bytes of a client get answers, each of them HTTP, in bounded memory.

use fitgpt_serve::{Guard, Request, Response, Service, answers};
use proptest::prelude::*;
use serde_json::{Value, json};

const PORT: u16 = 4848;
/// As the page's requests.
const MAX_JSON_BYTES: u64 = 1 << 20;

/// Answers with what it was asked.
struct Echo;

impl Service for Echo {
    fn answer(&self, request: &mut Request<'_>) -> Response {
        let (path, name) = (request.path.clone(), request.parameter("name"));
        match request.json(MAX_JSON_BYTES) {
            Ok(body) => Response::json(&json!({ "path": path, "name": name, "body": body })),
            Err(refusal) => refusal.into(),
        }
    }
}

fn asked(bytes: &[u8]) -> Vec<u8> {
    answers(bytes, &Guard { port: PORT, is_open: false, token: None }, &Echo)
}

/// The statuses and documents of some answers; an error says which one is not HTTP.
fn documents(written: &[u8]) -> Result<Vec<(u16, Value)>, String> {
    let text = str::from_utf8(written).map_err(|error| error.to_string())?;
    let (mut rest, mut all) = (text, Vec::new());
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").ok_or(format!("no end of {rest:?}"))?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3));
        let status = status.and_then(|status| status.parse().ok());
        let length = lines.find_map(|line| line.strip_prefix("Content-Length: "));
        let length: Option<usize> = length.and_then(|length| length.parse().ok());
        let (Some(status), Some(length)) = (status, length) else {
            return Err(format!("not an answer: {head:?}"));
        };
        let document = after.get(..length).ok_or("the answer is cut off")?;
        all.push((status, serde_json::from_str(document).map_err(|error| error.to_string())?));
        rest = &after[length..];
    }
    Ok(all)
}

/// Pieces of requests, of which most are right.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "GET / HTTP/1.1\r\n",
        "GET /api/runs?name=%41%zz+b HTTP/1.1\r\n",
        "POST /api/plan HTTP/1.1\r\n",
        "POST /api/plan HTTP/1.0\r\n",
        "Host: 127.0.0.1:4848\r\n",
        "Host: evil.example\r\n",
        "Connection: keep-alive\r\n",
        "Content-Type: application/json\r\n",
        "Content-Length: 2\r\n",
        "Content-Length: 18446744073709551615\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Origin: http://127.0.0.1:4848\r\n",
        "Cookie: a=b; fitgpt-4848=c\r\n",
        "\r\n",
        "\r\n{}",
        "{\"keys\":{\"n_layer\":\"2\"}}",
        "[[[[[[[[",
        "\"\\ud800\"",
        "1e999",
        " folded\r\n",
        ": no name\r\n",
    ];
    prop_oneof![
        8 => prop::sample::select(known.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 1..20_000_usize).prop_map(|(byte, count)| vec![byte; count]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn pieces_of_requests_get_answers(pieces in prop::collection::vec(piece(), 0..24)) {
        let found = documents(&asked(&pieces.concat()));
        prop_assert!(found.is_ok(), "{found:?}");
        for (status, _) in found.unwrap() {
            prop_assert!(status == 200 || (400..=503).contains(&status), "{status}");
        }
    }

    #[test]
    fn any_bytes_get_at_most_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let found = documents(&asked(&bytes)).unwrap();
        prop_assert!(found.iter().all(|(status, _)| *status >= 400), "{found:?}");
    }

    #[test]
    fn a_document_arrives_as_it_was_sent_however_many_there_are(
        texts in prop::collection::vec(any::<String>(), 1..6),
    ) {
        let requests: Vec<_> = texts.iter().map(|text| {
            let body = json!({ "keys": { text: [text, 1.5, null] } }).to_string();
            format!(
                "POST /api/plan HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nConnection: keep-alive\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }).collect();
        let found = documents(&asked(requests.concat().as_bytes())).unwrap();
        prop_assert_eq!(found.len(), texts.len());
        for ((status, document), text) in found.iter().zip(&texts) {
            prop_assert_eq!(*status, 200);
            prop_assert_eq!(&document["body"]["keys"][text][0], text);
        }
    }
}

/// The most memory that this process has had.
#[cfg(target_os = "linux")]
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_request_claims_takes_no_memory() {
    let before = peak_bytes();
    let head = format!(
        "POST /api/plan HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: application/json\r\n"
    );
    for length in [MAX_JSON_BYTES, 1 << 32, 1 << 40, u64::MAX] {
        let claim = format!("{head}Content-Length: {length}\r\n\r\n{{");
        let (status, _) = documents(&asked(claim.as_bytes())).unwrap()[0];
        assert_eq!(status, if length > MAX_JSON_BYTES { 413 } else { 408 });
    }
    // Depth, and keys: a megabyte of JSON is the most that is parsed.
    for piece in ["[", "{\"a\":", "[[],", "\"k\",", "1,"] {
        let body = format!("[{}", piece.repeat((MAX_JSON_BYTES as usize - 1) / piece.len()));
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(documents(&asked(request.as_bytes())).unwrap()[0].0, 400);
    }
    // A head without an end, and more requests than a connection may have.
    let endless = format!("{head}{}", "X: y\r\n".repeat(1 << 20));
    assert_eq!(documents(&asked(endless.as_bytes())).unwrap()[0].0, 431);
    let many =
        format!("{head}Connection: keep-alive\r\nContent-Length: 2\r\n\r\n{{}}").repeat(5000);
    assert_eq!(documents(&asked(many.as_bytes())).unwrap().len(), 1000);
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < 96 << 20, "{grown} bytes more");
}
