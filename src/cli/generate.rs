//! What is made from the command line's own description: completions for shells, and manual pages.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{CommandLine, say};

/// `cubewarden completions <shell>`.
pub(super) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "cubewarden", &mut text);
    say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// `cubewarden man <dir>`: one page for the program, one for each command.
pub(super) fn man(directory: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    let command = CommandLine::command().disable_help_subcommand(true);
    let written = clap_mangen::generate_to(command, directory);
    written.with_context(|| format!("write the manual pages into {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
