//! Which hosts this relay answers for. Normalising and binding one Host is decided in the core.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use holdfast_core::ids::CommunityId;
use holdfast_core::nostr::WebUrl;
use holdfast_core::nostr::host::{BoundHost, bind_host};

/// What clients of an unmapped host read.
pub(super) const UNMAPPED: &str = "relay: no community is configured for this host";

/// The configured hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Normalised host to community; the host of `relay_url` is among them.
    pub communities: BTreeMap<String, CommunityId>,
    /// The relay's own URL.
    pub relay_url: WebUrl,
}

impl Hosts {
    /// The community a request is for and the URL its signed content must name; `None` for an unmapped host.
    pub(super) fn bind(&self, parts: &Parts) -> Option<BoundHost> {
        let host = named_host(&parts.uri, &parts.headers)?;
        bind_host(host, &self.communities, &self.relay_url)
    }
}

/// The host a request names: that of an absolute target, else the one Host header (RFC 9112, 3.2.2).
fn named_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    if let Some(authority) = uri.authority() {
        return Some(authority.as_str());
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(hosts: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).expect("visible"));
        }
        headers
    }

    #[test]
    fn one_host_is_named_or_none() {
        let origin_form = Uri::from_static("/query?x=1");
        let cases: [(&[&str], Option<&str>); 3] = [
            (&["a.example"], Some("a.example")),
            (&[], None),
            (&["a.example", "b.example"], None),
        ];
        for (hosts, expected) in cases {
            assert_eq!(named_host(&origin_form, &headers(hosts)), expected);
        }
        let absolute_form = Uri::from_static("http://c.example:81/query");
        let named = headers(&["a.example"]);
        assert_eq!(named_host(&absolute_form, &named), Some("c.example:81"));
    }
}
