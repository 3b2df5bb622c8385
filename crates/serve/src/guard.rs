//! Decides which requests are answered: those of the page itself in a browser on this machine, and
//! those of programs that have the token.
//!
//! Any site in a browser can send requests to this machine. A hostile host name that resolves to
//! 127.0.0.1 is visible in `Host`; a script of another site is visible in `Origin` and
//! `Sec-Fetch-Site`. An address other than loopback is open to other machines, and starting a run
//! is more than reading: both need a token that is only printed on the terminal.
//!
//! Promise: requests with another origin or host name are refused, and no request names a file;
//! heads, bodies, connections and time are bounded. Test: this file and `crates/serve/src/http.rs`;
//! `tests/runs/serve.rs` attacks each.

use std::net::{IpAddr, Ipv6Addr};

use super::http::{Method, Refusal, Request, refuse};

/// The rules for requests.
#[derive(Debug)]
pub struct Guard {
    /// The port of the server.
    pub port: u16,
    /// Whether other machines can reach it.
    pub is_open: bool,
    /// The token that every request must have.
    pub token: Option<String>,
}

/// 128 random bits, as hexadecimal digits.
pub fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Guard {
    /// Refuses requests that are not allowed.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let host = request
            .only_header("host")
            .ok_or(refuse(400, "a request needs exactly one Host header"))?;
        if !self.is_own_host(host) {
            return Err(refuse(421, "wrong host name"));
        }
        // With two headers, another program might use the one that was not checked.
        if request.headers_of("origin") > 1 {
            return Err(refuse(400, "a request may have only one Origin header"));
        }
        if let Some(origin) = request.header("origin")
            && origin.strip_prefix("http://") != Some(host)
        {
            return Err(refuse(403, "requests from other sites are refused"));
        }
        let site = request.header("sec-fetch-site").unwrap_or("none");
        let is_link = request.path == "/"
            && request.method == Method::Get
            && request.header("sec-fetch-mode") == Some("navigate");
        if !matches!(site, "same-origin" | "none") && !is_link {
            return Err(refuse(403, "requests from other sites are refused"));
        }
        // A form on another site can send neither type.
        let types = ["application/json", "application/octet-stream"];
        if request.method == Method::Post
            && !request.header("content-type").is_some_and(|kind| types.contains(&kind))
        {
            return Err(refuse(415, "a body must be JSON or bytes"));
        }
        self.check_token(request)
    }

    fn check_token(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let bearer = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let cookies = request.header("cookie").unwrap_or_default().split("; ");
        let cookie = cookies.filter_map(|it| it.split_once('=')).find(|it| it.0 == self.cookie());
        // Only the address of the page may have it in the query; the response sets the cookie.
        let asked = request.parameter("token").filter(|_| request.path == "/");
        let shown = [bearer, cookie.map(|it| it.1), asked.as_deref()];
        if shown.into_iter().flatten().any(|shown| is_same(shown, token)) {
            return Ok(());
        }
        Err(refuse(401, "open the address with its token, which the terminal shows"))
    }

    /// The name of the cookie. Servers on one machine share their cookies, so it includes the port.
    pub fn cookie(&self) -> String {
        format!("fitgpt-{}", self.port)
    }

    /// Whether `host` is an address or `localhost`. Other names are refused, because their owners
    /// control what they resolve to.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (host, "80"),
        };
        let address = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(inside) => inside.parse().ok().map(|it: Ipv6Addr| IpAddr::V6(it)),
            None => name.parse().ok().filter(IpAddr::is_ipv4),
        };
        let is_ours = match address {
            Some(address) => self.is_open || address.is_loopback(),
            None => name.eq_ignore_ascii_case("localhost"),
        };
        is_ours && port == self.port.to_string()
    }
}

/// Compares in constant time.
fn is_same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_own_hosts() {
        let guard = Guard { port: 4848, is_open: false, token: None };
        for host in ["127.0.0.1:4848", "localhost:4848", "LOCALHOST:4848", "[::1]:4848"] {
            assert!(guard.is_own_host(host), "{host}");
        }
        for host in [
            "evil.example:4848",
            "localhost.evil.example:4848",
            "127.0.0.1.evil.example:4848",
            "127.0.0.1",
            "127.0.0.1:80",
            "192.168.0.7:4848",
            "0.0.0.0:4848",
            "[::1]",
            "[::1",
            "::1:4848",
            "",
            ":4848",
        ] {
            assert!(!guard.is_own_host(host), "{host}");
        }
        let open = Guard { is_open: true, ..guard };
        assert!(open.is_own_host("192.168.0.7:4848"));
        assert!(!open.is_own_host("evil.example:4848"));
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (a, b) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!(a.len(), 32);
        assert!(is_same(&a, &a) && !is_same(&a, &b) && !is_same(&a, &a[..31]));
    }
}
