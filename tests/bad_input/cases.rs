//! What vandals, old SDKs and careless applications send.

use super::{BASE, Sent};

/// Creates that the warden refuses itself, before a slot is taken, with 400.
pub(super) fn refused_creates() -> Vec<Sent> {
    let mut bodies: Vec<Vec<u8>> = [
        "",
        " ",
        "{",
        "}",
        "[]",
        "null",
        "5",
        "\"templateID\"",
        "{\"templateID\":\"{base}\"",
        "{\"templateID\":\"{base}\"}}",
        "{\"templateID\":\"{base}\"} x",
        "{\"templateID\":\"{base}\",}",
        "{'templateID':'{base}'}",
        "{templateID:\"{base}\"}",
        "{\"templateID\":\"{base}\"/* a */}",
        "{\"templateID\":\"{base}\",\"timeout\":NaN}",
        "{\"templateID\":\"{base}\",\"timeout\":0x10}",
        "{\"templateID\":\"{base}\",\"a\":\"\u{1}\"}",
        "{\"templateID\":\"{base}\",\"a\":\"\\x\"}",
        "{\"templateID\":\"{base}\",\"templateID\":\"{base}\"}",
        "{\"templateID\":\"{base}\",\"template\\u0049D\":\"snap-1\"}",
        "{\"templateID\":\"{base}\",\"timeout\":1,\"timeout\":99999}",
        "{\"templateID\":\"{base}\",\"metadata\":{\"a\":\"b\"},\"metadata\":{}}",
        "{\"templateID\":\"{base}\",\"metadata\":{\"owner_id\":\"a\",\"owner\\u005fid\":\"b\"}}",
        "{\"templateID\":\"{base}\",\"lifecycle\":[\"pause\"]}",
        "{\"templateID\":\"{base}\",\"lifecycle\":{\"onTimeout\":\"pause\",\"onTimeout\":\"kill\"}}",
        "\u{feff}{\"templateID\":\"{base}\"}",
    ]
    .iter()
    .map(|body| body.replace("{base}", BASE).into_bytes())
    .collect();
    bodies.push(b"\xff\xfe{\x00\"\x00".to_vec());
    bodies.push([b"{\"a\":\"\xff\",\"templateID\":\"".as_slice(), BASE.as_bytes(), b"\"}"].concat());
    bodies.push("[".repeat(100_000).into_bytes());
    bodies.push(
        format!("{{\"templateID\":\"{BASE}\",\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000)).into_bytes(),
    );
    bodies.push(format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(5000), "}".repeat(5000)).into_bytes());
    bodies.push(vec![0; 1000]);
    bodies.into_iter().map(Sent::create).collect()
}

