//! One raw request to two addresses, the answers side by side.
