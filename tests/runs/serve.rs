//! The page's server: its responses and refusals.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::program::{TINY, TestFolder, wait_until};

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
    address: String,
}

/// A received response.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Server {
    fn start(place: &TestFolder, more: &[&str]) -> Self {
        let mut command = place.command(&[&["serve", "--json", "--port", "0"], more].concat());
        Self::spawn(command.env("XDG_RUNTIME_DIR", place.path("")))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let facts: Value = serde_json::from_str(&line).unwrap();
        let port = facts["port"].as_u64().unwrap().try_into().unwrap();
        Self { child, port, address: facts["address"].as_str().unwrap().to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream
    }

    /// Sends these bytes and reads the whole response.
    fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses may close before everything is written.
        let _ = stream.write_all(bytes);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A request with a head of these lines, and the right `Host`.
    fn ask(&self, line: &str, headers: &str, body: &[u8]) -> Answer {
        let host = format!("Host: 127.0.0.1:{}\r\n", self.port);
        let length = format!("Content-Length: {}\r\n", body.len());
        let head = format!("{line} HTTP/1.1\r\n{host}{headers}{length}\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "", b"")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let kind = "Content-Type: application/json\r\n";
        self.ask(&format!("POST {path}"), kind, body.to_string().as_bytes())
    }

    fn doctor(&self, known: &Value, log: &[u8]) -> Answer {
        let kind = "Content-Type: application/octet-stream\r\n";
        self.ask("POST /api/doctor", kind, &[format!("{known}\n").as_bytes(), log].concat())
    }

    fn token(&self) -> &str {
        self.address.split_once("?token=").unwrap().1
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The keys of a model that trains in a fraction of a second, as the planner sends them.
fn tiny_keys() -> serde_json::Map<String, Value> {
    let pairs = TINY.iter().filter_map(|arg| arg.trim_start_matches("--").split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

#[test]
fn the_plan_is_the_one_that_the_command_line_prints() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let keys = json!({ "batch_size": "4", "n_layer": "3" });
    let asked = json!({ "keys": keys, "gpu": "RTX 4070", "engine": "torch", "report": true });
    let answer = server.post("/api/plan", &asked).json();
    for (index, engine) in ["torch", "fitgpt"].into_iter().enumerate() {
        let args = ["plan", "--batch_size=4", "--n_layer=3", "--gpu", "RTX 4070", "--json"];
        let ran = place.run(&[&args[..], &["--engine", engine]].concat());
        assert_eq!(answer["engines"][index]["report"], ran.json(), "{engine}");
        // The picture shows the peak of the report.
        let report = &answer["engines"][index]["report"];
        let train = &answer["engines"][index]["phases"][0];
        let columns = 0..train["at"].as_array().unwrap().len();
        let drawn = columns.map(|column| {
            let classes = train["bytes"].as_array().unwrap().iter();
            // One number stands for all columns.
            let own = classes.map(|class| class.get(column).unwrap_or(class).as_u64().unwrap());
            own.sum::<u64>()
        });
        let phases = report["phases"].as_array().unwrap();
        let phase = phases.iter().find(|phase| phase["name"] == "train").unwrap();
        assert_eq!(drawn.max(), phase["peak_bytes"].as_u64());
    }
    // One of several ranks, too, of both engines.
    let mut of_ranks = asked.clone();
    of_ranks["ranks"] = json!(4);
    let answer = server.post("/api/plan", &of_ranks).json();
    let args =
        ["plan", "--batch_size=4", "--n_layer=3", "--gpu", "RTX 4070", "--ranks=4", "--json"];
    for (index, engine) in ["--engine=torch", "--engine=fitgpt"].into_iter().enumerate() {
        let ran = place.run(&[&args[..], &[engine]].concat());
        assert_eq!(answer["engines"][index]["report"], ran.json(), "{engine}");
    }
    let fit = server.post("/api/fit", &asked).json();
    let args = ["fit", "--batch_size=4", "--n_layer=3", "--gpu", "RTX 4070", "--engine", "torch"];
    let printed = place.run(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(fit["recommended"], printed["recommended"]);
    assert_eq!(fit["options"][0]["peak_bytes"], printed["options"][0]["peak_bytes"]);
    assert_eq!(fit["options"][0]["command"], printed["options"][0]["command"]);

    let at =
        json!({ "keys": keys, "gpu": "RTX 4070", "engine": "torch", "phase": "train", "op": 5 });
    let alive = server.post("/api/alive", &at).json();
    assert!(alive["tensors"][0]["bytes"].as_u64().unwrap() > 0, "{alive}");
}

#[test]
fn a_bad_config_is_explained_in_the_language_of_the_page() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let asked = json!({ "config": "batch_size = 'many'\n", "file": "my.py" });
    let english = server.post("/api/plan?lang=en", &asked);
    assert_eq!(english.status, 422);
    assert!(english.json()["error"]["place"].as_str().unwrap().starts_with("my.py"));
    let german = server.post("/api/plan?lang=de", &asked).json();
    assert_ne!(german["error"]["message"], english.json()["error"]["message"]);
    for lang in ["en", "zh", "ja", "de"] {
        let start = server.get(&format!("/api/start?lang={lang}")).json();
        assert_eq!(start["lang"], lang);
        assert!(start["words"].as_object().unwrap().len() > 100);
    }
}

#[test]
fn an_error_is_diagnosed_and_leads_to_the_planner() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let log = fs::read("examples/estimate-loss-batch-64.log").unwrap();
    let answer = server.doctor(&json!({}), &log).json();
    assert_eq!(answer["diagnosis"]["findings"][0]["rule"], "stale-logits");
    assert_eq!(answer["planner"]["keys"]["batch_size"], "64");
    let parts = answer["diagnosis"]["account"]["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["name"].as_str().unwrap().contains("logits")));
    let path = fs::canonicalize("examples/estimate-loss-batch-64.log").unwrap();
    let printed = place.run(&["doctor", path.to_str().unwrap(), "--json"]).json();
    assert_eq!(answer["diagnosis"], printed);
}

#[test]
fn a_snapshot_shows_its_segments_and_a_hostile_one_is_refused() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    // {"segments": [{"total_size": 4096, "blocks": [{"size": 1024, "state": "inactive"}]}]}
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let snapshot = [
        b"\x80\x02}".to_vec(),
        text("segments"),
        b"]}(".to_vec(),
        text("total_size"),
        b"M\x00\x10".to_vec(),
        text("blocks"),
        b"]}(".to_vec(),
        text("size"),
        b"M\x00\x04".to_vec(),
        text("state"),
        text("inactive"),
        b"uauas.".to_vec(),
    ];
    let answer = server.doctor(&json!({}), &snapshot.concat()).json();
    let segment = &answer["snapshot"]["segments"][0];
    assert_eq!(segment["bytes"], 4096);
    assert_eq!(segment["parts"], json!([{ "bytes": 1024, "owner": null }]));

    // A list a byte would take a hundred times its size.
    let lists = [b"\x80\x02".to_vec(), vec![b']'; 8 << 20], b".".to_vec()].concat();
    assert_eq!(server.doctor(&json!({}), &lists).status, 422);
    let code = b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.";
    assert_eq!(server.doctor(&json!({}), code).status, 422);
}

/// The most memory that a process has taken.
#[cfg(target_os = "linux")]
fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn packed_logs_and_long_ones_take_bounded_memory() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.14 GiB. GPU 0 has a \
                 total capacity of 11.69 GiB of which 2.68 GiB is free.\n";
    // 256 MiB of one letter.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..256 {
        packed.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let answer = server.doctor(&json!({}), &packed.finish().unwrap()).json();
    assert_eq!(answer["diagnosis"]["kind"], "none");
    // The error at the end of a log that is too long to be read whole.
    let long = [&vec![b'\n'; 40 << 20][..], error.as_bytes()].concat();
    let answer = server.doctor(&json!({}), &long).json();
    assert_eq!(answer["diagnosis"]["facts"]["requested_bytes"], 6_592_774_799_u64);
    assert!(peak_bytes(server.child.id()) < 150 << 20, "{}", peak_bytes(server.child.id()));
}

#[test]
fn requests_with_other_hosts_or_origins_are_refused() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let port = server.port;
    let get = |host: &str, more: &str| {
        server
            .raw(format!("GET /api/runs HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes())
            .status
    };
    let own = format!("127.0.0.1:{port}");
    assert_eq!(get(&own, ""), 200);
    assert_eq!(get(&format!("localhost:{port}"), ""), 200);
    // DNS rebinding: the name of another site resolves to this machine.
    assert_eq!(get(&format!("evil.example:{port}"), ""), 421);
    assert_eq!(get(&format!("127.0.0.1.evil.example:{port}"), ""), 421);
    assert_eq!(get("127.0.0.1:1", ""), 421);
    assert_eq!(server.raw(b"GET /api/runs HTTP/1.1\r\n\r\n").status, 400);
    // With two hosts or origins, the wrong one might be checked.
    assert_eq!(get(&own, "Host: evil.example\r\n"), 400);
    assert_eq!(get("evil.example", &format!("Host: {own}\r\n")), 400);
    let origins = format!("Origin: http://{own}\r\nOrigin: http://evil.example\r\n");
    assert_eq!(get(&own, &origins), 400);
    // Scripts, images and forms of another site.
    assert_eq!(get(&own, "Origin: http://evil.example\r\n"), 403);
    assert_eq!(get(&own, "Origin: null\r\n"), 403);
    assert_eq!(get(&own, &format!("Origin: http://localhost:{port}\r\n")), 403);
    assert_eq!(get(&own, "Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(get(&own, "Sec-Fetch-Site: same-site\r\n"), 403);
    assert_eq!(get(&own, &format!("Origin: http://{own}\r\nSec-Fetch-Site: same-origin\r\n")), 200);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(server.ask("POST /api/plan", form, b"{}").status, 415);
    assert_eq!(server.ask("POST /api/plan", "", b"{}").status, 415);
    // A link from another site may open the page.
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(server.ask("GET /", link, b"").status, 200);
}

#[test]
fn the_page_forbids_scripts_from_elsewhere() {
    let server = Server::start(&TestFolder::new(), &[]);
    let page = server.get("/");
    assert_eq!(page.status, 200);
    // With its name: a header that no browser knows forbids nothing.
    let policy =
        "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'";
    assert!(page.head.contains(policy), "{}", page.head);
    assert!(!page.head.contains("unsafe"));
    for header in [
        "\r\nX-Content-Type-Options: nosniff",
        "\r\nX-Frame-Options: DENY",
        "\r\nReferrer-Policy: no-referrer",
        "\r\nCross-Origin-Resource-Policy: same-origin",
        "\r\nCross-Origin-Opener-Policy: same-origin",
    ] {
        assert!(page.head.contains(header), "{header}");
    }
    assert!(!page.head.to_lowercase().contains("access-control"));
}

/// What the page's script begins with.
fn start_of(page: &Answer) -> Value {
    let data = page.body.split_once("<script type=\"application/json\" id=\"start\">").unwrap().1;
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_brings_its_words_and_its_first_plan() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    for (accepted, lang) in [("de-DE,de;q=0.9,en;q=0.8", "de"), ("zh", "zh"), ("en-US", "en")] {
        let page = server.ask("GET /", &format!("Accept-Language: {accepted}\r\n"), b"");
        let mut start = start_of(&page);
        let plan = start["plan"].take();
        assert_eq!(plan, server.post(&format!("/api/plan?lang={lang}"), &start["first"]).json());
        let mut asked = server.get(&format!("/api/start?lang={lang}")).json();
        asked["plan"] = Value::Null;
        assert_eq!(start, asked);
    }
    // A language that we do not have, and bytes that are none.
    for accepted in ["fr", "x", "", "\u{e9}\u{e9}", "<script>"] {
        let page = server.ask("GET /", &format!("Accept-Language: {accepted}\r\n"), b"");
        assert_eq!(start_of(&page)["lang"], "en", "{accepted}");
    }
    // A kept page must not hide that its dataset has been prepared in the meantime.
    assert_eq!(start_of(&server.get("/"))["plan"]["vocab"], 50304);
    fs::create_dir_all(place.path("data/openwebtext")).unwrap();
    let meta = b"\x80\x02}X\x0a\x00\x00\x00vocab_sizeK\x07s.";
    fs::write(place.path("data/openwebtext/meta.pkl"), meta).unwrap();
    assert_eq!(start_of(&server.get("/"))["plan"]["vocab"], 7);
}

#[test]
fn a_connection_serves_several_requests_only_if_it_is_asked_to_and_never_smuggles_one() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let host = format!("Host: 127.0.0.1:{}\r\n", server.port);
    let kept = "Connection: keep-alive\r\n";
    let answers = |text: &str| {
        let mut stream = server.connect();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answered = String::new();
        let _ = stream.read_to_string(&mut answered);
        answered.matches("HTTP/1.1 ").count()
    };
    let started = Instant::now();
    let hello = |headers: &str| format!("GET /api/hello HTTP/1.1\r\n{host}{headers}\r\n");
    let post = |headers: &str, body: &str| {
        let kind = "Content-Type: application/json\r\n";
        let length = body.len();
        format!(
            "POST /api/plan HTTP/1.1\r\n{host}{headers}{kind}Content-Length: {length}\r\n\r\n{body}"
        )
    };
    // In one write, too; the last one closes.
    assert_eq!(answers(&format!("{}{}{}", hello(kept), post(kept, "{}"), hello(""))), 3);
    // Not asked for, or refused: what follows is not read as a request.
    assert_eq!(answers(&format!("{}{}", hello(""), hello(""))), 1);
    let foreign = "Origin: http://evil.example\r\n";
    assert_eq!(answers(&format!("{}{}", hello(&format!("{kept}{foreign}")), hello(""))), 1);
    // A request inside of a body that nobody has read.
    let smuggled = post(&format!("{kept}{foreign}"), &hello(""));
    assert_eq!(answers(&smuggled), 1);
    let unread = smuggled.replacen("/api/plan", "/api/nothing", 1).replacen(foreign, "", 1);
    assert_eq!(answers(&unread), 1);
    // Every request is checked, not only the first one.
    let mut stream = server.connect();
    let second = hello(foreign);
    write!(stream, "{}{second}", hello(kept)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("HTTP/1.1 403"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(4), "closed at once, not after a wait");
    // A connection that is kept and silent is closed.
    assert_eq!(answers(&hello(kept)), 1);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn silent_connections_keep_nobody_out() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let host = server.port;
    let mut open: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for stream in &mut open {
        write!(
            stream,
            "GET /api/hello HTTP/1.1\r\nHost: 127.0.0.1:{host}\r\nConnection: keep-alive\r\n\r\n"
        )
        .unwrap();
    }
    // Of sixty that ask to be kept, not all are: there is a place for others.
    let is_closed = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).is_ok() && text.contains("Connection: close")
    };
    let closed = open.iter_mut().map(is_closed).filter(|it| *it).count();
    assert!(closed >= 60 - 32, "{closed}");
    assert_eq!(server.get("/api/hello").status, 200);
}

#[test]
fn no_path_reaches_other_files() {
    let place = TestFolder::new();
    fs::create_dir(place.path("shown")).unwrap();
    fs::create_dir(place.path("secret")).unwrap();
    fs::write(place.path("secret/events.jsonl"), "{\"event\":\"step\",\"step\":7}\n").unwrap();
    let server = Server::start(&place, &["shown"]);
    for path in [
        "/../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/api/runs/../../secret/series",
        "/api/runs/%2e%2e%2fsecret/series",
        "/api/runs//series",
        "/api/runs/0000000000000000/series",
        "/lib.js/../style.css",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(server.get("/api/runs").json(), json!([]));
    // Neither does a config.
    let folder = place.path("secret").display().to_string();
    let weights = json!({ "keys": { "init_from": folder } });
    assert_eq!(server.post("/api/plan", &weights).json()["error"]["kind"], "init-from");
    fs::write(place.path("secret/meta.pkl"), b"\x80\x02}X\x0a\x00\x00\x00vocab_sizeK\x07s.")
        .unwrap();
    let data = json!({ "keys": { "dataset": folder, "init_from": "scratch" }, "gpu": "RTX 4070" });
    assert_eq!(server.post("/api/plan", &data).json()["vocab"], 50304);
}

#[test]
fn requests_that_are_too_long_are_refused() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let head = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(40_000));
    assert_eq!(server.raw(head.as_bytes()).status, 431);
    let kind = "Content-Type: application/json\r\n";
    let long = vec![b' '; (1 << 20) + 1];
    assert_eq!(server.ask("POST /api/plan", kind, &long).status, 413);
    let claim = format!(
        "POST /api/doctor HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: 99999999999\r\n\r\n",
        server.port
    );
    assert_eq!(server.raw(claim.as_bytes()).status, 413);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(server.ask("POST /api/plan", kind, deep.as_bytes()).status, 400);
    let layers = json!({ "keys": { "n_layer": "1000" }, "gpu": "RTX 4070" });
    assert_eq!(server.post("/api/plan", &layers).json()["error"]["kind"], "limit");
    let busy = json!({ "n_layer": "200", "batch_size": "720720", "eval_batch_size": "720720", "block_size": "1" });
    let busy = json!({ "keys": busy, "gpu": "RTX 4070" });
    for path in ["/api/plan", "/api/alive", "/api/fit"] {
        assert_eq!(server.post(path, &busy).json()["error"]["kind"], "limit", "{path}");
    }
    let ranks = json!({ "ranks": 1_000_000, "gpu": "RTX 4070" });
    assert_eq!(server.post("/api/plan", &ranks).json()["error"]["kind"], "limit");
    assert_eq!(server.get("/api/hello").status, 200);
}

#[test]
fn slow_clients_are_dropped_and_do_not_delay_others() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let mut slow: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let started = Instant::now();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    }
    assert_eq!(server.get("/api/hello").status, 200);
    // Sending a header now and then does not help: the whole head has a deadline.
    let mut dripping = slow.pop().unwrap();
    let mut text = Vec::new();
    dripping.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    while started.elapsed() < Duration::from_secs(20) {
        let _ = dripping.write_all(b"X: y\r\n");
        let is_waiting = |error: &std::io::Error| {
            matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        };
        if !dripping.read_to_end(&mut text).is_err_and(|error| is_waiting(&error)) {
            break;
        }
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(String::from_utf8_lossy(&text).starts_with("HTTP/1.1 408"));
}

#[test]
fn slow_senders_keep_nobody_out_however_many_they_are() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        // A hundred senders of one byte now and then, which come back when they are cut off.
        for _ in 0..4 {
            scope.spawn(|| {
                let mut slow: Vec<_> = (0..25).map(|_| server.connect()).collect();
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    for stream in &mut slow {
                        if stream.write_all(b"G").is_err() {
                            *stream = server.connect();
                        }
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        let mut refused = 0;
        for _ in 0..100 {
            refused += usize::from(server.get("/api/hello").status != 200);
            thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        // Those that have just come cannot be told from others for a tenth of a second.
        assert!(refused <= 5, "{refused} of 100 requests refused");
    });
}

#[test]
fn many_connections_leave_the_server_alive() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let open: Vec<_> = (0..200).map(|_| server.connect()).collect();
    thread::sleep(Duration::from_millis(200));
    drop(open);
    wait_until("there is a free connection", || server.get("/api/hello").status == 200);
}

#[test]
fn another_address_and_training_need_the_token() {
    let place = TestFolder::new();
    for more in [&["--bind", "127.0.0.1"][..], &["--allow-train"]] {
        let server = Server::start(&place, more);
        for path in ["/", "/page.js", "/api/start", "/api/hello", "/api/runs", "/api/events"] {
            assert_eq!(server.get(path).status, 401, "{path}");
        }
        let ask = |headers: &str| server.ask("GET /api/hello", headers, b"").status;
        assert_eq!(ask("Authorization: Bearer 0000\r\n"), 401);
        assert_eq!(ask(&format!("Authorization: Bearer {}\r\n", server.token())), 200);
        // The printed address gives a cookie, and the page has no token in its address.
        let page = server.get(&format!("/?token={}", server.token()));
        assert_eq!(page.status, 303);
        assert!(page.head.contains("Location: /\r\n"));
        let cookie = page.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"));
        let cookie = cookie.split(';').next().unwrap();
        assert_eq!(ask(&format!("Cookie: {cookie}\r\n")), 200);
        assert_eq!(server.get(&format!("/api/hello?token={}", server.token())).status, 401);
    }
    let server = Server::start(&place, &[]);
    assert_eq!(server.post("/api/train", &json!({})).status, 403);
    assert_eq!(server.post("/api/stop", &json!({})).status, 403);
}

/// All of 127.0.0.0/8 leads to this machine, so a server that listens everywhere answers there.
#[cfg(target_os = "linux")]
#[test]
fn only_loopback_is_listened_to_unless_another_address_is_asked_for() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    assert_eq!(server.get("/api/hello").status, 200);
    assert!(TcpStream::connect(("127.0.0.2", server.port)).is_err());
    let open = Server::start(&place, &["--bind", "0.0.0.0"]);
    assert!(TcpStream::connect(("127.0.0.2", open.port)).is_ok());
    assert_eq!(open.get("/api/hello").status, 401);
}

#[test]
fn a_run_is_listed_followed_and_named_by_train() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let mut command =
        place.command(&[&["train"], TINY, &["--max_iters=5", "--out_dir=out"]].concat());
    let output = command.env("XDG_RUNTIME_DIR", place.path("")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let id = stderr.split_once("#/runs?run=").expect(&stderr).1[..16].to_owned();
    wait_until("the run is listed", || server.get("/api/runs").json()[0]["state"] == "done");
    let run = &server.get("/api/runs").json()[0];
    assert_eq!((run["id"].as_str(), run["name"].as_str()), (Some(&*id), Some("out")));
    assert_eq!((run["step"].as_u64(), run["max_iters"].as_u64()), (Some(5), Some(5)));
    let series = server.get(&format!("/api/runs/{id}/series?from=2&to=4")).json();
    assert_eq!(series["series"]["step"], json!([2, 3, 4]));
    let loss = super::program::events(&place.path("out"), "step")[3]["loss"].as_f64().unwrap();
    let shown = series["series"]["loss"]["mean"][1].as_f64().unwrap();
    // Kept as float32.
    assert!((loss - shown).abs() < 1e-6, "{loss} {shown}");
    assert_eq!(series["plan"]["config"]["n_layer"], 2);
    assert_eq!(series["evaluations"].as_array().unwrap().len(), 2); // at the start and at the end
}

#[test]
fn events_report_a_run_while_it_trains() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let mut stream = server.connect();
    let host = server.port;
    write!(stream, "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{host}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    place.train(&["--max_iters=3", "--out_dir=out"]);
    let data = lines.find_map(|line| {
        let run: Value = serde_json::from_str(line.ok()?.strip_prefix("data: ")?).ok()?;
        (run["state"] == "done").then_some(run)
    });
    assert_eq!(data.unwrap()["step"], 3);
}

#[cfg(target_os = "linux")]
#[test]
fn the_page_starts_a_run_and_stops_it_with_a_save() {
    let place = TestFolder::new();
    let server = Server::start(&place, &["--allow-train"]);
    let post = |path: &str, body: &Value| {
        let token = format!("Authorization: Bearer {}\r\n", server.token());
        let headers = format!("Content-Type: application/json\r\n{token}");
        server.ask(&format!("POST {path}"), &headers, body.to_string().as_bytes())
    };
    let mut keys = tiny_keys();
    keys.insert("max_iters".to_owned(), json!("1000000"));
    for name in ["../out", "a/b", "", ".hidden", "-x", "a b"] {
        let refused = post("/api/train", &json!({ "plan": { "keys": keys }, "name": name }));
        assert_eq!(refused.json()["error"]["kind"], "name", "{name}");
    }
    let started = post("/api/train", &json!({ "plan": { "keys": keys }, "name": "run-1" })).json();
    let id = started["id"].as_str().unwrap().to_owned();
    let again = post("/api/train", &json!({ "plan": { "keys": keys }, "name": "run-1" }));
    assert_eq!(again.status, 422);
    let token = format!("Authorization: Bearer {}\r\n", server.token());
    let state = || {
        let runs = server.ask("GET /api/runs", &token, b"").json();
        let runs = runs.as_array().unwrap().clone();
        runs.into_iter().find(|run| run["id"] == *id)
    };
    wait_until("it trains", || {
        state().is_some_and(|run| run["state"] == "training" && run["step"].as_u64() > Some(1))
    });
    assert!(state().unwrap()["resident_bytes"].as_u64() > Some(1 << 20));
    assert_eq!(post("/api/stop", &json!({ "id": id })).status, 200);
    wait_until("it has stopped", || state().is_some_and(|run| run["state"] == "interrupted"));
    assert!(place.path("run-1/model.safetensors").is_file());
    // A run that cannot start reports the reason.
    keys.insert("dataset".to_owned(), json!("missing"));
    let failed = post("/api/train", &json!({ "plan": { "keys": keys }, "name": "run-2" }));
    assert!(failed.json()["error"]["message"].as_str().unwrap().contains("missing"));
}

#[test]
fn the_number_of_runs_is_limited_however_many_start_at_the_same_time() {
    let place = TestFolder::new();
    let server = Server::start(&place, &["--allow-train"]);
    let token = format!("Authorization: Bearer {}\r\n", server.token());
    let headers = format!("Content-Type: application/json\r\n{token}");
    let mut keys = tiny_keys();
    keys.insert("max_iters".to_owned(), json!("1000000"));
    let start = &|number: usize| {
        let asked = json!({ "plan": { "keys": keys }, "name": format!("run-{number}") });
        server.ask("POST /api/train", &headers, asked.to_string().as_bytes()).json()
    };
    let answers: Vec<Value> = thread::scope(|scope| {
        let started: Vec<_> = (0..16).map(|number| scope.spawn(move || start(number))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let accepted: Vec<_> = answers.iter().filter(|it| it["id"].is_string()).collect();
    let limited = answers.iter().filter(|it| it["error"]["kind"] == "limit").count();
    for run in &accepted {
        let stop = json!({ "id": run["id"] }).to_string();
        server.ask("POST /api/stop", &headers, stop.as_bytes());
    }
    assert_eq!((accepted.len(), limited), (4, 12), "{answers:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_of_the_page_reads_no_file_that_a_request_names() {
    let place = TestFolder::new();
    fs::write(place.path("secret.txt"), "0 1 2 3").unwrap();
    fs::create_dir_all(place.path("shown")).unwrap();
    let server = Server::start(&place, &["shown", "--allow-train"]);
    let token = format!("Authorization: Bearer {}\r\n", server.token());
    let headers = format!("Content-Type: application/json\r\n{token}");
    let post = |path: &str, body: &Value| {
        server.ask(&format!("POST {path}"), &headers, body.to_string().as_bytes())
    };
    let tiny = tiny_keys();
    let secret = format!("FILE:{}", place.path("secret.txt").display());
    let data = place.path("data/tiny").display().to_string();
    let cases = [
        ("start", secret.as_str(), "start"),
        ("start", "FILE:secret.txt", "start"),
        ("dataset", &data, "dataset"),
        ("dataset", "../data/tiny", "dataset"),
        ("dataset", "data/tiny", "dataset"),
        ("init_from", &data, "init-from"),
        ("init_from", "data", "init-from"),
        ("init_from", "../x", "init-from"),
    ];
    for (index, (key, value, kind)) in cases.into_iter().enumerate() {
        // As an override, and in the text of a config.
        let mut keys = tiny.clone();
        keys.insert("sample_interval".to_owned(), json!("1"));
        let text = format!("{key} = '{value}'\n");
        let mut without = keys.clone();
        without.remove(key);
        keys.insert(key.to_owned(), json!(value));
        for plan in [json!({ "keys": keys }), json!({ "keys": without, "config": text })] {
            let name = format!("run-{index}");
            let refused = post("/api/train", &json!({ "plan": plan, "name": name })).json();
            assert_eq!(refused["error"]["kind"], kind, "{key} = {value}: {refused}");
            assert!(!place.path("shown").join(&name).exists(), "{key} = {value}");
        }
    }
    // The folder of a run is the name in the request, whatever the config says.
    let mut keys = tiny.clone();
    keys.insert("out_dir".to_owned(), json!(place.path("elsewhere").display().to_string()));
    keys.insert("max_iters".to_owned(), json!("1"));
    let started = post("/api/train", &json!({ "plan": { "keys": keys }, "name": "run" }));
    assert_eq!(started.status, 200, "{}", started.json());
    wait_until("it has saved", || place.path("shown/run/model.safetensors").exists());
    assert!(!place.path("elsewhere").exists());
}

#[test]
fn no_request_to_plan_takes_the_machine() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let keys = json!({ "n_layer": "2", "n_head": "64", "batch_size": "65536",
        "vocab_size": "1000000", "loss_chunk_rows": "7", "dtype": "float32", "compile": "False" });
    for path in ["/api/fit", "/api/plan"] {
        let started = std::time::Instant::now();
        let asked = json!({ "keys": keys, "engine": "torch", "gpu": "RTX 4090" });
        let answer = server.post(path, &asked);
        assert!(matches!(answer.status, 200 | 422), "{path}: {}", answer.status);
        let elapsed = started.elapsed();
        assert!(elapsed < std::time::Duration::from_secs(10), "{path}: {elapsed:?}");
    }
}

#[test]
fn hostile_logs_are_shown_as_text_and_take_little_memory() {
    let place = TestFolder::new();
    let folder = place.path("out");
    fs::create_dir(&folder).unwrap();
    let mut file = fs::File::create(folder.join("events.jsonl")).unwrap();
    let script = "<script>alert(1)</script>";
    let plan = json!({ "event": "plan", "step": 0, "run_id": script, "plan": { "config": { "out_dir": script } } });
    writeln!(file, "{plan}").unwrap();
    file.write_all(&vec![b'x'; 3 << 20]).unwrap(); // a line that does not end like an event
    writeln!(file).unwrap();
    writeln!(file, "{}{}", "[".repeat(1000), "]".repeat(1000)).unwrap();
    writeln!(file, "{}", json!({ "event": "step", "step": u64::MAX, "loss": 1e300, "ms": -1 }))
        .unwrap();
    writeln!(file, "{}", json!({ "event": "sample", "step": 1, "text": script })).unwrap();
    file.write_all(b"{\"event\":\"step\",\"step\":3,\"lo").unwrap();
    let server = Server::start(&place, &[]);
    let runs = server.get("/api/runs").json();
    let id = runs[0]["id"].as_str().unwrap();
    let run = server.get(&format!("/api/runs/{id}/series"));
    assert_eq!(run.status, 200);
    assert!(run.head.contains("Content-Type: application/json"));
    assert_eq!(run.json()["samples"][0]["text"], script);
    assert_eq!(run.json()["last_step"], u64::MAX);
}

#[test]
fn a_busy_port_and_a_missing_folder_are_errors() {
    let place = TestFolder::new();
    let server = Server::start(&place, &[]);
    let ran = place.run(&["serve", "--port", &server.port.to_string(), "--json"]);
    assert_eq!((ran.code, ran.json()["error"]["kind"].as_str()), (Some(2), Some("address")));
    let ran = place.run(&["serve", "nowhere", "--json"]);
    assert_eq!((ran.code, ran.json()["error"]["kind"].as_str()), (Some(2), Some("file")));
}
