//! `cubewarden ledger export | import | verify`: the ledger as text, out of a store and into another, and whether it is whole.
//!
//! Must stay true: nothing is written where a ledger is; what is wrong is printed with its key and what to do, and the exit
//! code is 1.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Subcommand;

use super::warden::open_store;
use super::{Configured, load, say};
use crate::ledger::{moving, verify};
use crate::store::Store;
use crate::store::schema::lines;
use crate::time::{Clock, WallClock};

/// What is done with the ledger. The embedded one must not be in use; on Redis, stop the wardens first.
#[derive(Subcommand)]
pub(super) enum LedgerCommand {
    /// Print the whole ledger, one JSON object a line.
    Export {
        #[command(flatten)]
        configured: Configured,
        /// Write it to this file instead, which must not exist.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Put an exported ledger into the store, which must be empty. One that was broken off goes on when it is run again.
    Import {
        #[command(flatten)]
        configured: Configured,
        /// The exported ledger; `-` reads standard input.
        file: PathBuf,
    },
    /// Look whether everything in the ledger is as it should be.
    Verify {
        #[command(flatten)]
        configured: Configured,
    },
}

/// Does it.
pub(super) fn run(command: &LedgerCommand) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(async {
        match command {
            LedgerCommand::Export { configured, output } => export(configured, output.as_deref()).await,
            LedgerCommand::Import { configured, file } => import(configured, file).await,
            LedgerCommand::Verify { configured } => verify(configured).await,
        }
    })
}

async fn store(configured: &Configured) -> anyhow::Result<Arc<dyn Store>> {
    let settings = load(configured.config.as_deref())?;
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    open_store(&settings.store, &clock).await.context("open the ledger")
}

async fn export(configured: &Configured, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text = moving::export(store(configured).await?.as_ref()).await.context("read the ledger")?;
    let written = lines::write(&text);
    match output {
        None => say(&written)?,
        Some(file) => {
            let write = || {
                let mut to = std::fs::File::create_new(file)?;
                std::io::Write::write_all(&mut to, written.as_bytes())?;
                to.sync_all()
            };
            write().with_context(|| format!("write {}", file.display()))?;
        }
    }
    eprintln!("exported {} records and {} decisions", text.records.len(), text.decisions.len());
    Ok(ExitCode::SUCCESS)
}

async fn import(configured: &Configured, file: &Path) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut from| from.read_to_string(&mut text))
    };
    read.with_context(|| format!("read {}", file.display()))?;
    // All of it before any of it is written.
    let text = lines::read(&text).with_context(|| format!("read {}", file.display()))?;
    let store = store(configured).await?;
    moving::import(store.as_ref(), &text).await.context("import the ledger")?;
    eprintln!("imported {} records and {} decisions", text.records.len(), text.decisions.len());
    Ok(ExitCode::SUCCESS)
}

async fn verify(configured: &Configured) -> anyhow::Result<ExitCode> {
    let content = moving::content(store(configured).await?.as_ref()).await.context("read the ledger")?;
    let problems = verify::problems(&content);
    for problem in &problems {
        say(&format!("{problem}\n"))?;
    }
    say(&format!("{} records, {} problems\n", content.records.len(), problems.len()))?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
