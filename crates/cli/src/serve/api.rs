//! The page's requests, and the functions that answer them.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use fitgpt_commands::{Failure, config_file};
use fitgpt_config::{OptimizerChoice, SizeLimit};
use fitgpt_fit::device::GPUS;
use fitgpt_program::TensorClass;
use fitgpt_serve::{
    EventStream, Method, Request, Resolution, Response, Runs, Service, asset, html, page, refuse,
};
use serde_json::{Map, Value, json};

use super::{diagnosis, error::ApiError, lang_of, planner, training::Trainings, work::WorkPermits};
use crate::{
    picture::svg::colour,
    words::{self, Lang, names},
};

/// Enough for a config and some keys.
const MAX_JSON_BYTES: u64 = 1 << 20;
/// How long an answer may take to compute.
const DEADLINE: Duration = Duration::from_secs(10);
/// The most pages that watch runs at a time; each holds a connection.
const MAX_WATCHERS: usize = 16;
/// How often runs are read for a page that watches them.
const EVERY: Duration = Duration::from_millis(500);
/// How often an idle connection is pinged, to notice pages that have gone.
const PING: Duration = Duration::from_secs(10);

/// Answers the page.
pub(super) struct PageApi {
    runs: Arc<Runs>,
    /// Name and value, if requests need a token.
    cookie: Option<(String, String)>,
    trainings: Option<Arc<Trainings>>,
    permits: Arc<WorkPermits>,
    uploads: Arc<WorkPermits>,
    watchers: Arc<AtomicUsize>,
    /// By the code of the language.
    pages: Mutex<BTreeMap<&'static str, FirstPage>>,
}

/// The page in one language, with the plan that it shows first. To make it takes 10 ms.
struct FirstPage {
    /// The only thing that the plan depends on and that may change: a dataset may be prepared while
    /// the server runs.
    vocab: u32,
    html: String,
}

/// A JSON document, or why there is none.
type ApiResult = Result<Value, ApiError>;

impl PageApi {
    pub(super) fn new(runs: Runs, cookie: Option<(String, String)>, allows_training: bool) -> Self {
        Self {
            runs: Arc::new(runs),
            cookie,
            trainings: allows_training.then(Arc::default),
            permits: WorkPermits::by_cores(),
            uploads: WorkPermits::new(1),
            watchers: Arc::default(),
            pages: Mutex::default(),
        }
    }

    /// The runs that the page has started.
    pub(super) fn trainings(&self) -> Arc<Trainings> {
        self.trainings.clone().unwrap_or_default()
    }

    /// Documents by their path.
    fn document(&self, request: &mut Request<'_>) -> ApiResult {
        let path = request.path.clone();
        match (request.method, path.as_str()) {
            (Method::Get, "/api/hello") => {
                Ok(json!({ "program": "fitgpt", "pid": std::process::id() }))
            }
            (Method::Get, "/api/start") => Ok(self.start()),
            (Method::Get, "/api/runs") => Ok(json!(self.runs.list())),
            (Method::Get, "/api/explain") => {
                let topic = request.parameter("topic").unwrap_or_default();
                diagnosis::page(&topic).ok_or_else(|| refuse(404, "there is no such page").into())
            }
            (Method::Get, path) if path.starts_with("/api/runs/") => self.run(request),
            (Method::Post, "/api/plan") => {
                self.compute(request.json(MAX_JSON_BYTES)?, planner::plan)
            }
            (Method::Post, "/api/alive") => {
                self.compute(request.json(MAX_JSON_BYTES)?, planner::alive)
            }
            (Method::Post, "/api/fit") => self.compute(request.json(MAX_JSON_BYTES)?, planner::fit),
            (Method::Post, "/api/doctor") => {
                let is_large = request.body_bytes() > MAX_JSON_BYTES;
                let upload = if is_large { Some(self.uploads.take()?) } else { None };
                let body = request.body(diagnosis::MAX_BODY_BYTES)?;
                diagnosis::diagnose(body, upload, &self.uploads, &self.permits)
            }
            (Method::Post, "/api/train") => {
                let asked = request.json(MAX_JSON_BYTES)?;
                self.allowed()?.start(&asked, &self.runs)
            }
            (Method::Post, "/api/stop") => {
                let asked = request.json(MAX_JSON_BYTES)?;
                self.allowed()?;
                Trainings::stop(&asked, &self.runs)
            }
            _ => Err(refuse(404, "there is no such address").into()),
        }
    }

