//! One warden, put together from its settings: store, ledger, client, deeds, calls, tasks, skin.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use tokio::sync::watch;

use super::beside;
use super::guarding::guard;
use crate::admin::{Admin, Collecting, Health, Outlook};
use crate::calls::classify::Call;
use crate::calls::governor::{Governor, Wiring as CallsWiring};
use crate::calls::mends::Mend;
use crate::calls::seam::{Caller, Calls, Reply, Route};
use crate::calls::settings::{Adopt, Mode};
use crate::config::Settings;
use crate::cube::activity::ActivitySource;
use crate::cube::api::LabelNames;
use crate::cube::client::{Client, Ways};
use crate::cube::guard::Guard;
use crate::cube::settings::Activity;
use crate::cube::transport::{self, ClockTimer, Transport};
use crate::deeds::{self, Deeds};
use crate::ids::{Bucket, OTHER};
use crate::ledger::{self, Ledger};
use crate::proxy::{self, Ending, Finished, Observer, Proxy};
use crate::rules::entry::Timing;
use crate::rules::limits::LimitSheet;
use crate::rules::policy::Policies;
use crate::rules::write_path;
use crate::store::Store;
use crate::store::embedded::Embedded;
use crate::store::redis::{Redis, Time};
use crate::store::settings::Settings as StoreSettings;
use crate::tasks::webhook::Webhook;
use crate::tasks::{self, Kills, Tasks};
use crate::telemetry::events::Events;
use crate::telemetry::{Asker, Metrics, Names};
use crate::time::{Chance, Clock};

/// One warden, ready to serve.
#[expect(missing_debug_implementations, reason = "a bundle of handles")]
pub struct Warden {
    /// The accounting authority.
    pub ledger: Arc<Ledger>,
    /// Governed calls.
    pub governor: Arc<Governor>,
    /// What nobody waits for.
    pub tasks: Arc<Tasks>,
    /// The skin.
    pub proxy: Arc<Proxy>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The Cube API.
    pub cube: Arc<Client>,
    /// The operator's view.
    pub admin: Arc<Admin>,
    deeds: Arc<Deeds>,
    under_way: Arc<UnderWay>,
}

/// Opens the store that the settings name.
///
/// # Errors
/// If it cannot be opened; the text says what to do.
pub async fn open_store(settings: &StoreSettings, clock: &Arc<dyn Clock>) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match settings {
        StoreSettings::Embedded { path } => Arc::new(Embedded::open(path, Arc::clone(clock))?),
        StoreSettings::Memory => Arc::new(Embedded::in_memory(Arc::clone(clock))?),
        StoreSettings::Redis(redis) => Arc::new(Redis::open(redis, Time::OfRedis).await?),
    })
}

impl Warden {
    /// Puts a warden together, and takes over what an earlier process left half done.
    ///
    /// # Errors
    /// If the upstream's address or the ledger cannot be used.
    pub async fn build(
        settings: &Settings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        chance: Arc<Chance>,
    ) -> anyhow::Result<Self> {
        let names = Names { calls: Call::all_names(), mends: &Mend::ALL.map(Mend::name) };
        let metrics = Arc::new(Metrics::new(names, settings.calls.policies.labels()));
        let ledger_settings =
            ledger::Settings { upstream: settings.cube.name.clone(), timing: timing(settings) };
        let lost = beside::recall(settings);
        let ledger = Ledger::open_known(store, ledger_settings, chance.fork(), lost.as_ref()).await;
        let ledger = Arc::new(ledger.context("open the ledger")?);
        beside::remember(settings, &ledger.id());
        ledger.configure(limits(settings));
        let ways = ways(settings, &metrics, &clock)?;
        let guard = guard(settings, &metrics, &clock);
        let cube = Client::new(
            ways,
            Arc::clone(&guard),
            settings.cube.api_key.clone(),
            settings.cube.budgets,
            Arc::clone(&clock),
        );
        let cube = Arc::new(cube);
        let deletes = &settings.tasks.deletes;
        let limits = deeds::Limits { most_wakes: deletes.max_wakes, client_wait: deletes.client_wait };
        let deeds = Deeds::new(
            Arc::clone(&ledger),
            Arc::clone(&cube),
            Arc::clone(&metrics),
            Arc::clone(&clock),
            limits,
        );
        let deeds = Arc::new(deeds);
        let governor = Arc::new(Governor::new(
            settings.calls.clone(),
            CallsWiring {
                ledger: Arc::clone(&ledger),
                cube: Arc::clone(&cube),
                deeds: Arc::clone(&deeds),
                metrics: Arc::clone(&metrics),
                clock: Arc::clone(&clock),
            },
        ));
        let tasks = Arc::new(Tasks::new(
            task_rules(settings),
            tasks::Wiring {
                ledger: Arc::clone(&ledger),
                cube: Arc::clone(&cube),
                deeds: Arc::clone(&deeds),
                metrics: Arc::clone(&metrics),
                activity: activity(settings, &metrics, &clock)?,
                events: events(settings, &metrics, &clock)?,
                clock: Arc::clone(&clock),
            },
        ));
        tasks.start().await.context("take over what an earlier process left")?;
        let through = transport(settings, &metrics, &clock, Asker::PassThrough)?;
        let under_way = Arc::new(UnderWay { governor: Arc::clone(&governor), calls: watch::Sender::new(()) });
        let proxy = Proxy::build(
            skin(settings),
            proxy::Wiring {
                calls: Arc::clone(&under_way) as _,
                upstream: through,
                observer: Arc::new(Counted(Arc::clone(&metrics))),
                clock,
                chance,
            },
        );
        let outlook = Arc::new(View {
            governor: Arc::clone(&governor),
            tasks: Arc::clone(&tasks),
            guard,
            overdue_grace: settings.tasks.collector.overdue_grace,
        });
        let admin = &settings.admin;
        let admin = Arc::new(Admin::new(admin, Arc::clone(&ledger), Arc::clone(&metrics), outlook));
        Ok(Self { ledger, governor, tasks, proxy, metrics, cube, admin, deeds, under_way })
    }

