//! What the pages show is run: each page's `sh` blocks as one script, each Python and JavaScript block as a program.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Block, blocks, pages};
use crate::cube::CubeSim;
use crate::process::program::{Serving, Site};
use crate::support::repository::at;

/// The template that the simulator always has.
const TEMPLATE: &str = "tpl-000000000000000000000001";

/// A Cube, a warden before it, and a directory for what the pages put under `/etc`.
struct Stand {
    cube: CubeSim,
    site: Site,
    warden: Serving,
    scratch: tempfile::TempDir,
}

impl Stand {
    async fn new() -> Self {
        let cube = CubeSim::builder().start().await.unwrap();
        let site = Site::new(&cube.url(), "");
        let warden = site.ready().await;
        let scratch = tempfile::tempdir().unwrap();
        // `cubewarden` on the PATH, without a shell's environment for it to read.
        let program = scratch.path().join("cubewarden");
        let script = format!("#!/bin/sh\nexec env -i '{}' \"$@\"\n", env!("CARGO_BIN_EXE_cubewarden"));
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { cube, site, warden, scratch }
    }

    /// The page's words with this stand's addresses.
    fn here(&self, text: &str) -> String {
        let config = self.site.config();
        text.replace("http://127.0.0.1:3000", &self.warden.proxy)
            .replace("http://127.0.0.1:3001", &self.cube.url())
            .replace("http://127.0.0.1:9300", &self.warden.admin)
            .replace("/etc/cubewarden/cubewarden.toml", config.to_str().unwrap())
            .replace("your-template", TEMPLATE)
    }

    /// Where programs are found: ours first.
    fn path(&self) -> OsString {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let places = [self.scratch.path().to_owned()].into_iter().chain(std::env::split_paths(&others));
        std::env::join_paths(places).unwrap()
    }

    /// Runs a program that a page shows, pointed here as the pages say.
    async fn run(&self, mut command: Command, what: String) {
        command.env("PATH", self.path()).env("E2B_API_URL", &self.warden.proxy).env("E2B_API_KEY", "e2b_00");
        command.env("CUBE_API_URL", &self.warden.proxy).env("CUBE_API_KEY", "e2b_00");
        command.current_dir(self.scratch.path()).stdin(Stdio::null());
        let run = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
        let run: Output = run.unwrap_or_else(|error| panic!("{error}: {what}"));
        assert!(
            run.status.success(),
            "{what}\n{}",
            String::from_utf8_lossy(&[run.stdout, run.stderr].concat())
        );
    }
}

/// Something that `./dev setup` brings.
fn installed(path: &Path) -> PathBuf {
    assert!(path.exists(), "{} is missing: run ./dev setup", path.display());
    path.to_owned()
}

fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    // A command that fails ends the page.
    command.args(["-euo", "pipefail", "-c", script]).env("CURL_HOME", "/nonexistent");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn what_each_page_types_works() {
    let mut ran = 0;
    for page in pages() {
        let shown: Vec<Block> =
            blocks().into_iter().filter(|block| block.page == page && block.kind == "sh").collect();
        if shown.is_empty() {
            continue;
        }
        let stand = Stand::new().await;
        let script: String = shown.iter().map(|block| stand.here(&block.text)).collect();
        stand.run(bash(&script), format!("{page}\n{script}")).await;
        stand.warden.stop().await;
        ran += shown.len();
    }
    assert!(ran > 15, "only {ran} blocks were run");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pages_show_of_sdks_works_with_the_real_ones() {
    let stand = Stand::new().await;
    let mut ran = 0;
    for block in blocks() {
        let Some((language, name)) = block.kind.split_once(' ') else { continue };
        let text = stand.here(&block.text);
        let command = match language {
            "python" => {
                let mut python = Command::new(installed(&at(".dev/python").join(name).join("bin/python")));
                python.args(["-c", &text]);
                python
            }
            "js" => {
                let package =
                    installed(&at(".dev/js/node_modules").join(format!("e2b-{name}/dist/index.mjs")));
                let program = stand.scratch.path().join("shown.mjs");
                std::fs::write(&program, text.replace("'e2b'", &format!("'{}'", package.display()))).unwrap();
                let mut node = Command::new(installed(&at(".dev/bin/node")));
                node.arg(program);
                node
            }
            _ => continue,
        };
        stand.run(command, block.to_string()).await;
        ran += 1;
    }
    assert_eq!((ran, stand.cube.alive().len()), (4, 0), "each ends what it began");
    stand.warden.stop().await;
}
