//! The Cube simulator: a Cube API with all its manners, and faults that can be called by name.
//!
//! `CubeSim::builder()` starts one on a free port; the example `cube-sim` is the same with a command line.
//!
//! ```text
//! let sim = CubeSim::builder().profile(Profile::V051).clock(clock.clone()).seed(7).start().await?;
//! sim.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
//! ... point something at sim.url() ...
//! assert_eq!(sim.high_water(&[("namespace", "a"), ("env", "dev")]), 10);
//! ```
//!
//! Tests also name `faults::Fault`, `ask::Kind` and `model::{Plant, State, Traffic}`.
//! Whatever the handle can do, the side door (`admin`) can do over HTTP.
//!
//! What real Cube has and this does not model, and answers with 501 and the route's name: template builds (`POST
//! /templates/{id}/builds/{build}`, its status and logs), `GET /cubeapi/v1/cluster/overview` and `GET /cubeapi/v1/nodes`.
//! What is modelled by its answer only: network rules, rollback (the state is not rewound), env variables, host mounts, `backend`
//! and `distributionScope`. There is no data plane: traffic is something a test says.

pub(crate) mod admin;
pub(crate) mod answer;
pub(crate) mod ask;
mod builder;
mod create_body;
mod credentials;
pub(crate) mod faults;
mod latency;
mod layers;
pub(crate) mod model;
mod profile;
mod routes;
pub(crate) mod server;
mod sim;
mod wire;
mod write_path;

pub(crate) use credentials::Lock;
pub(crate) use latency::Latency;
pub(crate) use profile::Profile;
pub(crate) use sim::CubeSim;
pub(crate) use write_path::WritePath;
