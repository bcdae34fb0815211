//! Names of things: types with one validating constructor each.
//!
//! Must stay true: a value of these types is well formed, so nobody downstream checks again. A sandbox id is matched
//! whole and on the raw path segment: never a prefix (Cube >= 0.6 would accept one), never percent-encoded, never dots.
//! Deliberately absent: any meaning of a name (who owns what stands in the ledger).

use std::fmt;
use std::sync::Arc;

/// The metric label of every bucket that the configuration does not name.
pub const OTHER: &str = "other";

/// Why a name was not accepted; the text says what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {given:?} is not well formed: {wanted}")]
pub struct Malformed {
    kind: &'static str,
    given: String,
    wanted: &'static str,
}

fn malformed(kind: &'static str, given: &str, wanted: &'static str) -> Malformed {
    let given = given.chars().take(80).collect();
    Malformed { kind, given, wanted }
}

/// Declares a cheap-to-clone text type whose constructor checks `$ok`.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $wanted:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and wraps.
            ///
            /// # Errors
            #[doc = concat!("[`Malformed`] unless ", $wanted, ".")]
            pub fn new(text: &str) -> Result<Self, Malformed> {
                let ok: fn(&str) -> bool = $ok;
                if ok(text) { Ok(Self(Arc::from(text))) } else { Err(malformed($kind, text, $wanted)) }
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

name!(
    /// A product or team: the first half of a bucket.
    Namespace, "namespace", "it takes 1 to 63 of [A-Za-z0-9._-] and begins with a letter or digit", is_label
);
name!(
    /// dev, staging, prod, ...: the second half of a bucket.
    Env, "env", "it takes 1 to 63 of [A-Za-z0-9._-] and begins with a letter or digit", is_label
);
name!(
    /// A tenant of the configuration.
    TenantName, "tenant", "it takes 1 to 63 of [A-Za-z0-9._-] and begins with a letter or digit", is_label
);
name!(
    /// One Cube installation (`upstream.name`).
    UpstreamName, "upstream name", "it takes 1 to 63 of [A-Za-z0-9._-] and begins with a letter or digit", is_label
);
name!(
    /// One ledger (`cw_ledger`): several wardens on one ledger share it.
    LedgerId, "ledger id", "it takes 16 of [0-9a-f]", |text| is_hex(text, 16)
);
name!(
    /// One life of one warden process.
    InstanceId, "instance id", "it takes 16 of [0-9a-f]", |text| is_hex(text, 16)
);
name!(
    /// The request marker (`cw_marker`): unique per create, so that a lost answer can be found again.
    Marker, "marker", "it takes 32 of [0-9a-f]", |text| is_hex(text, 32)
);
name!(
    /// One operation in flight on an entry.
    OperationId, "operation id", "it takes 16 of [0-9a-f]", |text| is_hex(text, 16)
);
name!(
    /// A sandbox as Cube names it.
    SandboxId, "sandbox id", "it takes 32 of [0-9a-f]", |text| is_hex(text, 32)
);
name!(
    /// Who a sandbox belongs to inside its bucket: readable, and safe in E2B's list filter.
    OwnerId, "owner_id", "it takes 1 to 512 of [A-Za-z0-9_.-]", |text| {
        (1..=512).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    }
);

name!(
    /// One holder's claim on a sandbox, named by the caller or by us.
    LeaseId, "lease_id", "it takes 1 to 128 of [A-Za-z0-9._:-]", |text| {
        (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
    }
);

impl OwnerId {
    /// `namespace.env.project.run`: fixed order, readable, injective. Inside a part `_` is written `__` and every
    /// byte outside `[A-Za-z0-9-]` is `_hh`.
    ///
    /// # Errors
    /// [`Malformed`] if the parts are so long that the whole exceeds 512 characters.
    pub fn of_parts(bucket: &Bucket, project: &str, run: &str) -> Result<Self, Malformed> {
        let parts = [bucket.namespace.as_str(), bucket.env.as_str(), project, run];
        Self::new(&parts.map(encode_part).join("."))
    }

    /// The bucket that an id made by [`OwnerId::of_parts`] begins with; `None` if it was made otherwise.
    #[must_use]
    pub fn bucket(&self) -> Option<Bucket> {
        let mut parts = self.0.split('.').map(decode_part);
        let (namespace, env) = (parts.next()??, parts.next()??);
        let whole = parts.count() == 2;
        whole.then(|| Bucket::parse(&format!("{namespace}/{env}")).ok())?
    }
}

fn decode_part(part: &str) -> Option<String> {
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'_' => match rest.next()? {
                b'_' => b'_',
                high => u8::from_str_radix(std::str::from_utf8(&[high, rest.next()?]).ok()?, 16).ok()?,
            },
            plain => plain,
        });
    }
    String::from_utf8(out).ok()
}

fn encode_part(part: &str) -> String {
    use fmt::Write;
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'_' => out.push_str("__"),
            b if b.is_ascii_alphanumeric() || b == b'-' => out.push(char::from(b)),
            b => write!(out, "_{b:02x}").expect("writing to a String cannot fail"),
        }
    }
    out
}

/// Where quota is counted: namespace and environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// Product or team.
    pub namespace: Namespace,
    /// dev, staging, prod, ...
    pub env: Env,
}

impl Bucket {
    /// Reads `namespace/env`.
    ///
    /// # Errors
    /// [`Malformed`] unless there is exactly one slash between two well-formed halves.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let (namespace, env) =
            text.split_once('/').ok_or_else(|| malformed("bucket", text, "it is written namespace/env"))?;
        Ok(Self { namespace: Namespace::new(namespace)?, env: Env::new(env)? })
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.env)
    }
}

