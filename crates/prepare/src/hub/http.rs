//! HTTP requests over TLS, and hashes.
//!
//! TLS is rustls with ring and Mozilla's certificates, so that no system library is needed;
//! `SSL_CERT_FILE` sets other certificates, for example those of a company network. Proxies come
//! from the environment. Redirects are not followed here, because the token must not be sent to
//! them.

use std::{io::Read, time::Duration};

use ring::digest;

/// Sends requests.
#[derive(Debug)]
pub(super) struct Network(ureq::Agent);

/// The response of a server.
pub(super) struct HttpResponse {
    pub(super) status: u16,
    headers: ureq::http::HeaderMap,
    pub(super) body: Box<dyn Read>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum HttpError {
    /// The build has no feature `hub`.
    #[cfg_attr(feature = "hub", expect(dead_code, reason = "used in the other build"))]
    NotBuilt,
    /// The network's reason.
    Failed(String),
}

impl HttpResponse {
    /// A header by its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Network {
    pub(super) fn new() -> Result<Self, HttpError> {
        let certificates = match std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
            Some(path) => {
                let failed = |reason: String| HttpError::Failed(format!("SSL_CERT_FILE: {reason}"));
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
            // A transfer that takes longer is resumed, as after any interruption.
            .timeout_recv_body(Some(Duration::from_mins(10)))
            .build();
        Ok(Self(ureq::Agent::new_with_config(config)))
    }

    /// Requests `url`.
    pub(super) fn get(
        &self,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<HttpResponse, HttpError> {
        let mut request = self.0.get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call().map_err(|error| HttpError::Failed(error.to_string()))?;
        let (parts, body) = response.into_parts();
        let body = Box::new(body.into_with_config().limit(u64::MAX).reader());
        Ok(HttpResponse { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

/// A hash that is being computed.
#[derive(Clone)]
pub(super) struct Hasher(digest::Context);

impl Hasher {
    pub(super) fn sha256() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    /// SHA-1, git's hash of a file.
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
