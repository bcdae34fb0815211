//! The program: everything is in the library, so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    cubewarden::cli::main()
}