/// The fencing token: rises with each holder of an entry and is never issued twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// Reads the base-36 form of a qualified id. 8 or 9 digits: generations are at least the milliseconds of the
    /// present, and a shorter tail is a host name such as `gpu1`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits =
            matches!(text.len(), 8 | 9) && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
        if digits { u64::from_str_radix(text, 36).ok().map(Self) } else { None }
    }
}

impl fmt::Display for Generation {
    /// Base 36, lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [b'0'; 13];
        let (mut rest, mut at) = (self.0, digits.len());
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[usize::try_from(rest % 36).unwrap_or(0)];
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        f.write_str(&String::from_utf8_lossy(&digits[at..]))
    }
}

/// A sandbox as a caller names it: `<id>`, `<id>-g<N>`, and either with the `-<clientID>` tail of Python SDK 1.x.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SandboxRef {
    /// Cube's own id.
    pub id: SandboxId,
    /// The generation the caller presents, if its id is qualified.
    pub generation: Option<Generation>,
}

impl SandboxRef {
    /// Reads a raw path segment; `None` if it names no sandbox.
    #[must_use]
    pub fn parse(segment: &str) -> Option<Self> {
        let id = SandboxId::new(segment.get(..32)?).ok()?;
        let Some(tail) = segment[32..].strip_prefix('-') else {
            return segment[32..].is_empty().then_some(Self { id, generation: None });
        };
        let (first, rest) = match tail.split_once('-') {
            Some((first, rest)) => (first, Some(rest)),
            None => (tail, None),
        };
        match first.strip_prefix('g').and_then(Generation::parse) {
            Some(generation) => {
                rest.is_none_or(is_client_tail).then_some(Self { id, generation: Some(generation) })
            }
            None => is_client_tail(tail).then_some(Self { id, generation: None }),
        }
    }
}

/// A clientID: a UUID on create, a host name or address later.
fn is_client_tail(tail: &str) -> bool {
    (1..=128).contains(&tail.len())
        && tail.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        && tail.as_bytes()[0].is_ascii_alphanumeric()
        && !tail.contains("..")
}

impl fmt::Display for SandboxRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            Some(generation) => write!(f, "{}-g{generation}", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// What else belongs to somebody: it carries data or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A snapshot (`snap-...`), deleted as a template.
    Snapshot,
    /// A volume.
    Volume,
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    const ID: &str = "0cbc7f6b7af7453fac450e3313bcc679";

    #[test]
    fn a_sandbox_is_named_whole_with_generation_and_client_tail_and_in_no_other_way() {
        let parse = |tail: &str| SandboxRef::parse(&format!("{ID}{tail}")).map(|r| r.generation.map(|g| g.0));
        assert_eq!(parse(""), Some(None));
        assert_eq!(parse("-gmh7x2abc"), Some(Some(u64::from_str_radix("mh7x2abc", 36).unwrap())));
        assert_eq!(parse("-node-0"), Some(None));
        assert_eq!(parse("-gpu-7"), Some(None));
        assert_eq!(parse("-1e9b67f1-d5fa-4bc0-9c8c-0ab09e1f3a95"), Some(None));
        assert!(matches!(parse("-gmh7x2abc-10.0.0.7"), Some(Some(_))));
        for bad in ["-", "x", "-g!", "%2d", "-a..b", "-a/b", "-a%20", "-.a", "-gmh7x2abc-"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for bad in ["", "0cbc", "..", &ID[..31], &ID.to_uppercase(), "ä".repeat(16).as_str()] {
            assert_eq!(SandboxRef::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_generation_reads_back_as_written() {
        for value in [1_796_000_000_000, 36u64.pow(8), 1_577_836_800_000] {
            assert_eq!(Generation::parse(&Generation(value).to_string()), Some(Generation(value)));
        }
        assert_eq!(Generation(0).to_string(), "0");
        assert_eq!(Generation(u64::MAX).to_string(), "3w5e11264sgsf");
    }

    #[test]
    fn owner_ids_of_different_parts_differ_and_stay_within_the_safe_characters() {
        let bucket = |text| Bucket::parse(text).unwrap();
        let owner = |b, p, r| OwnerId::of_parts(&bucket(b), p, r).unwrap().to_string();
        assert_eq!(owner("sin-builder/prod", "shop", "run 7"), "sin-builder.prod.shop.run_207");
        assert_eq!(owner("a/b", "-", "ü_"), "a.b.-._c3_bc__");
        assert_ne!(owner("a/b", "c.d", "e"), owner("a/b", "c", "d.e"));
        assert_ne!(owner("a.b/c", "d", "e"), owner("a/b.c", "d", "e"));
        assert_ne!(owner("a/b", "_2e", "x"), owner("a/b", ".", "x"));
        assert!(OwnerId::of_parts(&bucket("a/b"), &"x".repeat(600), "r").is_err());
        for text in ["sin-builder/prod", "a.b/c_d", "A_2e/b-1"] {
            let owner = OwnerId::of_parts(&bucket(text), "p.q", "ü_").unwrap();
            assert_eq!(owner.bucket(), Some(bucket(text)), "{owner}");
        }
        for foreign in ["x", "a.b", "a.b.c", "a.b.c.d.e", "a._zz.c.d", "_.b.c.d"] {
            assert_eq!(OwnerId::new(foreign).unwrap().bucket(), None, "{foreign}");
        }
    }
}
