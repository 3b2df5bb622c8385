//! Tests the downloading code with a local server that implements the hub's interface, correctly
//! and with faults.

mod program;
mod server;

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fitgpt_prepare::hub::{Hub, HubError, Repo, RepoKind, Settings};
use server::{COMMIT, Faults, Server};
use tempfile::TempDir;

const NEVER: &dyn Fn() -> bool = &|| false;
const FILE: &str = "data/big file.bin";
const SIZE: usize = 300_000;

/// A repository with a large file, a small one and some others, its server, and an empty cache.
struct Fixture {
    folder: TempDir,
    server: Server,
    content: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = folder.path().join("root/datasets/owner/name");
        fs::create_dir_all(repo.join("data")).unwrap();
        let content: Vec<u8> = (0..SIZE).map(|i| (i * i % 251) as u8).collect();
        fs::write(repo.join(FILE), &content).unwrap();
        fs::write(repo.join("README.md"), "small").unwrap();
        for i in 0..4 {
            fs::write(repo.join(format!("data/{i}.txt")), format!("file {i}")).unwrap();
        }
        let server = Server::start(&folder.path().join("root"), 0);
        Self { folder, server, content }
    }

    fn settings(&self) -> Settings {
        Settings {
            endpoint: self.server.endpoint(),
            token: None,
            cache: self.folder.path().join("cache"),
            is_offline: false,
            attempts: 3,
            first_wait: Duration::from_millis(5),
        }
    }

    fn hub(&self) -> Hub {
        Hub::new(self.settings()).unwrap()
    }

    fn fetch(&self) -> Result<PathBuf, HubError> {
        fetch_with(&self.hub())
    }

    fn blobs(&self) -> Vec<String> {
        let folder = self.folder.path().join("cache/datasets--owner--name/blobs");
        let names = fs::read_dir(folder).into_iter().flatten();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The ranges that were requested from the store.
    fn ranges(&self) -> Vec<Option<String>> {
        let requests = self.server.take_requests();
        let stored = requests.into_iter().filter(|request| request.target.starts_with("/store/"));
        stored.map(|request| request.range).collect()
    }
}

fn fetch_with(hub: &Hub) -> Result<PathBuf, HubError> {
    let snapshot = hub.list(&repo("main"), "", NEVER)?;
    let file = snapshot.files.iter().find(|file| file.path == FILE).unwrap();
    hub.fetch(&snapshot, file, &mut |_| (), NEVER)
}

fn repo(revision: &str) -> Repo {
    Repo { kind: RepoKind::Dataset, id: "owner/name".into(), revision: revision.into() }
}

#[test]
fn a_repository_is_listed_page_by_page_and_cached_in_hugging_faces_layout() {
    let fixture = Fixture::new();
    let hub = fixture.hub();
    let snapshot = hub.list(&repo("main"), "", NEVER).unwrap();
    let paths: Vec<_> = snapshot.files.iter().map(|file| &*file.path).collect();
    let expected = ["README.md", "data/0.txt", "data/1.txt", "data/2.txt", "data/3.txt", FILE];
    assert_eq!(paths, expected);
    assert_eq!(snapshot.repo.revision, COMMIT);
    assert_eq!(hub.list(&repo(COMMIT), "data", NEVER).unwrap().files.len(), 5);
    let cache = fixture.folder.path().join("cache/datasets--owner--name");
    for file in &snapshot.files {
        assert_eq!(hub.missing_bytes(&snapshot, file), file.bytes);
        let path = hub.fetch(&snapshot, file, &mut |_| (), NEVER).unwrap();
        assert_eq!(path, cache.join("snapshots").join(COMMIT).join(&file.path));
        let origin = fixture.folder.path().join("root/datasets/owner/name").join(&file.path);
        assert!(fs::read(&path).unwrap() == fs::read(&origin).unwrap(), "{}", file.path);
        assert_eq!(hub.missing_bytes(&snapshot, file), 0);
        #[cfg(unix)]
        {
            let blob = fs::canonicalize(&path).unwrap();
            assert_eq!(blob.file_name().unwrap(), file.hash.hex());
            assert!(fs::read_link(&path).unwrap().is_relative());
        }
    }
    assert_eq!(fs::read_to_string(cache.join("refs/main")).unwrap(), COMMIT);
}

