//! `[bucket_defaults]`, `[env_defaults.<env>]` and `[[bucket]]`: each layer over the one before.
//!
//! All three have the same keys, so they are read by the same function, each upon the policy that holds without it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use toml::Table;

use super::kinds::{Kind, any_text, choice, duration, flag, rate, seconds, text, whole};
use super::nearest;
use super::sheet::{Section, Sheet};
use super::span::{SECOND, YEAR};
use crate::calls::settings::{Adopt, Tenancy};
use crate::ids::{Bucket, Env, Namespace};
use crate::rules::policy::Ceilings;
use crate::rules::policy::{
    BucketPolicy, CreateRate, IdForm, OnTimeout, Permission, Policies, UnprovenDelete,
};

/// What a section of policies says, upon what holds without it.
#[derive(Clone)]
struct Layer {
    policy: BucketPolicy,
    per_minute: Option<NonZeroU32>,
    burst: Option<NonZeroU32>,
}

/// Reads all three kinds of section. Every bucket that anything names has a name in metrics too.
pub(super) fn read(sheet: &mut Sheet, tenancy: &Tenancy) -> Policies {
    let base = sheet.section("bucket_defaults", |s| {
        s.begin_defaults(&defaults(tenancy));
        layer(s, &Layer { policy: BucketPolicy::default(), per_minute: None, burst: None })
    });
    let by_env = sheet.subsections("env_defaults", |env, s| {
        let layer = layer(s, &base);
        match Env::new(env) {
            Ok(env) => Some((env, layer)),
            Err(wrong) => {
                s.complain(&wrong.to_string());
                None
            }
        }
    });
    let by_env: BTreeMap<Env, Layer> = by_env.into_iter().flatten().collect();
    let named = sheet.sections("bucket", title, |s| bucket(s, &base, &by_env));
    let named: Vec<_> = named.into_iter().flatten().collect();
    check_names(sheet, &named, tenancy);
    let plain = by_env.into_iter().map(|(env, layer)| (env, layer.policy)).collect();
    let policies = Policies::new(base.policy, plain);
    let policies = named.into_iter().fold(policies, |all, (bucket, layer)| all.with(&bucket, layer.policy));
    of_tenancy(tenancy).iter().fold(policies, Policies::naming)
}

/// Gives the adopting bucket a name too.
pub(super) fn name_adopting(policies: Policies, adopt: &Adopt) -> Policies {
    match adopt {
        Adopt::Into(bucket) => policies.naming(bucket),
        Adopt::Nobody => policies,
    }
}

/// What holds where nobody wrote anything; only who may use dangerous fields depends on the tenancy.
fn defaults(tenancy: &Tenancy) -> Table {
    let permission = match tenancy {
        Tenancy::Open => "allow",
        Tenancy::Tenants(_) => "deny",
    };
    let none = [
        "limit",
        "max_idle",
        "max_age",
        "default_timeout",
        "max_timeout",
        "creates_per_minute",
        "create_burst",
    ];
    let mut table: Table = none.iter().map(|key| ((*key).to_owned(), "none".into())).collect();
    for (key, text) in [
        ("retention", "0s"),
        ("ids", "bare"),
        ("unproven_delete", "defer"),
        ("on_timeout", "client"),
        ("template", ""),
        ("light_template", ""),
        ("host_mount", permission),
        ("distribution_scope", permission),
    ] {
        table.insert(key.to_owned(), text.into());
    }
    table.insert("reuse".to_owned(), false.into());
    table
}

fn layer(s: &mut Section<'_>, under: &Layer) -> Layer {
    let was = under.policy.clone();
    let per_minute = s.find("creates_per_minute", &rate(10_000_000).or_none()).unwrap_or(under.per_minute);
    let burst = s.find("create_burst", &rate(10_000_000).or_none()).unwrap_or(under.burst);
    let policy = BucketPolicy {
        limit: s.find("limit", &whole(0..=10_000_000).or_none()).unwrap_or(was.limit),
        retention: s.find("retention", &duration(Duration::ZERO..=YEAR)).map_or(was.retention, positive),
        ceilings: Ceilings {
            idle: s.find("max_idle", &ceiling()).unwrap_or(was.ceilings.idle),
            age: s.find("max_age", &ceiling()).unwrap_or(was.ceilings.age),
        },
        reuse: s.find("reuse", &flag()).unwrap_or(was.reuse),
        ids: s.find("ids", &id_form()).unwrap_or(was.ids),
        unproven_delete: s.find("unproven_delete", &unproven_delete()).unwrap_or(was.unproven_delete),
        on_timeout: s.find("on_timeout", &on_timeout()).unwrap_or(was.on_timeout),
        default_timeout: s.find("default_timeout", &timeout()).unwrap_or(was.default_timeout),
        max_timeout: s.find("max_timeout", &timeout()).unwrap_or(was.max_timeout),
        template: s.find("template", &any_text()).map_or(was.template, filled),
        light_template: s.find("light_template", &any_text()).map_or(was.light_template, filled),
        creates: per_minute.map(|per_minute| create_rate(per_minute, burst)),
        host_mount: s.find("host_mount", &permission()).unwrap_or(was.host_mount),
        distribution_scope: s.find("distribution_scope", &permission()).unwrap_or(was.distribution_scope),
    };
    let layer = Layer { policy, per_minute, burst };
    // What is wrong below has been said there.
    let said = complaints(under);
    for complaint in complaints(&layer).iter().filter(|complaint| !said.contains(complaint)) {
        s.complain(complaint);
    }
    if burst.is_some() && burst != under.burst && per_minute.is_none() {
        s.complain("create_burst is set and creates_per_minute is not: a burst belongs to a rate");
    }
    layer
}