/// Creates whose fate is Cube's to say, or that are fine although they look odd.
pub(super) fn odd_creates() -> Vec<Sent> {
    let long = "x".repeat(100_000);
    let many: Vec<String> = (0..5000).map(|n| format!("\"k{n}\":\"v\"")).collect();
    let fields = [
        "\"timeout\":1e400",
        "\"timeout\":-0",
        "\"timeout\":1.5",
        "\"timeout\":9223372036854775808",
        "\"timeout\":-2147483649",
        "\"timeout\":\"300\"",
        "\"timeout\":null",
        "\"timeout\":[]",
        "\"timeout\":0",
        "\"timeout\":-7",
        "\"metadata\":null",
        "\"metadata\":[]",
        "\"metadata\":\"a\"",
        "\"metadata\":{\"a\":1}",
        "\"metadata\":{\"a\":null}",
        "\"metadata\":{\"\":\"\"}",
        "\"metadata\":{\"a\":\"\\ud800\"}",
        "\"metadata\":{\"managed_by\":\"me\",\"cw_marker\":\"x\",\"cw_ledger\":\"\"}",
        "\"metadata\":{\"__proto__\":\"x\",\"a.b/c\":\"<script>\"}",
        "\"lifecycle\":5",
        "\"lifecycle\":{\"onTimeout\":\"explode\"}",
        "\"lifecycle\":{\"autoResume\":{\"enabled\":\"x\"}}",
        "\"autoPause\":\"yes\"",
        "\"autoResume\":7",
        "\"volumeMounts\":5",
        "\"volumeMounts\":[5]",
        "\"volumeMounts\":[{\"name\":\"../../etc\",\"path\":\"/\"}]",
        "\"volumeMounts\":[{}]",
        "\"network\":5",
        "\"network\":{\"allowOut\":5}",
        "\"memory\":\"x\"",
        "\"envVars\":[1]",
        "\"mcp\":{\"a\":{\"b\":[{}]}}",
        "\"\":\"\"",
        "\"distributionScope\":[\"node-0\"]",
        "\"metadata\":{\"host-mount\":\"[]\"}",
    ];
    let with = |field: String| Sent::create(format!("{{\"templateID\":\"{BASE}\",{field}}}"));
    let mut all: Vec<Sent> = fields.iter().map(|field| with((*field).to_owned())).collect();
    all.push(with(format!("\"metadata\":{{\"a\":\"{long}\"}}")));
    all.push(with(format!("\"metadata\":{{{}}}", many.join(","))));
    all.push(with(format!("\"{long}\":1")));
    for template in
        ["5", "null", "\"\"", "\"snap-nobody\"", "\"snap-\"", "\"../x\"", "\"tpl-nobody\"", "[]", "{}"]
    {
        all.push(Sent::create(format!("{{\"templateID\":{template}}}")));
    }
    all.push(Sent::create("{}"));
    all
}

/// Headers of a create that the warden refuses.
pub(super) fn refused_headers() -> Vec<Sent> {
    let long = "k".repeat(256);
    let lines: Vec<Vec<&[u8]>> = vec![
        vec![b"Idempotency-Key:"],
        vec![b"Idempotency-Key: a", b"Idempotency-Key: b"],
        vec![b"Idempotency-Key: \xc3\xa4"],
        vec![b"X-Cube-Namespace: ../x"],
        vec![b"X-Cube-Namespace: a b"],
        vec![b"X-Cube-Namespace: a", b"X-Cube-Namespace: b"],
        vec![b"X-Cube-Env: \xff"],
        vec![b"X-Cube-Env: -"],
        vec![b"X-Cube-Project: a", b"X-Cube-Project: a"],
        vec![b"X-Cube-Run: \xff\xfe"],
    ];
    let with = |lines: Vec<&[u8]>| lines.into_iter().fold(Sent::fine(), Sent::header);
    let mut all: Vec<Sent> = lines.into_iter().map(with).collect();
    all.push(Sent::fine().header(format!("Idempotency-Key: {long}")));
    all.push(Sent::fine().header(format!("X-Cube-Namespace: {long}")));
    all.push(Sent::fine().header(format!("X-Cube-Run: {}", long.repeat(8))));
    all
}

