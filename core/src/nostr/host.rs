//! Which community a request is for, decided by its Host and by nothing else. Never a default community.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::WebUrl;
use super::url::split_authority;
use crate::ids::CommunityId;

/// A request's Host, bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundHost {
    /// The community.
    pub community: CommunityId,
    /// The relay's URL under the Host of this very request, which signed content has to name (NIP-42, NIP-98).
    pub relay: WebUrl,
}

/// A Host as it is looked up: no blanks around it, lowercase, without one `:443` or `:80`, without one final dot.
/// Other ports belong to it. `None` if nothing is left.
pub fn normalise_host(host: &str) -> Option<String> {
    let host = host.trim().to_ascii_lowercase();
    let host = host
        .strip_suffix(":443")
        .or_else(|| host.strip_suffix(":80"))
        .unwrap_or(&host);
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}

/// Binds a Host header to its community.
///
/// `configured` maps normalised hosts to communities; `relay_url` is the relay's own URL. A Host that is configured binds its
/// community. Otherwise a loopback Host, with any port, binds the community of `relay_url` if that URL is loopback itself.
/// `None` for everything else: such a request is answered 404.
pub fn bind_host(
    host_header: &str,
    configured: &BTreeMap<String, CommunityId>,
    relay_url: &WebUrl,
) -> Option<BoundHost> {
    let host = normalise_host(host_header)?;
    let relay_host = normalise_host(&relay_url.authority())?;
    let is_local_alias = || is_loopback(&host) && is_loopback(relay_url.host());
    let community = match configured.get(&host) {
        Some(community) => community,
        None if is_local_alias() => configured.get(&relay_host)?,
        None => return None,
    };
    // The relay's own URL is kept as configured: its port may be 443 or 80 without being the scheme's own.
    let relay = if host == relay_host {
        relay_url.clone()
    } else {
        relay_url.at_authority(&host).ok()?
    };
    Some(BoundHost {
        community: *community,
        relay,
    })
}

/// Whether a host, with or without a port, names this machine: `localhost`, 127.0.0.0/8 or `[::1]`.
pub fn is_loopback(host: &str) -> bool {
    let Ok((name, _)) = split_authority(host) else {
        return false;
    };
    if let Some(address) = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return address
            .parse::<Ipv6Addr>()
            .is_ok_and(|address| address.is_loopback());
    }
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback())
}
