//! What the hook did and how long each step took, for whoever asks by `TREEWATCH_TRACE` or
//! `GIT_TRACE_FSMONITOR`.
//!
//! The values are those of git's own traces (git(1), `GIT_TRACE`): `1` or `true` for
//! stderr, `2` to `9` for that descriptor, an absolute path for a file to append to. Never
//! standard output, which is git's. With neither set it costs two looks into the
//! environment.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fmt::Arguments;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// A trace, or none.
pub struct Trace {
    sink: Option<Sink>,
}

struct Sink {
    to: To,
    last: Cell<Instant>,
}

enum To {
    Stderr,
    File(File),
}

impl Trace {
    /// As the environment says.
    pub fn from_environment() -> Self {
        let sink = ["TREEWATCH_TRACE", "GIT_TRACE_FSMONITOR"]
            .into_iter()
            .find_map(std::env::var_os)
            .and_then(|value| open(&value))
            .map(|to| Sink {
                to,
                last: Cell::new(Instant::now()),
            });
        Self { sink }
    }

    /// A step is done; it took the time since the last one.
    pub fn step(&self, what: Arguments<'_>) {
        let Some(sink) = &self.sink else {
            return;
        };
        let now = Instant::now();
        let took = now.duration_since(sink.last.replace(now));
        let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        // The date is of no use here, and git's lines have none either.
        let time = time.get(11..26).unwrap_or(&time);
        let line = format!(
            "{time} treewatch[{}]: {:9.3} ms  {what}\n",
            std::process::id(),
            took.as_secs_f64() * 1e3
        );
        // In one write, so that the lines of two processes do not mix.
        let _ = match &sink.to {
            To::Stderr => std::io::stderr().write_all(line.as_bytes()),
            To::File(file) => (&*file).write_all(line.as_bytes()),
        };
    }
}

/// Where a value says that the trace goes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Stderr,
    File(PathBuf),
}

fn place(value: &OsStr) -> Place {
    match value.as_bytes() {
        b"1" | b"2" => Place::Stderr,
        [digit @ b'3'..=b'9'] => {
            Place::File(PathBuf::from(format!("/dev/fd/{}", char::from(*digit))))
        }
        path if path.starts_with(b"/") => Place::File(Path::new(value).to_owned()),
        word if word.eq_ignore_ascii_case(b"true") => Place::Stderr,
        _ => Place::Nowhere,
    }
}

fn open(value: &OsStr) -> Option<To> {
    match place(value) {
        Place::Nowhere => None,
        Place::Stderr => Some(To::Stderr),
        Place::File(path) => {
            let file = File::options().append(true).create(true).open(path);
            file.ok().map(To::File)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_what_they_mean_to_git() {
        let place = |value: &str| place(OsStr::new(value));
        for nowhere in ["", "0", "false", "no", "relative/path", "10"] {
            assert_eq!(place(nowhere), Place::Nowhere, "{nowhere}");
        }
        for stderr in ["1", "2", "true", "TRUE"] {
            assert_eq!(place(stderr), Place::Stderr, "{stderr}");
        }
        assert_eq!(place("5"), Place::File("/dev/fd/5".into()));
        assert_eq!(place("/tmp/trace"), Place::File("/tmp/trace".into()));
    }
}