    /// From here on this warden is going away: it is not ready any more, and whoever waits for a slot waits elsewhere.
    pub fn drain(&self) {
        self.admin.drain();
        self.governor.drain();
    }

    /// Ready when nothing is under way: no governed call, awaited or not, and no kill that they left to be carried out.
    pub async fn finish(&self) {
        self.under_way.calls.closed().await;
        if let Err(error) = self.tasks.tick_due().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "what is due could not be looked at");
        }
        self.deeds.kills_over().await;
    }

    /// Takes what may change at run time into force.
    pub fn reload(&self, settings: &Settings) {
        self.governor.reload(settings.calls.clone());
        self.ledger.configure(limits(settings));
        self.tasks.reload(task_rules(settings));
    }
}

fn limits(settings: &Settings) -> LimitSheet {
    settings.calls.policies.limits(settings.calls.admission.global_limit)
}

/// Governs, and knows whether any call is under way.
struct UnderWay {
    governor: Arc<Governor>,
    /// Each call holds a receiver.
    calls: watch::Sender<()>,
}

#[async_trait]
impl Calls for UnderWay {
    fn route(&self, head: &mut Parts) -> Route {
        self.governor.route(head)
    }

    async fn call(&self, head: Parts, body: Bytes, caller: Caller) -> Reply {
        let _until_the_end = self.calls.subscribe();
        self.governor.call(head, body, caller).await
    }
}

/// What the operator sees of calls and tasks.
struct View {
    governor: Arc<Governor>,
    tasks: Arc<Tasks>,
    overdue_grace: Duration,
    guard: Arc<Guard>,
}

impl Outlook for View {
    fn policies(&self) -> Policies {
        self.governor.settings().policies.clone()
    }

    fn global_limit(&self) -> Option<u32> {
        self.governor.settings().admission.global_limit
    }

    fn waiting(&self, bucket: &Bucket) -> usize {
        self.governor.waiting(bucket)
    }

    fn health(&self) -> Health {
        let status = self.tasks.status();
        Health {
            upstream_up: status.upstream_up,
            listing_off: status.listing_off,
            last_inventory: status.last_inventory,
            ledger_error: status.ledger_error,
            corrupt_records: status.corrupt_records,
            foreign: self.tasks.foreign(),
        }
    }

    fn collecting(&self) -> Collecting {
        let view = self.tasks.collector_view();
        Collecting {
            leads: view.leads,
            carried_out: view.carried_out,
            report: view.report,
            prices: self.tasks.prices(),
        }
    }

    fn write_path(&self) -> write_path::View {
        self.guard.view()
    }

    fn ends_sandboxes(&self) -> bool {
        self.governor.settings().mode == Mode::Enforce
    }

    fn overdue_grace(&self) -> Duration {
        self.overdue_grace
    }

    fn drain(&self) {
        self.governor.drain();
    }
}

