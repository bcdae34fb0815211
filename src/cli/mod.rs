//! The command line; the one place where concrete types meet.
//!
//! Must stay true: exit code 0 means done, 1 means that something could not be done, 2 that the configuration (or the
//! command line) is wrong; what is wrong is said in sentences on standard error, what was asked for goes to standard output.

mod beside;
mod check;
mod doctor;
mod generate;
mod guarding;
mod handover;
mod keygen;
mod ledger;
mod look;
mod operate;
mod order;
mod reach;
mod reload;
mod screen;
mod serve;
mod succession;
pub mod warden;
mod ways_round;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use crate::config::{self, Problems, Settings};
use operate::Operate;
use reach::Reaching;

/// Governance for a Cube Sandbox node: ownership, quotas, leases and safe deletes for unmodified E2B clients.
#[derive(Parser)]
#[command(name = "cubewarden", version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Stand between clients and the Cube API until told to stop.
    ///
    /// SIGTERM or SIGINT: calls under way are finished, then it ends (a second one ends it at once).
    /// SIGHUP: limits, policies and tenants are read again, all or nothing.
    Serve {
        #[command(flatten)]
        configured: Configured,
        /// Take the listening sockets over from the process that serves at `listen.upgrade_socket`, which then ends.
        ///
        /// Nobody is refused in between: with a shared ledger both serve until the old one's clients have come over, with
        /// an embedded one new connections wait until the old process has finished and let go of it. If nobody is there,
        /// it starts as always.
        #[arg(long)]
        upgrade: bool,
    },
    /// Say which settings hold, and whether Cube and the ledger can be reached with them.
    Check {
        #[command(flatten)]
        configured: Configured,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Say whether this deployment is safe to enforce: what is found, how bad it is, and what to do.
    Doctor {
        #[command(flatten)]
        configured: Configured,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Move the ledger between stores, or look whether it is whole.
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Make a key for a tenant: the key itself, and its hash for the configuration.
    Keygen,
    #[command(flatten)]
    Operate(Operate),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages.
    Man {
        /// Where to.
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

/// Where the configuration stands.
#[derive(Args)]
struct Configured {
    /// The configuration file; without one, defaults and CUBEWARDEN_<SECTION>_<KEY> variables hold.
    #[arg(long, value_name = "FILE", env = "CUBEWARDEN_CONFIG")]
    config: Option<PathBuf>,
}

/// A configuration that cannot be used.
#[derive(Debug)]
enum BadConfiguration {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// What it says, or what the environment says, is wrong.
    Wrong(Option<PathBuf>, Problems),
}

impl fmt::Display for BadConfiguration {
    /// One line of heading, then one for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = match self {
            Self::Unreadable(file, error) => {
                return write!(f, "read the configuration {}: {error}", file.display());
            }
            Self::Wrong(Some(file), problems) => {
                write!(f, "the configuration {} cannot be used:", file.display())?;
                problems
            }
            Self::Wrong(None, problems) => {
                f.write_str("the configuration cannot be used:")?;
                problems
            }
        };
        problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for BadConfiguration {}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let done = match CommandLine::parse().command {
        Command::Serve { configured, upgrade } => serve::run(configured.config, upgrade),
        Command::Check { configured, json } => check::run(configured.config.as_deref(), json),
        Command::Doctor { configured, reaching } => doctor::run(configured.config.as_deref(), &reaching),
        Command::Ledger(command) => ledger::run(&command),
        Command::Keygen => keygen::run(),
        Command::Operate(operate) => operate.run(),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { directory } => generate::man(&directory),
    };
    done.unwrap_or_else(|error| {
        // `{:#}` is the whole chain as one sentence; a backtrace would tell an operator nothing.
        eprintln!("cubewarden: {error:#}");
        if error.is::<BadConfiguration>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

/// Reads the configuration: the file, if there is one, under the environment.
fn load(file: Option<&Path>) -> Result<Settings, BadConfiguration> {
    let owned = file.map(Path::to_owned);
    let text = match &owned {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| BadConfiguration::Unreadable(file.clone(), error))?,
        None => String::new(),
    };
    // Variables that are not Unicode cannot be ours.
    let unicode =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let env = std::env::vars_os().filter_map(unicode);
    config::load(&text, env).map_err(|problems| BadConfiguration::Wrong(owned, problems))
}

/// Writes what was asked for. A reader that has seen enough and left is no failure.
fn say(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("write to standard output")
        }
        _ => Ok(()),
    }
}
