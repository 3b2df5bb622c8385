//! The server of these tests as a program: `cargo run --example hub_server -- FOLDER [PAUSE_MS]`. It
//! prints its address, and serves until it is killed.

#![expect(clippy::print_stdout, reason = "it is a separate program")]
#![allow(dead_code, reason = "the tests use the rest")]

mod server;

use std::{env, io::Write as _, path::PathBuf, thread, time::Duration};

fn main() {
    let mut args = env::args().skip(1);
    let root = PathBuf::from(args.next().expect("the folder to serve"));
    let pause = args.next().map_or(0, |ms| ms.parse().expect("milliseconds"));
    let server = server::Server::start(&root, 0);
    server.set(server::Faults { pause: Duration::from_millis(pause), ..Default::default() });
    println!("{}", server.endpoint());
    std::io::stdout().flush().expect("the address is read");
    loop {
        thread::park();
    }
}
