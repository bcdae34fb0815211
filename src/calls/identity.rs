//! Who asks, in which bucket they create, and whose the sandbox will be.
//!
//! Must stay true: every key of every tenant is compared, each in constant time, and no key is ever shown or logged; a
//! bucket or owner is taken from headers and metadata only within what the caller may use. Deliberately absent: who owns
//! what already is (that stands in the ledger), and rates.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::settings::{IdentityKeys, Tenancy, Tenant};
use crate::cube::api::LabelNames;
use crate::cube::client::API_KEY;
use crate::ids::{Bucket, Env, Marker, Namespace, OwnerId, TenantName};
use crate::verdict::{Reason, Refusal};

const NAMESPACE: &str = "x-cube-namespace";
const ENV: &str = "x-cube-env";
const PROJECT: &str = "x-cube-project";
const RUN: &str = "x-cube-run";

/// The bucket of open mode.
const OPEN_BUCKET: &str = "default/dev";

/// What a client shows to say who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(Vec<u8>);

impl fmt::Debug for Credential {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

impl Credential {
    /// Finds it: `X-API-Key` decides where both are there, for mid-range SDKs send a stray bearer. Empty is absent.
    ///
    /// # Errors
    /// 401 if a header that decides stands there more than once: two readers could take different ones.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        if let Some(key) = only(headers, API_KEY.as_str()).map_err(|()| unauthenticated())? {
            return Ok(Some(Self(key.to_vec())));
        }
        let bearer = only(headers, AUTHORIZATION.as_str()).map_err(|()| unauthenticated())?;
        let token = bearer.and_then(|value| value.strip_prefix(b"Bearer ")).map(<[u8]>::trim_ascii);
        Ok(token.filter(|token| !token.is_empty()).map(|token| Self(token.to_vec())))
    }

    /// Its SHA-256, as the configuration holds it.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}

fn unauthenticated() -> Refusal {
    Refusal::new(Reason::Unauthenticated, "send one key of your tenant as X-API-Key or Authorization: Bearer")
}

/// The one value of a header, trimmed; `None` if it is absent or empty, an error if it stands there several times.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, ()> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.as_bytes().trim_ascii());
    if values.next().is_some() { Err(()) } else { Ok(first.filter(|value| !value.is_empty())) }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its tenant; `None` in open mode, where all are one.
    pub tenant: Option<TenantName>,
    /// Whether it may write what all share.
    pub admin: bool,
    /// Its buckets, the first being its default. In open mode there are others too.
    pub buckets: Vec<Bucket>,
    /// How many calls it may make each second; `None` counts nothing.
    pub calls_per_second: Option<NonZeroU32>,
}

/// Finds out who asks.
///
/// # Errors
/// 401 in tenant mode without a key that one of the tenants has.
pub fn identify(tenancy: &Tenancy, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let tenants = match tenancy {
        Tenancy::Tenants(tenants) => tenants,
        Tenancy::Open => return Ok(anybody()),
    };
    let credential = Credential::from_headers(headers)?.ok_or_else(unauthenticated)?;
    let tenant = holder(tenants, &credential.hash()).ok_or_else(unauthenticated)?;
    Ok(Caller {
        tenant: Some(tenant.name.clone()),
        admin: tenant.admin,
        buckets: tenant.buckets.clone(),
        calls_per_second: tenant.calls_per_second,
    })
}

/// Everybody in open mode, and whoever is not asked who it is.
///
/// # Panics
/// Never: the bucket of open mode is well formed.
#[must_use]
pub fn anybody() -> Caller {
    let bucket = Bucket::parse(OPEN_BUCKET).expect("the bucket of open mode is well formed");
    Caller { tenant: None, admin: true, buckets: vec![bucket], calls_per_second: None }
}

/// Whose key it is. All are compared, so that time tells neither how much matched nor where.
fn holder<'a>(tenants: &'a [Tenant], hash: &[u8; 32]) -> Option<&'a Tenant> {
    let mut found = None;
    for tenant in tenants {
        for key in &tenant.keys_sha256 {
            if bool::from(key.ct_eq(hash)) {
                found = Some(tenant);
            }
        }
    }
    found
}

/// What a create says about itself: its headers and its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// The headers of the request.
    pub headers: &'a HeaderMap,
    /// The metadata of the body.
    pub metadata: &'a BTreeMap<String, String>,
    /// Where in them to look.
    pub keys: &'a IdentityKeys,
}