/// Paths that name nothing, or name it in a way that two readers could understand differently.
pub(super) fn nasty_paths(sandbox: &str) -> Vec<Sent> {
    let paths = [
        "/sandboxes/".to_owned(),
        "/sandboxes/..".to_owned(),
        "/sandboxes/%2e%2e/health".to_owned(),
        "/sandboxes/%00".to_owned(),
        "/sandboxes/%".to_owned(),
        "/sandboxes/%zz".to_owned(),
        "/sandboxes/%C0%AE".to_owned(),
        "/sandboxes/a%2Fb".to_owned(),
        "//sandboxes".to_owned(),
        "/./sandboxes".to_owned(),
        "/x/../sandboxes".to_owned(),
        "/sandbox%65s".to_owned(),
        "/SANDBOXES".to_owned(),
        "/v2//sandboxes".to_owned(),
        "/cubeapi/v1/../../sandboxes".to_owned(),
        "/snapshots/".to_owned(),
        "/volumes/%2e%2e".to_owned(),
        "/templates/..%2fsandboxes".to_owned(),
        format!("/sandboxes/{}", &sandbox[..12]),
        format!("/sandboxes/{}", sandbox.to_uppercase()),
        format!("/sandboxes/{sandbox}/"),
        format!("/sandboxes/{sandbox}//timeout"),
        format!("/sandboxes/{sandbox}/timeout/"),
        format!("/sandboxes/{sandbox}%20"),
        format!("/sandboxes/{sandbox}-gzzzzzzzz"),
        format!("/sandboxes/{sandbox};a=b"),
        format!("/sandboxes/{sandbox}/../{sandbox}"),
        format!("/sandboxes/{}", "a".repeat(30_000)),
        format!("/sandboxes/{}", "%41".repeat(5000)),
        format!("/{}", "sandboxes/".repeat(2000)),
    ];
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "FROB"];
    let all = paths.iter().flat_map(|path| methods.map(|method| format!("{method} {path}")));
    all.map(|line| if line.starts_with("PO") { Sent::new(line).body("{}") } else { Sent::new(line) })
        .collect()
}

/// Filters and pages.
pub(super) fn nasty_queries() -> Vec<(u16, Sent)> {
    let long = "%25".repeat(10_000);
    let fine = [
        "metadata=%FF%FE",
        "metadata=a%3D%252525252525",
        "metadata=%",
        "metadata=a%3Db%26a%3Dc%26%26%26%3D",
        "state=%00",
        "state=running,,paused,",
        "limit=0",
        "limit=-2147483648",
        "&&&&=&=",
        "x=1;y=2",
        "metadata=a%3Db&metadata=c%3Dd",
    ];
    let bad = [
        "limit=",
        "limit=abc",
        "limit=1.0",
        "limit=99999999999999999999",
        "limit=1&limit=1",
        "limit=%31%30x",
        "nextToken=abc",
        "nextToken=%FF",
        "nextToken=-",
        "nextToken=ffffffffffffffffffff-0123456789abcdef0123456789abcdef",
        "limit=1&nextToken=0-0",
    ];
    let list = |query: &str| Sent::new(format!("GET /v2/sandboxes?{query}"));
    let mut all: Vec<(u16, Sent)> = fine.iter().map(|query| (200, list(query))).collect();
    all.extend(bad.iter().map(|query| (400, list(query))));
    all.push((200, list(&format!("metadata={long}"))));
    all
}

/// Bodies of calls that touch a sandbox.
pub(super) fn small_bodies(sandbox: &str) -> Vec<Sent> {
    let bodies: [&[u8]; 16] = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b"{}x",
        b"\xff",
        b"{\"timeout\":\"x\",\"duration\":\"x\",\"snapshotID\":5,\"name\":5}",
        b"{\"timeout\":1e99,\"duration\":1e99}",
        b"{\"timeout\":-5,\"duration\":-5}",
        b"{\"timeout\":99999999999999999999,\"duration\":99999999999999999999}",
        b"{\"timeout\":600,\"timeout\":0}",
        b"{\"timeout\":600,\"t\\u0069meout\":0}",
        b"{\"duration\":600,\"duration\":0}",
        b"{\"snapshotID\":\"snap-a\",\"snapshotID\":\"snap-b\"}",
        b"{\"snapshotID\":\"../../x\",\"name\":\"\\u0000\"}",
    ];
    let calls = ["timeout", "refreshes", "connect", "resume", "rollback", "snapshots"];
    let deep = format!("{{\"timeout\":{}", "[".repeat(50_000));
    let mut all = Vec::new();
    for call in calls {
        for body in bodies.iter().copied().chain([deep.as_bytes()]) {
            all.push(Sent::new(format!("POST /sandboxes/{sandbox}/{call}")).body(body));
            all.push(Sent::new(format!("POST /v2/sandboxes/{sandbox}/{call}")).body(body));
        }
        all.push(Sent::new(format!("POST /sandboxes/{sandbox}/{call}")));
    }
    all
}
