//! `fitgpt serve`: plans, diagnoses and runs in a browser.

mod work;
mod powers;
mod error;
mod planner;
mod diagnosis;
mod training;
mod api;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use fitgpt_commands::Failure;
use fitgpt_files::os;
use fitgpt_run::stop::StopFlag;
use fitgpt_serve::{Guard, RecordFile, Runs};
use serde_json::json;

use super::{Outcome, OutputStyle};
use crate::{
    terminal,
    words::{self, serve as messages},
};

/// The first port that is tried if none is given, and how many are tried.
const FIRST_PORT: u16 = 4848;
const PORTS: u16 = 20;

/// How often Ctrl-C is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn command() -> Command {
    Command::new("serve")
        .about("Shows plans, diagnoses and runs in a browser on this machine")
        .arg(
            Arg::new("OUT_DIR").action(ArgAction::Append).num_args(0..).help(
                "Search these folders and their subfolders for runs [default: the current one]",
            ),
        )
        .arg(Arg::new("port").long("port").value_name("N").value_parser(value_parser!(u16)).help(
            "Listen on this port, 0 for any free one [default: the first free one from 4848]",
        ))
        .arg(
            Arg::new("open")
                .long("open")
                .action(ArgAction::SetTrue)
                .help("Open the page in the browser"),
        )
        .arg(
            Arg::new("bind")
                .long("bind")
                .value_name("ADDRESS")
                .value_parser(value_parser!(IpAddr))
                .help(
                    "Listen on this address instead of 127.0.0.1; every request then needs a token",
                ),
        )
        .arg(
            Arg::new("allow-train")
                .long("allow-train")
                .action(ArgAction::SetTrue)
                .help("Allow the page to start and stop runs; every request then needs a token"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the address as one JSON document"),
        )
        .after_help(
            "Examples:\n  fitgpt serve --open\n  fitgpt serve out-stories out-gpt2 --port 8000\n  \
             fitgpt serve --allow-train\n  fitgpt serve --bind 0.0.0.0",
        )
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    let stop = StopFlag::on_signals().map_err(|error| Failure::signals(&error))?;
    let roots = roots(matches)?;
    let address = matches.get_one("bind").copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let listener = listen(address, matches.get_one("port").copied())?;
    let port = listener.local_addr().map_err(|error| no_server(address, 0, &error))?.port();

    let allows_training = matches.get_flag("allow-train");
    let is_open = !address.is_loopback();
    let token = if is_open || allows_training || matches.contains_id("bind") {
        Some(
            fitgpt_serve::new_token()
                .map_err(|error| Failure::new("token", messages::no_token(error)))?,
        )
    } else {
        None
    };
    let shown = shown_address(address, port, token.as_deref());
    let record = RecordFile::write(port, &roots, token.as_deref());
    let guard = Guard { port, is_open, token };
    let cookie = guard.token.clone().map(|token| (guard.cookie(), token));
    // Runs that the page starts are written below the first root.
    let api = api::PageApi::new(Runs::new(roots.clone()), cookie, allows_training);
    let trainings = api.trainings();
    fitgpt_serve::serve(listener, guard, api).map_err(|error| no_server(address, port, &error))?;

    match style {
        OutputStyle::Json => {
            let facts = json!({ "address": shown, "port": port, "pid": std::process::id() });
            terminal::json(&facts);
        }
        OutputStyle::Text => {
            terminal::line(&messages::ready(&shown));
            let folders: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
            terminal::line(&messages::watching(folders.join(", ")));
            if is_open {
                terminal::note(&messages::open_to_others());
            }
            terminal::line(&messages::how_to_stop());
        }
    }
    if matches.get_flag("open")
        && let Err(error) = os::browse(&shown)
    {
        terminal::note(&messages::no_browser(error));
    }
    while !stop.is_asked_for() {
        thread::sleep(CHECK_INTERVAL);
    }
    drop(record);
    if style == OutputStyle::Text && trainings.count() > 0 {
        terminal::note(&messages::runs_go_on(trainings.count()));
    }
    Ok(Outcome::Yes)
}

/// The folders to search, with links resolved.
fn roots(matches: &ArgMatches) -> Result<Vec<PathBuf>, Failure> {
    let given: Vec<&String> = matches.get_many("OUT_DIR").into_iter().flatten().collect();
    let folders: Vec<&Path> = if given.is_empty() {
        vec![Path::new(".")]
    } else {
        given.into_iter().map(Path::new).collect()
    };
    let whole = |folder: &Path| {
        let found =
            fs::canonicalize(folder).map_err(|error| Failure::unreadable(folder, &error))?;
        if found.is_dir() {
            return Ok(found);
        }
        Err(Failure::new("file", messages::no_folder(folder.display())))
    };
    folders.into_iter().map(whole).collect()
}

/// Listens on the given port, or on the first free one.
fn listen(address: IpAddr, port: Option<u16>) -> Result<TcpListener, Failure> {
    let bind = |port| TcpListener::bind(SocketAddr::new(address, port));
    if let Some(port) = port {
        return bind(port).map_err(|error| no_server(address, port, &error));
    }
    let mut ports = FIRST_PORT..FIRST_PORT + PORTS;
    if let Some(listener) = ports.find_map(|port| bind(port).ok()) {
        return Ok(listener);
    }
    bind(0).map_err(|error| no_server(address, FIRST_PORT, &error))
}

fn no_server(address: IpAddr, port: u16, error: &std::io::Error) -> Failure {
    let place = SocketAddr::new(address, port);
    Failure::new("address", messages::no_server(place, error)).hint(messages::another_port())
}

/// The address for a browser. `0.0.0.0` means every address of this machine; 127.0.0.1 is one of
/// them.
fn shown_address(address: IpAddr, port: u16, token: Option<&str>) -> String {
    let shown = if address.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address };
    let token = token.map_or(String::new(), |token| format!("?token={token}"));
    format!("http://{}/{token}", SocketAddr::new(shown, port))
}

/// The language with this code; the server's if there is none.
fn lang_of(code: Option<&str>) -> words::Lang {
    code.and_then(words::Lang::of).unwrap_or_else(words::lang)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_address_can_be_opened() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(shown_address(local, 4848, None), "http://127.0.0.1:4848/");
        let all = "0.0.0.0".parse().unwrap();
        assert_eq!(shown_address(all, 1, Some("ab")), "http://127.0.0.1:1/?token=ab");
        let six = "::1".parse().unwrap();
        assert_eq!(shown_address(six, 80, None), "http://[::1]:80/");
    }

    #[test]
    fn without_a_port_the_next_free_one_is_taken() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (first, second) = (listen(local, None).unwrap(), listen(local, None).unwrap());
        assert_ne!(first.local_addr().unwrap(), second.local_addr().unwrap());
        let taken = first.local_addr().unwrap().port();
        assert!(listen(local, Some(taken)).is_err());
    }
}