impl<'a> Said<'a> {
    /// A header as text; absent if empty.
    fn header(&self, name: &'static str) -> Result<Option<&'a str>, Refusal> {
        let bad = |text: &str| Refusal::new(Reason::BadRequest, format!("header {name}: {text}"));
        let value = only(self.headers, name).map_err(|()| bad("it is accepted once"))?;
        value.map(std::str::from_utf8).transpose().map_err(|_| bad("it takes UTF-8 text"))
    }

    /// One of our own metadata keys; absent if empty.
    fn label(&self, plain: &str) -> Option<&'a str> {
        let name = LabelNames::new(&self.keys.metadata_prefix).name(plain);
        self.metadata.get(&name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn first_of(&self, keys: &[String]) -> Option<&'a str> {
        let value =
            |key: &String| self.metadata.get(key).map(String::as_str).filter(|value| !value.is_empty());
        keys.iter().find_map(value)
    }
}

fn malformed(error: &crate::ids::Malformed) -> Refusal {
    Refusal::new(Reason::BadRequest, error.to_string())
}

/// Whose a sandbox will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The id.
    pub id: OwnerId,
    /// Did the caller name an owner, or is it this one request?
    pub origin: Origin,
}

/// Where an owner comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The caller named an owner, a project or a run: another create may name the same.
    Named,
    /// Nobody did: the run is the request marker, and nobody else can be this owner.
    Request,
}

impl Caller {
    /// Is a bucket the caller's? In open mode every bucket is.
    #[must_use]
    pub fn may_use(&self, bucket: &Bucket) -> bool {
        self.tenant.is_none() || self.buckets.contains(bucket)
    }

    /// The bucket of a create. Each half comes from its header, else from its metadata key; a half that nobody names
    /// comes from the first of the caller's buckets that has the other.
    ///
    /// # Errors
    /// 400 for a malformed half, 403 for a bucket of somebody else.
    pub fn bucket(&self, said: &Said<'_>) -> Result<Bucket, Refusal> {
        let namespace = self.half(said, NAMESPACE, "namespace", Namespace::new)?;
        let env = self.half(said, ENV, "env", Env::new)?;
        let fits = |bucket: &&Bucket| {
            namespace.as_ref().is_none_or(|half| *half == bucket.namespace)
                && env.as_ref().is_none_or(|half| *half == bucket.env)
        };
        if let Some(bucket) = self.buckets.iter().find(fits) {
            return Ok(bucket.clone());
        }
        let forbidden = || Refusal::new(Reason::ForbiddenBucket, self.which_buckets());
        let first = self.buckets.first().ok_or_else(forbidden)?;
        let bucket = Bucket {
            namespace: namespace.unwrap_or_else(|| first.namespace.clone()),
            env: env.unwrap_or_else(|| first.env.clone()),
        };
        if self.may_use(&bucket) { Ok(bucket) } else { Err(forbidden()) }
    }

    /// One half of a bucket, from its header or its metadata key.
    fn half<T>(
        &self,
        said: &Said<'_>,
        header: &'static str,
        label: &str,
        read: fn(&str) -> Result<T, crate::ids::Malformed>,
    ) -> Result<Option<T>, Refusal> {
        if let Some(value) = said.header(header)? {
            return read(value).map(Some).map_err(|error| malformed(&error));
        }
        said.label(label).map_or(Ok(None), |value| self.label_or_theirs(read(value)))
    }

