//! `[listen]`, `[proxy]` and `[admin]`: where the warden is reached, and what it bounds there.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Kind, address, duration, size, text, variable};
use super::sheet::Sheet;
use super::span::{DAY, HOUR, MILLISECOND, SECOND};
use crate::admin::settings::{Settings as Admin, Token};
use crate::proxy::settings::Settings as Proxy;

/// Reads the three sections.
pub(super) fn read(sheet: &mut Sheet) -> (Proxy, Admin) {
    let (proxy, admin, upgrade_socket) = sheet.section("listen", |s| {
        let proxy = s.get("proxy", "127.0.0.1:3000", &address());
        let admin = s.get("admin", "127.0.0.1:9300", &address());
        (proxy, admin, s.get("upgrade_socket", "", &socket_path()))
    });
    sheet.cross(
        &["listen.proxy", "listen.admin"],
        !collide(proxy, admin),
        "the two must not be one address: tenants would reach the operator's view",
    );
    let proxy = sheet.section("proxy", |s| Proxy {
        listen: proxy,
        upgrade_socket,
        body_limit: s.get("body_limit", "2MiB", &size(1024..=64 << 20)),
        body_timeout: s.get("body_timeout", "30s", &duration(MILLISECOND..=HOUR)),
        idle: s.get("idle", "620s", &duration(SECOND..=DAY)),
        answer_timeout: s.get("answer_timeout", "300s", &duration(SECOND..=DAY)),
        drain: s.get("drain", "30s", &duration(Duration::ZERO..=HOUR)),
    });
    let admin = sheet.section("admin", |s| {
        let name = s.get("token_env", "", &variable());
        Admin { listen: admin, token: s.content_of("token_env", &name).map(Token) }
    });
    (proxy, admin)
}

/// The path of a Unix socket, or nothing; the system allows 108 bytes, and we need a few for a name beside it.
fn socket_path() -> Kind<Option<PathBuf>> {
    text("a path of at most 100 bytes, or \"\"", |text| match text.len() {
        0 => Some(None),
        1..=100 => Some(Some(text.into())),
        _ => None,
    })
}

/// Whether one listener would stand in the other's way. Port 0 asks for any free one.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (any || one.ip() == other.ip())
}