    /// Computes an answer, in the order of requests and within [`DEADLINE`]. Work that takes longer
    /// keeps its permit until it ends, so there is never more of it than there are cores.
    fn compute(&self, asked: Value, answer: fn(&Value, &[PathBuf]) -> ApiResult) -> ApiResult {
        let permit = self.permits.take()?;
        let (runs, lang) = (Arc::clone(&self.runs), words::lang());
        let (send, receive) = mpsc::channel();
        let work = move || {
            let answer = words::with_lang(lang, || answer(&asked, runs.roots()));
            drop(permit);
            let _ = send.send(answer); // nobody waits for it after the deadline
        };
        let started = thread::Builder::new().name("planner".to_owned()).spawn(work);
        started.map_err(|_| refuse(503, "the server is busy"))?;
        match receive.recv_timeout(DEADLINE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(Failure::new("limit", words::serve::too_slow(DEADLINE.as_secs())).into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(refuse(500, "the planner failed").into()),
        }
    }

    fn allowed(&self) -> Result<&Trainings, ApiError> {
        let trainings = self.trainings.as_deref();
        trainings.ok_or_else(|| refuse(403, "the server was started without --allow-train").into())
    }

    fn run(&self, request: &Request<'_>) -> ApiResult {
        let not_found = || refuse(404, "there is no such run");
        let id = request.path.strip_prefix("/api/runs/").and_then(|id| id.strip_suffix("/series"));
        let id = id.ok_or_else(not_found)?;
        let number = |name| request.parameter(name).and_then(|text| text.parse::<u64>().ok());
        let resolution = Resolution {
            from: number("from").unwrap_or(0),
            to: number("to").unwrap_or(u64::MAX),
            points: number("points").unwrap_or(600).clamp(2, 4000) as usize,
        };
        let mut run = self.runs.run(id, resolution).ok_or_else(not_found)?;
        if let Some(device) = run["device"].as_str() {
            run["device"] = words::names::device(device).into();
        }
        Ok(run)
    }

    /// Everything that the page needs when it loads.
    fn start(&self) -> Value {
        let card = |gpu: &fitgpt_fit::device::CardSpec| json!({ "name": gpu.name, "bytes": gpu.total_bytes() });
        let mut cards: Vec<_> = GPUS.iter().map(card).collect();
        cards.sort_by_key(|card| card["bytes"].as_u64());
        let class = |class: TensorClass| json!({ "id": class.name(), "name": names::class(class), "colour": colour(class) });
        let presets =
            config_file::presets().map(|(name, text)| json!({ "name": name, "text": text }));
        let languages = Lang::ALL.map(|lang| json!({ "code": lang.code(), "name": lang.name() }));
        let limit = |key| SizeLimit::of(key).map(|limit| limit.most);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "lang": words::lang().code(),
            "languages": languages,
            "words": fitgpt_serve::labels(words::lang()),
            "presets": presets.collect::<Vec<_>>(),
            "cards": cards,
            "classes": TensorClass::ALL.map(class),
            "optimizers": OptimizerChoice::ALL.map(|choice| [choice.name(), choice.title()]),
            "first": planner::first(),
            "limits": { "n_layer": limit("n_layer"), "n_embd": limit("n_embd") },
            "allows_training": self.trainings.is_some(),
        })
    }

    /// Sends a page the runs that have changed, until it disconnects.
    fn watch(&self) -> Response {
        if self.watchers.fetch_add(1, Ordering::Relaxed) >= MAX_WATCHERS {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
            return refuse(503, "too many pages are watching").into();
        }
        let (runs, watchers) = (Arc::clone(&self.runs), WatcherPermit(Arc::clone(&self.watchers)));
        Response::events(move |stream| {
            let _watchers = watchers;
            watch(&runs, stream)
        })
    }

    /// The page itself. A request with the token in its address gets a cookie and is redirected to
    /// the address without the token.
    fn page(&self, request: &Request<'_>) -> Response {
        if let Some((name, token)) = self.cookie.as_ref()
            && request.parameter("token").is_some()
        {
            let mut response = Response::text(303, "text/plain", String::new());
            let cookie = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/");
            response.headers = vec![("Location", "/".to_owned()), ("Set-Cookie", cookie)];
            return response;
        }
        let accepted = request.header("accept-language").and_then(|accepted| accepted.get(..2));
        words::with_lang(lang_of(accepted), || page(self.html()))
    }

    /// The page in the current language, with its words and its first plan. To send the plan with
    /// the page saves a request and a drawing; if all cores are at work, the page comes without it
    /// and asks.
    fn html(&self) -> String {
        let vocab = planner::first_vocab();
        let key = words::lang().code();
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pages.get(key).filter(|known| Some(known.vocab) == vocab) {
            return known.html.clone();
        }
        let mut start = self.start();
        let planned = self
            .permits
            .take_at_once()
            .and_then(|_permit| planner::plan(&planner::first(), &[]).ok().zip(vocab));
        let Some((plan, vocab)) = planned else { return html(&start) };
        start["plan"] = plan;
        let html = html(&start);
        pages.insert(key, FirstPage { vocab, html: html.clone() });
        html
    }
}

impl Service for PageApi {
    fn answer(&self, request: &mut Request<'_>) -> Response {
        if request.method == Method::Get {
            match request.path.as_str() {
                "/" => return self.page(request),
                "/api/events" => return self.watch(),
                path => {
                    if let Some(file) = asset(path) {
                        return file;
                    }
                }
            }
        }
        let lang = lang_of(request.parameter("lang").as_deref());
        words::with_lang(lang, || match self.document(request) {
            Ok(document) => Response::json(&document),
            Err(error) => error.into(),
        })
    }
}

/// One of the [`MAX_WATCHERS`], released however the connection ends.
struct WatcherPermit(Arc<AtomicUsize>);

impl Drop for WatcherPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn watch(runs: &Runs, stream: &mut EventStream<'_>) -> std::io::Result<()> {
    let mut sent: Map<String, Value> = Map::new();
    let mut quiet_since = Instant::now();
    let mut is_partial = false;
    loop {
        let list = runs.list();
        if runs.is_partial() != is_partial {
            is_partial = !is_partial;
            stream.send("partial", &json!({ "is_partial": is_partial }))?;
        }
        let id = |run: &Value| run["id"].as_str().unwrap_or_default().to_owned();
        for run in &list {
            if sent.get(&id(run)) != Some(run) {
                stream.send("run", run)?;
                sent.insert(id(run), run.clone());
                quiet_since = Instant::now();
            }
        }
        let gone: Vec<_> = sent
            .keys()
            .filter(|known| !list.iter().any(|run| id(run) == **known))
            .cloned()
            .collect();
        for id in gone {
            stream.send("gone", &json!({ "id": id }))?;
            sent.remove(&id);
        }
        if quiet_since.elapsed() > PING {
            stream.ping()?;
            quiet_since = Instant::now();
        }
        thread::sleep(EVERY);
    }
}