    /// A metadata value under one of our names. In open mode a value that is none of ours is the application's own word
    /// (`env: "my env"`) and no reason to refuse it: nobody told it about us.
    fn label_or_theirs<T>(&self, read: Result<T, crate::ids::Malformed>) -> Result<Option<T>, Refusal> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.tenant.is_none() => Ok(None),
            Err(error) => Err(malformed(&error)),
        }
    }

    fn which_buckets(&self) -> String {
        let buckets: Vec<String> = self.buckets.iter().map(Bucket::to_string).collect();
        format!("your tenant has the buckets {}; choose one of them", buckets.join(", "))
    }

    /// Whose a create in `bucket` will be: project and run of the headers; else an explicit `owner_id`; else project and
    /// run of the metadata; else nobody's but this request's. (A header is about this request, while metadata is often
    /// copied from one sandbox to the next, our own keys with it.)
    ///
    /// # Errors
    /// 400 for a malformed or too long name.
    pub fn owner(&self, bucket: &Bucket, said: &Said<'_>, marker: &Marker) -> Result<Owner, Refusal> {
        let (project, run) = (said.header(PROJECT)?, said.header(RUN)?);
        if project.is_none()
            && run.is_none()
            && let Some(owner) = said.label("owner_id")
            && let Some(id) = self.label_or_theirs(OwnerId::new(owner))?
        {
            return Ok(Owner { id, origin: Origin::Named });
        }
        let told = project.is_some() || run.is_some();
        let project = project.or_else(|| said.first_of(&said.keys.project_keys));
        let run = run.or_else(|| said.first_of(&said.keys.run_keys));
        let nobody = || OwnerId::of_parts(bucket, "-", marker.as_str()).map_err(|error| malformed(&error));
        if project.or(run).is_none() {
            return Ok(Owner { id: nobody()?, origin: Origin::Request });
        }
        let id = OwnerId::of_parts(bucket, project.unwrap_or("-"), run.unwrap_or(marker.as_str()));
        let id =
            if told { id.map(Some).map_err(|error| malformed(&error))? } else { self.label_or_theirs(id)? };
        match id {
            Some(id) => Ok(Owner { id, origin: Origin::Named }),
            None => Ok(Owner { id: nobody()?, origin: Origin::Request }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn tenant(name: &str, keys: &[&str], buckets: &[&str]) -> Tenant {
        Tenant {
            name: TenantName::new(name).unwrap(),
            keys_sha256: keys.iter().map(|key| Credential(key.as_bytes().to_vec()).hash()).collect(),
            buckets: buckets.iter().map(|bucket| Bucket::parse(bucket).unwrap()).collect(),
            admin: false,
            calls_per_second: None,
        }
    }

    fn two_tenants() -> Tenancy {
        let a = tenant("a", &["e2b_a1", "e2b_a2"], &["sin/prod", "sin/dev", "web/dev"]);
        Tenancy::Tenants(vec![a, tenant("b", &["e2b_b"], &["b/prod"])])
    }

    fn name(lines: &[(&'static str, &'static str)]) -> Result<String, u16> {
        let caller = identify(&two_tenants(), &headers(lines));
        caller.map(|caller| caller.tenant.unwrap().to_string()).map_err(|refusal| refusal.reason.status())
    }

    #[test]
    fn a_key_of_a_tenant_is_that_tenant_and_anything_else_is_401() {
        assert_eq!(name(&[("x-api-key", "e2b_a1")]), Ok("a".into()));
        assert_eq!(name(&[("X-API-KEY", " e2b_a2 ")]), Ok("a".into()));
        assert_eq!(name(&[("authorization", "Bearer e2b_b")]), Ok("b".into()));
        assert_eq!(name(&[("x-api-key", "e2b_a1"), ("authorization", "Bearer e2b_b")]), Ok("a".into()));
        assert_eq!(name(&[("x-api-key", ""), ("authorization", "Bearer e2b_b")]), Ok("b".into()));
        assert_eq!(name(&[("x-api-key", "wrong"), ("authorization", "Bearer e2b_b")]), Err(401));
        for bad in [
            &[][..],
            &[("x-api-key", "e2b_a1"), ("x-api-key", "e2b_a1")],
            &[("x-api-key", "e2b_")],
            &[("authorization", "bearer e2b_b")],
            &[("authorization", "Basic e2b_b")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer e2b_b"), ("authorization", "Bearer e2b_b")],
        ] {
            assert_eq!(name(bad), Err(401), "{bad:?}");
        }
        assert!(!format!("{:?}", Credential(b"secret".to_vec())).contains("secret"));
    }

    #[test]
    fn in_open_mode_all_are_one_whatever_they_show() {
        let caller = identify(&Tenancy::Open, &headers(&[("x-api-key", "a"), ("x-api-key", "b")])).unwrap();
        assert_eq!((caller.tenant.clone(), caller.admin), (None, true));
        assert!(caller.may_use(&Bucket::parse("any/thing").unwrap()));
        assert_eq!(bucket(&caller, &[], &[]), Ok("default/dev".into()));
        assert_eq!(bucket(&caller, &[("x-cube-env", "prod")], &[]), Ok("default/prod".into()));
        assert_eq!(bucket(&caller, &[], &[("namespace", "web")]), Ok("web/dev".into()));
        assert_eq!(bucket(&caller, &[("x-cube-namespace", "-")], &[]), Err(400));
    }

    fn keys(prefix: &str) -> IdentityKeys {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        IdentityKeys {
            project_keys: list(&["project", "project_id"]),
            run_keys: list(&["run", "session_id"]),
            metadata_prefix: prefix.into(),
        }
    }

    fn metadata(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn bucket(
        caller: &Caller,
        lines: &[(&'static str, &'static str)],
        pairs: &[(&str, &str)],
    ) -> Result<String, u16> {
        let (headers, metadata, keys) = (headers(lines), metadata(pairs), keys(""));
        let said = Said { headers: &headers, metadata: &metadata, keys: &keys };
        caller.bucket(&said).map(|bucket| bucket.to_string()).map_err(|refusal| refusal.reason.status())
    }

    /// PX13
    #[test]
    fn a_tenant_chooses_among_its_own_buckets_and_gets_no_other() {
        let caller = identify(&two_tenants(), &headers(&[("x-api-key", "e2b_a1")])).unwrap();
        assert_eq!(bucket(&caller, &[], &[]), Ok("sin/prod".into()));
        assert_eq!(bucket(&caller, &[], &[("env", "dev")]), Ok("sin/dev".into()));
        assert_eq!(bucket(&caller, &[("x-cube-namespace", "web")], &[]), Ok("web/dev".into()));
        assert_eq!(bucket(&caller, &[("x-cube-env", "dev")], &[("env", "prod")]), Ok("sin/dev".into()));
        assert_eq!(bucket(&caller, &[("x-cube-env", "")], &[("env", "")]), Ok("sin/prod".into()));
        assert_eq!(bucket(&caller, &[("x-cube-namespace", "b")], &[("env", "prod")]), Err(403));
        assert_eq!(bucket(&caller, &[], &[("namespace", "b"), ("env", "prod")]), Err(403));
        assert_eq!(bucket(&caller, &[("x-cube-namespace", "web"), ("x-cube-env", "prod")], &[]), Err(403));
        assert_eq!(bucket(&caller, &[("x-cube-env", "a b")], &[]), Err(400));
        assert_eq!(bucket(&caller, &[("x-cube-env", "dev"), ("x-cube-env", "dev")], &[]), Err(400));
    }

    fn owner(
        prefix: &str,
        lines: &[(&'static str, &'static str)],
        pairs: &[(&str, &str)],
    ) -> Result<(String, Origin), u16> {
        let caller = identify(&Tenancy::Open, &HeaderMap::new()).unwrap();
        let (headers, metadata, keys) = (headers(lines), metadata(pairs), keys(prefix));
        let said = Said { headers: &headers, metadata: &metadata, keys: &keys };
        let marker = Marker::new("0123456789abcdef0123456789abcdef").unwrap();
        let owner = caller.owner(&Bucket::parse("n/e").unwrap(), &said, &marker);
        owner.map(|owner| (owner.id.to_string(), owner.origin)).map_err(|refusal| refusal.reason.status())
    }

    #[test]
    fn an_owner_is_named_by_headers_then_by_owner_id_then_by_metadata_and_else_by_the_request() {
        let named = |id: &str| Ok((id.to_owned(), Origin::Named));
        let of = |lines: &[(&'static str, &'static str)], pairs: &[(&str, &str)]| owner("", lines, pairs);
        assert_eq!(of(&[], &[]), Ok(("n.e.-.0123456789abcdef0123456789abcdef".into(), Origin::Request)));
        assert_eq!(of(&[], &[("session_id", "s"), ("project_id", "p 1")]), named("n.e.p_201.s"));
        assert_eq!(of(&[], &[("session_id", "s"), ("run", "r")]), named("n.e.-.r"));
        assert_eq!(of(&[("x-cube-run", "h")], &[("run", "r"), ("project", "p")]), named("n.e.p.h"));
        assert_eq!(of(&[], &[("owner_id", "x.y"), ("run", "r")]), named("x.y"));
        assert_eq!(of(&[("x-cube-run", "h")], &[("owner_id", "x.y")]), named("n.e.-.h"));
        assert_eq!(
            of(&[], &[("run", ""), ("project", "p")]).unwrap().0,
            "n.e.p.0123456789abcdef0123456789abcdef"
        );
        // In open mode an application's own words are no reason to refuse it; a header is about us.
        let nobodys = Ok(("n.e.-.0123456789abcdef0123456789abcdef".into(), Origin::Request));
        assert_eq!(of(&[], &[("owner_id", "a b")]), nobodys);
        assert_eq!(of(&[], &[("run", &"x".repeat(600))]), nobodys);
        let long: &'static str = Box::leak("x".repeat(600).into_boxed_str());
        assert_eq!(of(&[("x-cube-run", long)], &[]), Err(400));
        assert_eq!(of(&[("x-cube-run", "a"), ("x-cube-run", "b")], &[]), Err(400));
        assert_eq!(owner("cw-", &[], &[("owner_id", "a b"), ("cw-owner_id", "mine")]), named("mine"));
    }
}
