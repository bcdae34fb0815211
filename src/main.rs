//! One arm per subcommand.
fn main() {}