/// What does not fit together within one effective policy.
fn complaints(layer: &Layer) -> Vec<String> {
    let policy = &layer.policy;
    let mut found = Vec::new();
    if let (Some(default), Some(most)) = (policy.default_timeout, policy.max_timeout)
        && default > most
    {
        let (default, most) = (humantime::format_duration(default), humantime::format_duration(most));
        found.push(format!(
            "default_timeout is {default} and max_timeout is {most} here: default_timeout must not exceed max_timeout"
        ));
    }
    if policy.reuse && policy.ids == IdForm::Bare && policy.unproven_delete == UnprovenDelete::Refuse {
        found.push(
            "reuse is true, ids \"bare\" and unproven_delete \"refuse\" here: nobody could delete a reused sandbox; \
             wanted ids = \"qualified\" or unproven_delete = \"defer\""
                .to_owned(),
        );
    }
    found
}

fn id_form() -> Kind<IdForm> {
    choice([("bare", IdForm::Bare), ("qualified", IdForm::Qualified)])
}

fn unproven_delete() -> Kind<UnprovenDelete> {
    choice([("defer", UnprovenDelete::Defer), ("refuse", UnprovenDelete::Refuse)])
}

fn on_timeout() -> Kind<OnTimeout> {
    choice([("client", OnTimeout::Client), ("pause", OnTimeout::Pause), ("kill", OnTimeout::Kill)])
}

fn permission() -> Kind<Permission> {
    choice([("allow", Permission::Allow), ("deny", Permission::Deny)])
}

fn ceiling() -> Kind<Option<Duration>> {
    duration(SECOND..=YEAR).or_none()
}

fn timeout() -> Kind<Option<Duration>> {
    seconds(SECOND..=YEAR).or_none()
}

fn positive(length: Duration) -> Option<Duration> {
    (!length.is_zero()).then_some(length)
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// A rate; where no burst is named, it is what comes in five seconds.
fn create_rate(per_minute: NonZeroU32, burst: Option<NonZeroU32>) -> CreateRate {
    let five_seconds = NonZeroU32::new(per_minute.get() / 12).unwrap_or(NonZeroU32::MIN);
    CreateRate { per_minute, burst: burst.unwrap_or(five_seconds) }
}

fn title(table: &Table) -> Option<String> {
    let part = |key| table.get(key).and_then(|value| value.as_str());
    let bucket = Bucket::parse(&format!("{}/{}", part("namespace")?, part("env")?)).ok()?;
    Some(bucket.to_string())
}

fn bucket(s: &mut Section<'_>, base: &Layer, by_env: &BTreeMap<Env, Layer>) -> Option<(Bucket, Layer)> {
    let wanted = "1 to 63 of [A-Za-z0-9._-], beginning with a letter or digit";
    let namespace = s.require("namespace", &text(wanted, |text| Namespace::new(text).ok()));
    let env = s.require("env", &text(wanted, |text| Env::new(text).ok()));
    let under = env.as_ref().and_then(|env| by_env.get(env)).unwrap_or(base);
    let layer = layer(s, under);
    Some((Bucket { namespace: namespace?, env: env? }, layer))
}

/// No bucket twice, and none that nobody can use: a limit on a mistyped bucket would limit nothing.
fn check_names(sheet: &mut Sheet, named: &[(Bucket, Layer)], tenancy: &Tenancy) {
    let usable: Vec<String> = of_tenancy(tenancy).iter().map(Bucket::to_string).collect();
    let governed = matches!(tenancy, Tenancy::Tenants(_)) && sheet.is_sound("tenant");
    for (at, (bucket, _)) in named.iter().enumerate() {
        if named[..at].iter().any(|(earlier, _)| earlier == bucket) {
            sheet.problem(format!("bucket.{bucket}: two [[bucket]] have this name; wanted one each"));
        }
        if governed && !usable.contains(&bucket.to_string()) {
            let near = nearest::of(&bucket.to_string(), &usable)
                .map_or_else(String::new, |near| format!("; did you mean {near}?"));
            sheet.problem(format!("bucket.{bucket}: no [[tenant]] has this bucket{near}"));
        }
    }
}

/// The buckets that callers can choose by the configuration alone.
fn of_tenancy(tenancy: &Tenancy) -> Vec<Bucket> {
    match tenancy {
        Tenancy::Open => Bucket::parse("default/dev").into_iter().collect(),
        Tenancy::Tenants(tenants) => tenants.iter().flat_map(|tenant| tenant.buckets.clone()).collect(),
    }
}
