//! The URLs that signed content names, in a form that can be compared. Fetching and routing do not belong here.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The four schemes of a relay's URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Scheme::Ws => "ws",
            Scheme::Wss => "wss",
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Scheme::Ws | Scheme::Http => 80,
            Scheme::Wss | Scheme::Https => 443,
        }
    }
}

/// An absolute URL. Scheme and host are lowercase, the port is the one that is used, path and query stand as written.
///
/// Two values are equal exactly if they name the same scheme, host, port, path and query; `localhost`, `127.0.0.1` and
/// `[::1]` are three hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebUrl {
    scheme: Scheme,
    host: String,
    port: u16,
    /// Begins with a slash.
    path_and_query: String,
}

/// The text is no URL of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "a URL needs ws://, wss://, http:// or https:// and a host, and has no user, no fragment and no blanks"
)]
pub struct UrlError;

impl WebUrl {
    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host: a lowercase name without a final dot, an IPv4 address, or an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, and the port where it is not the scheme's own.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The same scheme, path and query at another authority.
    ///
    /// # Errors
    /// [`UrlError`] if `authority` is no host, or a host with a port.
    pub fn at_authority(&self, authority: &str) -> Result<WebUrl, UrlError> {
        let (host, port) = split_authority(authority)?;
        let host = normalise_host_name(host)?;
        Ok(WebUrl {
            host,
            port: port.unwrap_or(self.scheme.default_port()),
            ..self.clone()
        })
    }

    /// The URL of an HTTP request at the same authority: `ws` becomes `http`, `wss` becomes `https`.
    ///
    /// `path_and_query` is the target of the request as it stands in its first line.
    pub fn http(&self, path_and_query: &str) -> WebUrl {
        let scheme = match self.scheme {
            Scheme::Ws | Scheme::Http => Scheme::Http,
            Scheme::Wss | Scheme::Https => Scheme::Https,
        };
        WebUrl {
            scheme,
            path_and_query: path_and_query.to_owned(),
            ..self.clone()
        }
    }

    /// The URL of a WebSocket at the same authority, path and query: `http` becomes `ws`, `https` becomes `wss`.
    pub fn web_socket(&self) -> WebUrl {
        let scheme = match self.scheme {
            Scheme::Ws | Scheme::Http => Scheme::Ws,
            Scheme::Wss | Scheme::Https => Scheme::Wss,
        };
        WebUrl {
            scheme,
            ..self.clone()
        }
    }

    /// Path and query, beginning with a slash.
    pub fn target(&self) -> &str {
        &self.path_and_query
    }

    /// Whether both are equal when one final slash of each path does not count.
    pub fn equals_but_slash(&self, other: &WebUrl) -> bool {
        let trimmed = |url: &WebUrl| url.path_and_query.strip_suffix('/').map(str::to_owned);
        let path = |url: &WebUrl| trimmed(url).unwrap_or_else(|| url.path_and_query.clone());
        self.scheme == other.scheme
            && self.host == other.host
            && self.port == other.port
            && path(self) == path(other)
    }
}

impl FromStr for WebUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<WebUrl, UrlError> {
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
        {
            return Err(UrlError);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError)?;
        let scheme = [Scheme::Ws, Scheme::Wss, Scheme::Http, Scheme::Https]
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(scheme))
            .ok_or(UrlError)?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = split_authority(authority)?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(WebUrl {
            scheme,
            host: normalise_host_name(host)?,
            port: port.unwrap_or(scheme.default_port()),
            path_and_query: format!("{slash}{target}"),
        })
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            self.scheme.name(),
            self.authority(),
            self.path_and_query
        )
    }
}

/// The host and the port of an authority without a user.
pub(super) fn split_authority(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let name_end = if authority.starts_with('[') {
        authority.find(']').ok_or(UrlError)? + 1
    } else {
        0
    };
    let Some(colon) = authority[name_end..].find(':').map(|at| name_end + at) else {
        return Ok((authority, None));
    };
    let digits = &authority[colon + 1..];
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.starts_with('0') {
        return Err(UrlError);
    }
    Ok((
        &authority[..colon],
        Some(digits.parse().map_err(|_| UrlError)?),
    ))
}

fn normalise_host_name(host: &str) -> Result<String, UrlError> {
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address
            .strip_suffix(']')
            .ok_or(UrlError)?
            .parse()
            .map_err(|_| UrlError)?;
        return Ok(format!("[{address}]"));
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_name_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if name.is_empty() || !name.bytes().all(is_name_byte) {
        return Err(UrlError);
    }
    Ok(name.to_ascii_lowercase())
}
