//! What several rooms of the tests need.

pub(crate) mod faulty_store;
