//! One file per intercepted call, over HTTP, against the simulator.

mod first_light;