#[test]
fn cached_files_are_not_requested_again_and_work_offline() {
    let fixture = Fixture::new();
    let path = fixture.fetch().unwrap();
    fixture.server.take_requests();
    let hub = fixture.hub();
    let snapshot = hub.list(&repo(COMMIT), "", NEVER).unwrap();
    let file = snapshot.files.iter().find(|file| file.path == FILE).unwrap();
    assert_eq!(hub.fetch(&snapshot, file, &mut |_| (), NEVER).unwrap(), path);
    assert!(fixture.server.take_requests().is_empty(), "a commit does not change");
    let offline = Settings { is_offline: true, ..fixture.settings() };
    assert_eq!(fetch_with(&Hub::new(offline.clone()).unwrap()).unwrap(), path);
    // Without our listing, as in a cache of Hugging Face's tools.
    let ours = fixture.folder.path().join("cache/datasets--owner--name");
    fs::remove_file(ours.join(format!(".fitgpt-{COMMIT}.json"))).unwrap();
    let hub = Hub::new(offline).unwrap();
    let snapshot = hub.list(&repo("main"), "", NEVER).unwrap();
    assert_eq!(snapshot.files.len(), 1);
    let found = hub.fetch(&snapshot, &snapshot.files[0], &mut |_| (), NEVER).unwrap();
    assert_eq!(found, path);
    let missing = hub.list(&Repo { id: "owner/other".into(), ..repo("main") }, "", NEVER);
    assert!(matches!(missing, Err(HubError::NotInCache { .. })), "{missing:?}");
    assert!(fixture.server.take_requests().is_empty());
}

#[test]
fn an_interrupted_transfer_is_resumed() {
    let fixture = Fixture::new();
    let break_off = VecDeque::from([1_000, 65_536, 0, 1, 0, 0, 100_000]);
    fixture.server.set(Faults { break_off, ..Faults::default() });
    let path = fixture.fetch().unwrap();
    assert!(fs::read(path).unwrap() == fixture.content);
    let starts: Vec<u64> = fixture
        .ranges()
        .into_iter()
        .map(|range| range.map_or(0, |range| range[6..].trim_end_matches('-').parse().unwrap()))
        .collect();
    assert_eq!(starts, [0, 1_000, 66_536, 66_536, 66_537, 66_537, 66_537, 166_537]);
    assert_eq!(fixture.blobs().len(), 1);
}

#[test]
fn a_transfer_without_progress_is_an_error_and_keeps_its_bytes() {
    let fixture = Fixture::new();
    let break_off = VecDeque::from([5_000, 0, 0, 0]);
    fixture.server.set(Faults { break_off, ..Faults::default() });
    let error = fixture.fetch().unwrap_err();
    assert!(matches!(error, HubError::BrokenOff { bytes: 5_000, attempts: 3, .. }), "{error}");
    fixture.server.take_requests();
    assert!(fs::read(fixture.fetch().unwrap()).unwrap() == fixture.content);
    assert_eq!(fixture.ranges(), [Some("bytes=5000-".to_owned())]);
}

#[test]
fn a_server_without_ranges_is_asked_for_the_whole_file() {
    let fixture = Fixture::new();
    let break_off = VecDeque::from([200_000]);
    fixture.server.set(Faults { break_off, without_ranges: true, ..Faults::default() });
    assert!(fs::read(fixture.fetch().unwrap()).unwrap() == fixture.content);
}

#[test]
fn a_damaged_file_is_fetched_once_more_and_then_refused() {
    let fixture = Fixture::new();
    fixture.server.set(Faults { corrupt: 1, ..Faults::default() });
    assert!(fs::read(fixture.fetch().unwrap()).unwrap() == fixture.content);
    let fixture = Fixture::new();
    fixture.server.set(Faults { corrupt: 2, ..Faults::default() });
    let error = fixture.fetch().unwrap_err();
    assert!(matches!(error, HubError::WrongHash { .. }), "{error}");
    assert!(fixture.blobs().is_empty(), "{:?}", fixture.blobs());
    // A small file, in git.
    let hub = fixture.hub();
    let snapshot = hub.list(&repo("main"), "", NEVER).unwrap();
    fixture.server.set(Faults { corrupt: 2, ..Faults::default() });
    let error = hub.fetch(&snapshot, &snapshot.files[0], &mut |_| (), NEVER).unwrap_err();
    assert!(matches!(error, HubError::WrongHash { .. }), "{error}");
}

#[test]
fn damaged_or_too_long_partial_files_are_discarded() {
    for left in [vec![7; 1_000], vec![7; SIZE + 1], vec![7; SIZE]] {
        let fixture = Fixture::new();
        let origin = fixture.folder.path().join("root/datasets/owner/name").join(FILE);
        let blobs = fixture.folder.path().join("cache/datasets--owner--name/blobs");
        fs::create_dir_all(&blobs).unwrap();
        let name = format!("{}.incomplete", server::hashes(&origin).0);
        fs::write(blobs.join(name), left).unwrap();
        assert!(fs::read(fixture.fetch().unwrap()).unwrap() == fixture.content);
        assert_eq!(fixture.blobs().len(), 1);
    }
}

