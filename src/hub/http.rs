//! Requests over HTTP and TLS, and the hashes of what arrives.
//!
//! TLS is rustls with ring and Mozilla's certificates, so that no library of the system is needed;
//! `SSL_CERT_FILE` names others, for a network with a certificate of its own. Proxies are those of
//! the environment. Redirects are not followed here: the token must not follow them.

use std::{io::Read, time::Duration};

use ring::digest;

/// Asks servers.
#[derive(Debug)]
pub(super) struct Network(ureq::Agent);

/// What a server said.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: ureq::http::HeaderMap,
    pub(super) body: Box<dyn Read>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The build has no network.
    #[cfg_attr(feature = "hub", expect(dead_code, reason = "of the other file"))]
    NotBuilt,
    /// The network's reason.
    Failed(String),
}

impl Answer {
    /// A header by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Network {
    pub(super) fn new() -> Result<Self, NoAnswer> {
        let certificates = match std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
            Some(path) => {
                let failed = |reason: String| NoAnswer::Failed(format!("SSL_CERT_FILE: {reason}"));
                let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
                let items = ureq::tls::parse_pem(&pem).filter_map(|item| match item {
                    Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                });
                ureq::tls::RootCerts::from(items)
            }
            None => ureq::tls::RootCerts::WebPki,
        };
        let config = ureq::Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("fitgpt/", env!("CARGO_PKG_VERSION")))
            .tls_config(ureq::tls::TlsConfig::builder().root_certs(certificates).build())
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_mins(1)))
            // A transfer that takes longer is resumed where it was, as after any break.
            .timeout_recv_body(Some(Duration::from_mins(10)))
            .build();
        Ok(Self(ureq::Agent::new_with_config(config)))
    }

    /// Asks for `url`.
    pub(super) fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer, NoAnswer> {
        let mut request = self.0.get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call().map_err(|error| NoAnswer::Failed(error.to_string()))?;
        let (parts, body) = response.into_parts();
        let body = Box::new(body.into_with_config().limit(u64::MAX).reader());
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

/// A hash that is being computed.
#[derive(Clone)]
pub(super) struct Hasher(digest::Context);

impl Hasher {
    pub(super) fn sha256() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    /// Git's hash of a file: SHA-1, as git has it.
    pub(super) fn sha1() -> Self {
        Self(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In hexadecimal.
    pub(super) fn finish(self) -> String {
        use std::fmt::Write as _;
        self.0.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}
