//! How often a tenant may call and create, in this process (GCRA, as `governor` implements it).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::ids::{Bucket, TenantName};
use crate::rules::policy::CreateRate;

type Limiter = Arc<DefaultDirectRateLimiter>;

/// The limiters of all tenants and buckets, each by its rate: what a reload leaves as it was goes on, and what it changes
/// begins anew. Their number is bounded by what configurations have said.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// By tenant; `None` for the one key by which all of them go to Cube.
    calls: Mutex<HashMap<(Option<TenantName>, NonZeroU32), Limiter>>,
    creates: Mutex<HashMap<(Option<Bucket>, CreateRate), Limiter>>,
    clock: DefaultClock,
}

/// Too often: how many whole seconds to wait, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooOften(pub(super) u32);

impl Throttle {
    /// One call of a tenant, or of everybody together, that may make `per_second`.
    ///
    /// # Errors
    /// [`TooOften`].
    pub(super) fn call(&self, tenant: Option<&TenantName>, per_second: NonZeroU32) -> Result<(), TooOften> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = calls
            .entry((tenant.cloned(), per_second))
            .or_insert_with(|| RateLimiter::direct(Quota::per_second(per_second)).into())
            .clone();
        drop(calls);
        self.check(&limiter)
    }

    /// One create in a bucket that allows `rate`; `None` for the buckets that the configuration does not name, which
    /// share one rate: clients could think of ever new ones.
    ///
    /// # Errors
    /// [`TooOften`].
    pub(super) fn create(&self, named: Option<&Bucket>, rate: CreateRate) -> Result<(), TooOften> {
        let quota = Quota::per_minute(rate.per_minute).allow_burst(rate.burst);
        let mut creates = self.creates.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter =
            creates.entry((named.cloned(), rate)).or_insert_with(|| RateLimiter::direct(quota).into());
        let limiter = Arc::clone(limiter);
        drop(creates);
        self.check(&limiter)
    }

    fn check(&self, limiter: &DefaultDirectRateLimiter) -> Result<(), TooOften> {
        limiter.check().map_err(|until| {
            let seconds = until.wait_time_from(self.clock.now()).as_secs_f64().ceil();
            // At least one: a zero would invite the caller back at once. The cast saturates.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole, positive, small"
            )]
            TooOften((seconds as u32).max(1))
        })
    }
}
