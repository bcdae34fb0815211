//! One arm for each command that talks to a running warden.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;

use super::look::{self, Decided, Listed, Which};
use super::order::{self, Hold, Kill, Release};
use super::reach::Reaching;
use super::say;

/// Commands that talk to a running warden.
#[derive(Subcommand)]
pub(super) enum Operate {
    /// List buckets, or the sandboxes that hold a slot.
    Ls {
        /// What is listed.
        #[arg(value_enum, default_value_t = Listed::Buckets)]
        what: Listed,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Say why a sandbox is kept, would be ended or has ended, or a call was refused, and what would change that.
    Explain {
        /// A sandbox id in any form, an owner id, a marker, or a request id.
        #[arg(value_name = "SANDBOX|OWNER|MARKER|REQUEST")]
        name: String,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Show what the next sweep would end, and why.
    Plan {
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Show how the collector fares, and what its next sweep would do.
    Sweep {
        /// Only show it: wardens sweep by themselves.
        #[arg(long, required = true)]
        plan: bool,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// End a sandbox.
    Kill {
        #[command(flatten)]
        kill: Kill,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Keep a sandbox from every decision of the warden, until it is taken back.
    Hold {
        #[command(flatten)]
        hold: Hold,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Take a hold back.
    Unhold {
        /// The sandbox (or marker).
        sandbox: String,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Let what was found, not made through the warden, be judged like all others.
    Release {
        #[command(flatten)]
        release: Release,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Show the decision log: who was admitted or refused, what ended, who wanted it, and why.
    Decisions {
        #[command(flatten)]
        decided: Decided,
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Say what enforcing would have refused, changed and ended, and how often that would have been wrong.
    Shadow {
        #[command(flatten)]
        reaching: Reaching,
    },
    /// Take a warden out of service: it is not ready any more, and whoever waits is sent elsewhere.
    Drain {
        #[command(flatten)]
        reaching: Reaching,
    },
}

impl Operate {
    fn reaching(&self) -> &Reaching {
        match self {
            Self::Ls { reaching, .. }
            | Self::Explain { reaching, .. }
            | Self::Plan { reaching }
            | Self::Sweep { reaching, .. }
            | Self::Kill { reaching, .. }
            | Self::Hold { reaching, .. }
            | Self::Unhold { reaching, .. }
            | Self::Release { reaching, .. }
            | Self::Decisions { reaching, .. }
            | Self::Shadow { reaching }
            | Self::Drain { reaching } => reaching,
        }
    }

    /// Asks the warden, and says what it answered.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("start the runtime")?.block_on(self.ask())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn ask(&self) -> anyhow::Result<()> {
        let json = self.reaching().json;
        let warden = self.reaching().open()?;
        let text = match self {
            Self::Ls { what, which, .. } => look::ls(&warden, *what, which, json).await?,
            Self::Explain { name, .. } => look::explain(&warden, name, json).await?,
            Self::Plan { .. } => look::plan(&warden, json).await?,
            Self::Sweep { .. } => look::sweep(&warden, json).await?,
            Self::Kill { kill, .. } => order::kill(&warden, kill, json).await?,
            Self::Hold { hold, .. } => order::hold(&warden, hold, json).await?,
            Self::Unhold { sandbox, .. } => order::unhold(&warden, sandbox, json).await?,
            Self::Release { release, .. } => order::release(&warden, release, json).await?,
            Self::Decisions { decided, .. } => return look::decisions(&warden, decided, json, say).await,
            Self::Shadow { .. } => look::shadow(&warden, json).await?,
            Self::Drain { .. } => order::drain(&warden, json).await?,
        };
        say(&text)
    }
}
