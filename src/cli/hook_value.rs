//! The value of core.fsmonitor: what to write there, and whose a value is. Pure but for
//! finding the program's own path.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::problem::Problem;

/// The characters for which git gives a command to the shell (git: run-command.c,
/// `prepare_shell_cmd`).
const META: &[u8] = b"|&;<>()$`\\\"' \t\n*?[#~=%";

/// Whose a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Nobody's: git looks at everything by itself.
    Nobody,
    /// Ours: a path to a treewatch, perhaps another one than this.
    Ours,
    /// git's own daemon (git-fsmonitor--daemon(1)).
    BuiltIn,
    /// Another hook's.
    Other,
}

/// The value that makes git run the program at this absolute path.
pub fn value_for(program: &Path) -> OsString {
    let path = program.as_os_str().as_bytes();
    if !path.iter().any(|byte| META.contains(byte)) {
        return program.as_os_str().to_owned();
    }
    let mut quoted = vec![b'\''];
    for &byte in path {
        if byte == b'\'' {
            quoted.extend_from_slice(b"'\\''");
        } else {
            quoted.push(byte);
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

/// The program a value runs, if it is one path, quoted or not.
pub fn program_of(value: &OsStr) -> PathBuf {
    let bytes = value.as_bytes();
    let Some(inner) = bytes
        .strip_prefix(b"'")
        .and_then(|rest| rest.strip_suffix(b"'"))
    else {
        return PathBuf::from(value);
    };
    let mut path = Vec::new();
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match rest.strip_prefix(b"'\\''") {
            Some(after) => {
                path.push(b'\'');
                after
            }
            None => {
                path.push(byte);
                after
            }
        };
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Whose a value is. git reads booleans first (git: fsmonitor-settings.c).
pub fn whose(value: &OsStr) -> Whose {
    let is = |words: &[&str]| {
        words
            .iter()
            .any(|word| value.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
    };
    if is(&["false", "no", "off", "0", ""]) {
        return Whose::Nobody;
    }
    if is(&["true", "yes", "on", "1"]) {
        return Whose::BuiltIn;
    }
    let program = program_of(value);
    match program.file_name().map(OsStr::as_bytes) {
        Some(b"treewatch" | b"git-treewatch" | b"fsmonitor-treewatch") => Whose::Ours,
        _ => Whose::Other,
    }
}

/// The absolute path by which git is to run this program: the one in PATH, if it leads
/// here, since that stays right when the program is updated; else where it really is.
pub fn own_path() -> Result<PathBuf, Problem> {
    let cannot = |why: String| {
        Problem::new(format_args!("cannot tell where this program is: {why}"))
            .advice("Call it by its absolute path.")
    };
    let real = std::env::current_exe().map_err(|error| cannot(error.to_string()))?;
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let Some(own) = identity(&real) else {
        return Err(cannot(format!(
            "its file {} is gone; was it updated just now?",
            real.display()
        )));
    };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("treewatch"))
        .find(|path| path.exists())
        .filter(|path| identity(path) == Some(own));
    Ok(found.unwrap_or(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_when_the_shell_would_read_them() {
        let value = |path: &str| value_for(Path::new(path)).into_string().unwrap();
        assert_eq!(value("/usr/bin/treewatch"), "/usr/bin/treewatch");
        assert_eq!(value("/my dir/treewatch"), "'/my dir/treewatch'");
        assert_eq!(value("/it's/treewatch"), r"'/it'\''s/treewatch'");
        for path in [
            "/a/treewatch",
            "/a b/treewatch",
            "/it's $HOME/treewatch",
            "/'/'/x",
        ] {
            assert_eq!(program_of(&value_for(Path::new(path))), Path::new(path));
        }
    }

    #[test]
    fn a_value_is_somebodys() {
        for (value, who) in [
            ("", Whose::Nobody),
            ("false", Whose::Nobody),
            ("Off", Whose::Nobody),
            ("true", Whose::BuiltIn),
            ("/usr/bin/treewatch", Whose::Ours),
            ("'/my dir/treewatch'", Whose::Ours),
            (".git/hooks/fsmonitor-watchman", Whose::Other),
            ("/usr/bin/rs-git-fsmonitor", Whose::Other),
            ("treewatch --fast", Whose::Other),
        ] {
            assert_eq!(whose(OsStr::new(value)), who, "{value}");
        }
    }
}
