//! `[[tenant]]`: who may ask, by which keys, in which buckets.
//!
//! Must stay true: a key and a bucket belong to one tenant only; a tenant has at least one of each. What stands where a
//! hash should is never shown: it may be the key itself.

use toml::{Table, Value};

use super::kinds::{Kind, flag, hidden, list, rate, text};
use super::sheet::{Section, Sheet};
use crate::calls::settings::{Tenancy, Tenant};
use crate::ids::{Bucket, TenantName};

/// Reads all tenants; none means open mode.
pub(super) fn read(sheet: &mut Sheet) -> Tenancy {
    let found = sheet.sections("tenant", title, tenant);
    if found.is_empty() {
        return Tenancy::Open;
    }
    let tenants: Vec<_> = found.into_iter().flatten().collect();
    for (at, tenant) in tenants.iter().enumerate() {
        for earlier in &tenants[..at] {
            if let Some(sentence) = quarrel(earlier, tenant) {
                sheet.problem(sentence);
            }
        }
    }
    Tenancy::Tenants(tenants)
}

fn title(table: &Table) -> Option<String> {
    let name = TenantName::new(table.get("name")?.as_str()?).ok()?;
    Some(name.to_string())
}

fn tenant(s: &mut Section<'_>) -> Option<Tenant> {
    let name = s.require("name", &name());
    let keys = s.require("keys_sha256", &keys());
    let buckets = s.require("buckets", &buckets());
    let admin = s.get("admin", false, &flag());
    let calls_per_second = s.get("calls_per_second", "none", &rate(1_000_000).or_none());
    Some(Tenant { name: name?, keys_sha256: keys?, buckets: buckets?, admin, calls_per_second })
}

fn name() -> Kind<TenantName> {
    text("1 to 63 of [A-Za-z0-9._-], beginning with a letter or digit", |text| TenantName::new(text).ok())
}

fn keys() -> Kind<Vec<[u8; 32]>> {
    let wanted = "the SHA-256 of each key, 64 of [0-9a-f] each: printf %s \"$KEY\" | sha256sum";
    list(wanted, hash).filled(wanted).shown_as(|value| {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let well = items.iter().all(|item| item.as_str().and_then(hash).is_some());
        if well { shortened(items) } else { hidden(value) }
    })
}

/// The beginnings of hashes: enough to see which is which.
fn shortened(items: &[Value]) -> String {
    let short = items.iter().filter_map(Value::as_str).map(|hash| format!("\"{}..\"", &hash[..8]));
    format!("[{}]", short.collect::<Vec<_>>().join(", "))
}

fn hash(text: &str) -> Option<[u8; 32]> {
    let lower = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; 32];
    (lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

fn buckets() -> Kind<Vec<Bucket>> {
    let wanted = "buckets, each written namespace/env, such as \"shop/prod\"";
    list(wanted, |text| Bucket::parse(text).ok()).filled(wanted)
}

/// Why two tenants cannot stand side by side.
fn quarrel(one: &Tenant, other: &Tenant) -> Option<String> {
    let (a, b) = (&one.name, &other.name);
    if a == b {
        return Some(format!("tenant.{a}: two [[tenant]] have this name; wanted one each"));
    }
    if one.keys_sha256.iter().any(|key| other.keys_sha256.contains(key)) {
        return Some(format!(
            "tenant.{a}.keys_sha256 and tenant.{b}.keys_sha256 share a key: a key belongs to one tenant only"
        ));
    }
    let shared = one.buckets.iter().find(|bucket| other.buckets.contains(bucket))?;
    Some(format!(
        "tenant.{a}.buckets and tenant.{b}.buckets share {shared}: a bucket belongs to one tenant only, \
         else each would see the other's usage"
    ))
}
