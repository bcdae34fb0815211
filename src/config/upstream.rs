//! `[upstream]`: which Cube stands behind this warden.

use std::net::{IpAddr, SocketAddr};

use http::Uri;

use super::kinds::{Kind, choice, duration, list, text, variable};
use super::sheet::Sheet;
use super::span::{HOUR, MILLISECOND, MINUTE, SECOND};
use crate::cube::settings::{Activity, ApiKey, Budgets, Settings};
use crate::ids::UpstreamName;

/// Reads the section; `listen` is the warden's own address, which must not be its upstream.
pub(super) fn read(sheet: &mut Sheet, listen: SocketAddr) -> Settings {
    let settings = sheet.section("upstream", |s| {
        let key = s.get("api_key_env", "", &variable());
        let token = s.get("activity_token_env", "", &variable());
        Settings {
            name: s.get("name", "cube", &name()),
            base: s.get("url", "http://127.0.0.1:3001", &url()),
            api_key: s.content_of("api_key_env", &key).map(ApiKey),
            activity: s.get(
                "activity",
                "none",
                &choice([("none", Activity::None), ("cubeproxy", Activity::CubeProxy)]),
            ),
            activity_urls: s.get(
                "activity_urls",
                vec!["http://127.0.0.1:8082"],
                &list("http://host:port", |text| parse(text).filter(|uri| uri.scheme_str() == Some("http"))),
            ),
            activity_token: s.content_of("activity_token_env", &token).map(ApiKey),
            connect_timeout: s.get("connect_timeout", "5s", &duration(MILLISECOND..=MINUTE)),
            idle: s.get("idle", "4s", &duration(MILLISECOND..=HOUR)),
            write_idle: s.get("write_idle", "500ms", &duration(MILLISECOND..=HOUR)),
            budgets: Budgets {
                call: s.get("call_timeout", "30s", &duration(SECOND..=HOUR)),
                wake: s.get("wake_timeout", "120s", &duration(SECOND..=HOUR)),
                snapshot: s.get("snapshot_timeout", "240s", &duration(SECOND..=HOUR)),
            },
        }
    });
    sheet.cross(
        &["upstream.activity", "upstream.activity_urls"],
        settings.activity == Activity::None || !settings.activity_urls.is_empty(),
        "somebody must be asked: give the admin address of each CubeProxy",
    );
    sheet.cross(
        &["upstream.url", "listen.proxy"],
        !leads_back(&settings.base, listen),
        "upstream.url must not lead back to the warden itself; give the address that CubeAPI listens on",
    );
    settings
}

fn name() -> Kind<UpstreamName> {
    text("1 to 63 of [A-Za-z0-9._-], beginning with a letter or digit", |text| UpstreamName::new(text).ok())
}

/// `http://host[:port][/prefix]`. Shown without what stands before an `@`: it may be a password.
fn url() -> Kind<Uri> {
    let wanted = "http://host:port or https://host:port, with a path prefix or none, and without user, query or fragment";
    text(wanted, parse).shown_as(|value| match value.as_str().and_then(|text| text.rsplit_once('@')) {
        Some((_, host)) => format!("\"..@{host}\""),
        None => super::kinds::show(value),
    })
}

fn parse(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?.as_str();
    let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let port = uri.port_u16() != Some(0) && (uri.port().is_some() || !authority.ends_with(':'));
    let host = !uri.host()?.is_empty() && !authority.contains('@');
    (scheme && port && host && uri.query().is_none() && !text.contains('#')).then_some(uri)
}

/// Whether connecting to `base` reaches a listener on `listen`, as far as can be told without asking a name server.
fn leads_back(base: &Uri, listen: SocketAddr) -> bool {
    let port = base.port_u16().unwrap_or(if base.scheme_str() == Some("https") { 443 } else { 80 });
    let host = base.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip: Option<IpAddr> = host.parse().ok();
    let loopback =
        ip.map_or(host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback() || ip.is_unspecified());
    let here = listen.ip().is_loopback() || listen.ip().is_unspecified();
    listen.port() == port && (ip == Some(listen.ip()) || (loopback && here))
}
