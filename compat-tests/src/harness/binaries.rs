//! Our own programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Path of one of the workspace's release programs (`mqnamesrv`, `mqbroker`, `store-ctl`, ...).
///
/// # Panics
/// When it is not there and cannot be built.
pub fn binary(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let path = DIRECTORY.get_or_init(directory).join(name);
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

/// The workspace's root.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate inside the workspace")
}

/// The target directory of the running test: the parent of `debug/` or `release/`.
///
/// # Panics
/// When the test program is not where cargo puts it.
pub fn target() -> PathBuf {
    if let Some(path) = std::env::var_os("CARGO_TARGET_DIR") {
        return workspace().join(path);
    }
    let program = std::env::current_exe().expect("the path of this program");
    let deps = program.ancestors().find(|path| path.ends_with("deps")).unwrap_or(&program);
    deps.parent().and_then(Path::parent).expect("a target directory").to_owned()
}

fn directory() -> PathBuf {
    if let Some(path) = std::env::var_os("FERROMQ_BIN_DIR") {
        return PathBuf::from(path);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--workspace", "--quiet"])
        .current_dir(workspace())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build --release --workspace failed");
    target().join("release")
}
