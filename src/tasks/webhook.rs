//! Sends events to the webhook, one after the other, signed.
//!
//! Must stay true: an event is tried a bounded number of times and then counted as failed; nothing else waits for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};

use super::settings;
use crate::cube::transport::{self, BadBase, ClockTimer, Observe, Transport};
use crate::telemetry::events::{Waiting, signature};
use crate::telemetry::{Delivery, Metrics};
use crate::time::Clock;

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many tries.
const TRIES: u32 = 5;
/// The wait before the second; it doubles with each further one.
const WAIT: Duration = Duration::from_secs(1);
const SIGNATURE: &str = "x-cubewarden-signature";

/// Where events go.
pub struct Webhook {
    transport: Transport,
    path: Uri,
    host: Option<HeaderValue>,
    secret: Option<String>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Webhook {
    /// The webhook of these settings.
    ///
    /// # Errors
    /// [`BadBase`] if its address is not plain `http://` with a host.
    pub fn build(
        settings: &settings::Webhook,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, BadBase> {
        let authority = settings.url.authority().map(ToString::to_string).unwrap_or_default();
        let base: Uri = format!("http://{authority}").parse().unwrap_or_else(|_| settings.url.clone());
        let path = settings.url.path_and_query().map_or("/", |path| path.as_str());
        let nobody: Observe = Arc::new(|_, _, _| ());
        let transport = transport::Settings::to(base);
        Ok(Self {
            transport: Transport::build_on(&transport, &nobody, &ClockTimer(Arc::clone(&clock)))?,
            path: path.parse().unwrap_or_else(|_| Uri::from_static("/")),
            host: HeaderValue::from_str(&authority).ok(),
            secret: settings.secret.clone(),
            clock,
            metrics,
        })
    }

    /// Sends what waits, until nobody can tell anything any more.
    pub async fn run(self, mut waiting: Waiting) {
        while let Some(event) = waiting.recv().await {
            let delivered = self.deliver(&event).await;
            self.metrics.delivered(if delivered { Delivery::Delivered } else { Delivery::Failed });
        }
    }

    async fn deliver(&self, event: &str) -> bool {
        let mut wait = WAIT;
        for attempt in 1..=TRIES {
            let answer = self.transport.send(self.request(event), PATIENCE, self.clock.as_ref()).await;
            match answer {
                Ok(answer) if answer.status().is_success() => return true,
                Ok(answer) => {
                    tracing::warn!(
                        status = answer.status().as_u16(),
                        attempt,
                        "the webhook did not take an event"
                    );
                }
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        attempt,
                        "the webhook did not answer"
                    );
                }
            }
            if attempt < TRIES {
                self.clock.sleep(wait).await;
                wait *= 2;
            }
        }
        false
    }

    fn request(&self, event: &str) -> Request<Bytes> {
        let mut request = Request::new(Bytes::from(event.to_owned()));
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, self.path.clone());
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.host.clone().map(|host| (header::HOST, host)));
        let signed = self.secret.as_ref().map(|secret| signature(secret.as_bytes(), event.as_bytes()));
        let signed = signed.and_then(|signed| HeaderValue::from_str(&format!("sha256={signed}")).ok());
        headers.extend(signed.map(|signed| (http::HeaderName::from_static(SIGNATURE), signed)));
        request
    }
}
