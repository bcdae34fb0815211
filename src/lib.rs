//! cubewarden: governance between E2B-compatible SDK clients and the Cube API.
//!
//! The map. Everything that decides is pure (`rules`); everything that acts is thin; the ledger is the one authority on who
//! holds what. `tests/tidy/rooms.rs` holds each room to the doors named here.
//!
//! | room | what it is | what must stay true there | may name |
//! |---|---|---|---|
//! | [`ids`] | names of things | a value is well formed | nothing of ours |
//! | [`time`] | clock, sleep, chance | the only reader of either | nothing of ours |
//! | [`verdict`] | every way to say no | `code` is the HTTP status, the body never empty | ids, time |
//! | [`rules`] | decisions | pure: `now` is an argument, integers only | ids, time, verdict |
//! | [`store`] | versioned reads, one conditional commit | durable before it is confirmed; knows no rule | ids, time, rules |
//! | [`ledger`] | the domain's verbs | a slot is freed only by a rule that saw proof | ids, time, verdict, rules, store |
//! | [`cube`] | the Cube API | one table of answers; nothing is sent twice | ids, time, rules |
//! | [`telemetry`] | metric and log field names | labels from closed sets | ids, verdict |
//! | [`deeds`] | what calls and tasks both carry out at Cube | nothing is deleted whose intent is not written down | all above but store |
//! | [`calls`] | one file per intercepted call | a call is a story told once; every way out settles | as deeds, and deeds |
//! | [`tasks`] | what nobody waits for | a tick that fails changes nothing it cannot prove | as deeds, and deeds |
//! | [`proxy`] | the skin | what is not governed passes unchanged | ids, time, verdict, calls, cube, telemetry |
//! | [`admin`] | health, metrics, the operator's view and orders | a GET changes nothing; orders are the ledger's to decide | verdict, rules, ledger, telemetry |
//! | [`config`] | the file becomes the rooms' settings | all problems at once, each says what to do | the rooms' settings |
//! | [`cli`] | the command line | the one place where concrete types meet | everything |

pub mod admin;
pub mod calls;
pub mod cli;
pub mod config;
pub mod cube;
pub mod deeds;
pub mod ids;
pub mod ledger;
pub mod proxy;
pub mod rules;
pub mod store;
pub mod tasks;
pub mod telemetry;
pub mod time;
pub mod verdict;