#[test]
fn a_wrong_length_or_range_is_refused() {
    for (faults, expected) in [
        (Faults { lie_by: 100, ..Faults::default() }, "its length is 300100"),
        (Faults { lie_by: -100, ..Faults::default() }, "its length is 299900"),
        (
            Faults { break_off: [1000].into(), shift_by: 1, ..Faults::default() },
            "it has `bytes 1001-299999/300000` instead of byte 1000 of 300000",
        ),
    ] {
        let fixture = Fixture::new();
        fixture.server.set(faults);
        let error = fixture.fetch().unwrap_err();
        assert!(matches!(error, HubError::BadResponse { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("secret"), "a signature is not printed: {error}");
    }
}

#[test]
fn the_token_goes_to_the_hub_and_not_to_its_stores() {
    let fixture = Fixture::new();
    fixture.server.set(Faults { token: Some("hf_right"), ..Faults::default() });
    let error = fixture.fetch().unwrap_err();
    assert!(matches!(error, HubError::Unauthorized { has_token: false, .. }), "{error}");
    let with = |token: &str| {
        let settings = Settings { token: Some(token.into()), ..fixture.settings() };
        fetch_with(&Hub::new(settings).unwrap())
    };
    let error = with("hf_wrong").unwrap_err();
    assert!(matches!(error, HubError::Unauthorized { has_token: true, .. }), "{error}");
    fixture.server.take_requests();
    with("hf_right").unwrap();
    let requests = fixture.server.take_requests();
    for request in &requests {
        let is_store = request.host.starts_with("localhost");
        assert_eq!(is_store, request.target.starts_with("/store/"), "{request:?}");
        assert_eq!(is_store, request.authorization.is_none(), "{request:?}");
    }
    assert!(requests.iter().any(|request| request.host.starts_with("localhost")));
}

#[test]
fn a_relative_redirect_stays_at_its_host() {
    let fixture = Fixture::new();
    fixture.server.set(Faults { one_host: true, ..Faults::default() });
    assert!(fs::read(fixture.fetch().unwrap()).unwrap() == fixture.content);
}

#[test]
fn a_busy_hub_is_retried_after_the_time_that_it_names() {
    let fixture = Fixture::new();
    let refuse = VecDeque::from([(429, "retry-after: 1\r\n"), (503, ""), (500, "")]);
    fixture.server.set(Faults { refuse, ..Faults::default() });
    let start = Instant::now();
    let hub = Hub::new(Settings { attempts: 4, ..fixture.settings() }).unwrap();
    fetch_with(&hub).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    let limit = VecDeque::from([(429, "ratelimit: \"api\";r=0;t=1\r\n")]);
    fixture.server.set(Faults { refuse: limit, ..Faults::default() });
    let start = Instant::now();
    hub.list(&repo("main"), "", NEVER).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn retries_end() {
    let fixture = Fixture::new();
    let busy = VecDeque::from([(429, "retry-after: 0\r\n"); 3]);
    fixture.server.set(Faults { refuse: busy, ..Faults::default() });
    let error = fixture.fetch().unwrap_err();
    assert!(matches!(error, HubError::TooManyRequests { attempts: 3 }), "{error}");
    // A wait of hours is refused.
    let start = Instant::now();
    fixture
        .server
        .set(Faults { refuse: [(429, "retry-after: 86400\r\n")].into(), ..Faults::default() });
    assert!(fixture.fetch().is_err() && start.elapsed() < Duration::from_secs(5));
    fixture.server.set(Faults { refuse: [(502, ""); 3].into(), ..Faults::default() });
    let error = fixture.fetch().unwrap_err();
    assert!(matches!(error, HubError::Status { status: 502, .. }), "{error}");
    let nobody = Settings { endpoint: "http://127.0.0.1:1".into(), ..fixture.settings() };
    let error = fetch_with(&Hub::new(nobody).unwrap()).unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }), "{error}");
}

#[test]
fn a_permanent_refusal_is_reported_at_once() {
    let fixture = Fixture::new();
    let gated =
        (403, "x-error-code: GatedRepo\r\nx-error-message: Access to it is restricted.\r\n");
    fixture.server.set(Faults { refuse: [gated].into(), ..Faults::default() });
    let error = fixture.fetch().unwrap_err().to_string();
    assert_eq!(error, "`owner/name` may not be read (403): Access to it is restricted.");
    let hub = fixture.hub();
    let error = hub.list(&repo("main"), "nothing", NEVER).unwrap_err().to_string();
    assert_eq!(error, "`owner/name` has no `nothing` (404)");
    fixture.server.take_requests();
    fixture.server.set(Faults { refuse: [(404, "")].into(), ..Faults::default() });
    assert!(fixture.fetch().is_err());
    assert_eq!(fixture.server.take_requests().len(), 1);
}

#[test]
fn stopping_keeps_the_downloaded_bytes() {
    let fixture = Fixture::new();
    let hub = fixture.hub();
    let snapshot = hub.list(&repo("main"), "", NEVER).unwrap();
    let file = snapshot.files.iter().find(|file| file.path == FILE).unwrap();
    let came = std::cell::Cell::new(0);
    let stopped = hub.fetch(&snapshot, file, &mut |at| came.set(at.bytes), &|| came.get() > 0);
    assert!(matches!(stopped, Err(HubError::Stopped)), "{stopped:?}");
    assert_eq!(hub.missing_bytes(&snapshot, file), file.bytes - came.get());
}

/// A file of the repository's tests.
fn fixture_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(name)
}
