//! Which sandboxes are in use, as Cube's own proxies tell: the node-local `/admin/last_active` of each.
//!
//! Must stay true: one proxy that does not answer makes all of it unknown; times are ages by the proxy's own clock, so that
//! clocks that differ harm nobody. What it cannot tell: a request is stamped at its end, so one that streams for hours is
//! not seen while it does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use serde::Deserialize;

use super::settings::ApiKey;
use super::transport::{self, BadBase, Observe, Transport};
use crate::ids::SandboxId;
use crate::time::Clock;

const TOKEN: HeaderName = HeaderName::from_static("x-cube-admin-token");
/// It is on this node; one that takes longer is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long ago each sandbox was last spoken to; those that are missing were not, as far as the proxies remember.
pub type Ages = HashMap<SandboxId, Duration>;

/// The proxies of one Cube.
#[derive(Debug)]
pub struct ActivitySource {
    proxies: Vec<Transport>,
    token: Option<HeaderValue>,
}

/// What a proxy answers; times in milliseconds of its own clock.
#[derive(Deserialize)]
struct LastActive {
    now: u64,
    entries: HashMap<String, u64>,
}

impl ActivitySource {
    /// The proxies at these addresses.
    ///
    /// # Errors
    /// [`BadBase`] if an address is not plain `http://` with a host.
    pub fn build<T>(
        addresses: &[Uri],
        token: Option<&ApiKey>,
        observe: &Observe,
        timer: &T,
    ) -> Result<Self, BadBase>
    where
        T: hyper::rt::Timer + Clone + Send + Sync + 'static,
    {
        let proxy = |base: &Uri| {
            Transport::build_on(&transport::Settings::to(base.clone()), &Arc::clone(observe), timer)
        };
        let token = token.and_then(|token| HeaderValue::from_str(&token.0).ok());
        let token = token.map(|mut token| {
            token.set_sensitive(true);
            token
        });
        Ok(Self { proxies: addresses.iter().map(proxy).collect::<Result<_, _>>()?, token })
    }

    /// Asks every proxy.
    ///
    /// # Errors
    /// In words, if one of them does not say.
    pub async fn ages(&self, clock: &dyn Clock) -> Result<Ages, String> {
        let mut ages = Ages::new();
        for proxy in &self.proxies {
            for (sandbox, age) in self.ask(proxy, clock).await? {
                let known = ages.entry(sandbox).or_insert(age);
                *known = age.min(*known);
            }
        }
        Ok(ages)
    }

    async fn ask(&self, proxy: &Transport, clock: &dyn Clock) -> Result<Ages, String> {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = Uri::from_static("/admin/last_active?since=0");
        if let Some(token) = &self.token {
            request.headers_mut().insert(TOKEN, token.clone());
        }
        let answer = proxy.send(request, PATIENCE, clock).await;
        let answer = answer.map_err(|error| format!("ask CubeProxy: {error}"))?;
        if answer.status() != StatusCode::OK {
            return Err(format!("CubeProxy answered {}", answer.status().as_u16()));
        }
        read(answer.body()).map_err(|error| format!("read the answer of CubeProxy: {error}"))
    }
}

fn read(body: &[u8]) -> Result<Ages, serde_json::Error> {
    let answer: LastActive = serde_json::from_slice(body)?;
    let age = |at: u64| Duration::from_millis(answer.now.saturating_sub(at));
    let named = answer.entries.iter().filter_map(|(id, at)| Some((SandboxId::new(id).ok()?, age(*at))));
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn an_answer_gives_ages_by_its_own_clock_and_strangers_are_left_out() {
        let id = "a".repeat(32);
        let body = format!(
            r#"{{"now":5000,"since":0,"count":3,"entries":{{"{id}":4000,"x":1,"{}":9000}}}}"#,
            "b".repeat(32)
        );
        let ages = read(body.as_bytes()).unwrap();
        assert_eq!(ages.len(), 2);
        assert_eq!(ages[&SandboxId::new(&id).unwrap()], Duration::from_secs(1));
        assert!(read(b"{}").is_err() && read(b"<html>").is_err());
    }
}