/// Counts what only the skin sees.
struct Counted(Arc<Metrics>);

impl Observer for Counted {
    fn finished(&self, finished: &Finished) {
        if finished.ending == Ending::Panicked {
            self.0.panicked();
        }
        if let Some(reason) = finished.refused {
            self.0.refused(reason, OTHER);
        }
    }
}

/// The client's ways to Cube, each measured under its own name.
pub(super) fn ways(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Ways> {
    Ok(Ways {
        carried: transport(settings, metrics, clock, Asker::Call)?,
        own: transport(settings, metrics, clock, Asker::Task)?,
    })
}

/// Who tells which sandboxes are in use.
fn activity(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<ActivitySource>> {
    let cube = &settings.cube;
    if cube.activity == Activity::None {
        return Ok(None);
    }
    let (observe, timer) = (observe(metrics, Asker::Task), ClockTimer(Arc::clone(clock)));
    let source = ActivitySource::build(&cube.activity_urls, cube.activity_token.as_ref(), &observe, &timer);
    Ok(Some(source.context("upstream.activity_urls")?))
}

/// Where operators are told of what happens.
fn events(settings: &Settings, metrics: &Arc<Metrics>, clock: &Arc<dyn Clock>) -> anyhow::Result<Events> {
    let Some(webhook) = &settings.tasks.collector.webhook else { return Ok(Events::logged()) };
    let webhook = Webhook::build(webhook, Arc::clone(clock), Arc::clone(metrics));
    let webhook = webhook.context("collector.webhook_url")?;
    let (events, waiting) = Events::queued();
    tokio::spawn(webhook.run(waiting));
    Ok(events)
}

fn observe(metrics: &Arc<Metrics>, asker: Asker) -> transport::Observe {
    let observed = Arc::clone(metrics);
    Arc::new(move |method: &Method, _status: Option<u16>, took: Duration| {
        observed.asked(method.as_str(), asker, took);
    })
}

fn transport(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    clock: &Arc<dyn Clock>,
    asker: Asker,
) -> anyhow::Result<Transport> {
    let observe = observe(metrics, asker);
    let settings = transport::Settings {
        base: settings.cube.base.clone(),
        idle: settings.cube.idle,
        write_idle: settings.cube.write_idle,
        connect_timeout: settings.cube.connect_timeout,
    };
    Ok(Transport::build_on(&settings, &observe, &ClockTimer(Arc::clone(clock)))?)
}

fn skin(settings: &Settings) -> proxy::Settings {
    proxy::Settings {
        // In the other modes nothing is put into what passes.
        request_ids: settings.calls.mode == Mode::Enforce,
        answer_limit: settings.proxy.answer_timeout,
        body_limit: settings.proxy.body_limit,
        body_patience: settings.proxy.body_timeout,
        idle: settings.proxy.idle,
        ..proxy::Settings::default()
    }
}

fn task_rules(settings: &Settings) -> tasks::Rules {
    tasks::Rules {
        settings: settings.tasks.clone(),
        adopt: match &settings.calls.adopt {
            Adopt::Nobody => tasks::Adopt::Nobody,
            Adopt::Into(bucket) => tasks::Adopt::Into(bucket.clone()),
        },
        labels: LabelNames::new(&settings.calls.identity.metadata_prefix),
        kills: if settings.calls.mode == Mode::Enforce { Kills::CarriedOut } else { Kills::Withheld },
        policies: settings.calls.policies.clone(),
    }
}

/// The rules' lengths of time. A create settles within two budgets (its own, and that of the v1 that may follow).
fn timing(settings: &Settings) -> Timing {
    let tasks = &settings.tasks;
    let longest = settings.cube.budgets.snapshot.max(settings.cube.budgets.wake);
    let usual = Timing::default();
    Timing {
        settle: settings.cube.budgets.call.saturating_mul(2) + Duration::from_secs(20),
        search: tasks.reconciler.search,
        horizon: tasks.reconciler.ambiguous_horizon,
        claim: tasks.reconciler.claim,
        newborn: tasks.collector.newborn_grace,
        root_fresh: tasks.collector.root_fresh,
        deadline_grace: tasks.reconciler.deadline_grace,
        tombstone: usual.tombstone.max(longest.saturating_mul(4)),
        kill_retry: tasks.deletes.retry,
        kill_retry_most: tasks.deletes.retry_max,
        kill_tries: tasks.deletes.quarantine_after,
        quarantine_retry: tasks.deletes.quarantine_retry,
        ..usual
    }
}
