//! Running cargo and other programs in the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    target_below(root(), std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))
}

fn target_below(root: &Path, chosen: Option<PathBuf>) -> PathBuf {
    // A relative CARGO_TARGET_DIR counts from where cargo runs, which is the root.
    chosen.map_or_else(|| root.join("target"), |chosen| root.join(chosen))
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).as_ref())
}

/// A program that works in the root of the workspace.
pub(crate) fn program(name: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Runs a command with its output going to the terminal. The error says what failed.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    println!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// Runs a command and returns what it printed. The error carries its complaint.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = show(command);
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{shown}: {}\n{}", output.status, complaint.trim_end()));
    }
    // java -version prints to the standard error.
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

fn show(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(name).chain(command.get_args()).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_complaint() {
        let error = output(Command::new("sh").args(["-c", "echo bad luck >&2; exit 3"])).unwrap_err();
        assert!(error.starts_with("sh -c") && error.contains("3") && error.ends_with("bad luck"), "{error}");
        assert!(run(Command::new("sh").args(["-c", "exit 1"])).is_err());
        assert!(run(&mut Command::new("/no/such/program")).is_err());
        assert_eq!(output(Command::new("sh").args(["-c", "echo out; echo err >&2"])).unwrap(), "out\nerr\n");
    }

    #[test]
    fn the_target_directory_is_absolute() {
        let root = Path::new("/w");
        assert_eq!(target_below(root, None), Path::new("/w/target"));
        assert_eq!(target_below(root, Some("t".into())), Path::new("/w/t"));
        assert_eq!(target_below(root, Some("/t".into())), Path::new("/t"));
        assert!(target().is_absolute() && super::root().join("xtask/Cargo.toml").exists());
    }
}
