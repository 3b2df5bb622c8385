//! Who may ask: the page itself, in a browser on this machine, or a program that has the token.
//!
//! Any site that a browser shows can send requests to this machine. A name of its own that
//! resolves to 127.0.0.1 shows in `Host`; a script of another site shows in `Origin` and
//! `Sec-Fetch-Site`. An address other than loopback is open to other machines, and starting a run
//! is more than reading: both need a token that only the terminal has shown.

use std::net::{IpAddr, Ipv6Addr};

use super::http::{Method, Refusal, Request, refuse};

/// Who may ask, and how they show it.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Where the server listens.
    pub(crate) port: u16,
    /// Whether other machines can reach it.
    pub(crate) is_open: bool,
    /// What every request must carry.
    pub(crate) token: Option<String>,
}

/// 128 random bits, as hexadecimal digits.
pub(crate) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Guard {
    /// Why a request is not answered, if it is not.
    pub(crate) fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let host = request.only_header("host").ok_or(refuse(400, "a request needs one Host"))?;
        if !self.is_own_host(host) {
            return Err(refuse(421, "this server has another name"));
        }
        // Of two, the checked one might not be the one that counts.
        if request.headers_of("origin") > 1 {
            return Err(refuse(400, "a request has one Origin"));
        }
        if let Some(origin) = request.header("origin")
            && origin.strip_prefix("http://") != Some(host)
        {
            return Err(refuse(403, "another site's scripts are not answered"));
        }
        let site = request.header("sec-fetch-site").unwrap_or("none");
        let is_link = request.path == "/"
            && request.method == Method::Get
            && request.header("sec-fetch-mode") == Some("navigate");
        if !matches!(site, "same-origin" | "none") && !is_link {
            return Err(refuse(403, "another site's requests are not answered"));
        }
        // A form of another site can send neither type.
        let types = ["application/json", "application/octet-stream"];
        if request.method == Method::Post
            && !request.header("content-type").is_some_and(|kind| types.contains(&kind))
        {
            return Err(refuse(415, "a body is JSON or bytes"));
        }
        self.check_token(request)
    }

    fn check_token(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let bearer = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let cookies = request.header("cookie").unwrap_or_default().split("; ");
        let cookie = cookies.filter_map(|it| it.split_once('=')).find(|it| it.0 == self.cookie());
        // Only the page's own address has it in the query; it answers with the cookie.
        let asked = request.parameter("token").filter(|_| request.path == "/");
        let shown = [bearer, cookie.map(|it| it.1), asked.as_deref()];
        if shown.into_iter().flatten().any(|shown| is_same(shown, token)) {
            return Ok(());
        }
        Err(refuse(401, "this needs the address with its token, which the terminal shows"))
    }

    /// Servers on one machine share their cookies, so the name has the port.
    pub(crate) fn cookie(&self) -> String {
        format!("fitgpt-{}", self.port)
    }

    /// Whether `host` is an address, or `localhost`. No other name: its owner decides where it
    /// leads.
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

/// Compares without stopping at the first difference.
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
