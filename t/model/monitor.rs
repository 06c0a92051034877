//! What stands behind `core.fsmonitor` in an episode: treewatch with one of its
//! backends, a peer, or one of the hooks of this test itself.

use crate::sandbox::Place;
use crate::self_hook;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The monitor of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// treewatch on inotify.
    Inotify,
    /// treewatch on the notify crate.
    Notify,
    /// No monitor: git against itself.
    None,
    /// A hook that always answers `/`. Must fail: the floor on exact answers.
    Slash,
    /// A hook that compares pictures of the tree: exact by construction, and slow.
    Ideal,
    /// `ideal`, one path in fifty left out. Must fail.
    Lossy,
    /// treewatch on inotify, its `/` turned into all names there are.
    Widened,
    /// Watchman with git's sample hook.
    Watchman,
    /// The built-in daemon of the git that is found.
    Builtin,
}

impl Backend {
    pub fn name(self) -> &'static str {
        match self {
            Self::Inotify => "inotify",
            Self::Notify => "notify",
            Self::None => "none",
            Self::Slash => "slash",
            Self::Ideal => "ideal",
            Self::Lossy => "lossy",
            Self::Widened => "widened",
            Self::Watchman => "watchman",
            Self::Builtin => "builtin",
        }
    }

    pub fn is_treewatch(self) -> bool {
        matches!(self, Self::Inotify | Self::Notify)
    }

    /// The least share of exact answers, in percent. A program that always answers `/`
    /// is never wrong, and useless.
    pub fn floor(self) -> u64 {
        match self {
            Self::Inotify | Self::Slash => 60,
            // Half its answers are `/` by nature: see the text of its module.
            Self::Notify => 20,
            _ => 0,
        }
    }
}

/// The programs of a run, copied to where an ordinary user can run them.
#[derive(Clone, Debug)]
pub struct Programs {
    /// This test.
    pub model: PathBuf,
    pub treewatch: Option<PathBuf>,
}

/// How many answers were exact, and how many `/`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    pub exact: u64,
    pub full: u64,
}

/// A monitor set up in one place.
pub struct Monitor<'a> {
    pub backend: Backend,
    place: &'a Place,
    programs: &'a Programs,
    server: Option<Child>,
}

impl<'a> Monitor<'a> {
    /// Put `backend` into the configuration of the place's repository and start what has
    /// to be started. treewatch starts by itself, at the first query.
    pub fn start(
        backend: Backend,
        place: &'a Place,
        programs: &'a Programs,
    ) -> std::io::Result<Self> {
        let mut monitor = Self {
            backend,
            place,
            programs,
            server: None,
        };
        let mut config = Vec::new();
        let mut set = |key: &str, value: String| config.push((key.to_owned(), value));
        match backend {
            Backend::None => {}
            Backend::Inotify | Backend::Notify => {
                set("core.fsmonitor", shell_quoted(monitor.treewatch()?));
                set("treewatch.backend", backend.name().to_owned());
                set("treewatch.idleTimeout", "600".to_owned());
            }
            Backend::Slash | Backend::Ideal | Backend::Lossy | Backend::Widened => {
                fs::create_dir_all(place.base.join("hook"))?;
                let script = format!(
                    "exec '{}' {} {} '{}' \"$@\"",
                    programs.model.display(),
                    self_hook::FLAG,
                    backend.name(),
                    place.base.join("hook").display(),
                );
                set("core.fsmonitor", monitor.script("hook-script", &script)?);
            }
            Backend::Builtin => set("core.fsmonitor", "true".to_owned()),
            Backend::Watchman => {
                set("core.fsmonitor", monitor.watchman()?);
                set("core.fsmonitorHookVersion", "2".to_owned());
            }
        }
        place.configure(&config)?;
        Ok(monitor)
    }

    fn treewatch(&self) -> std::io::Result<&Path> {
        let missing = || std::io::Error::other("no treewatch: build it, or set TREEWATCH");
        self.programs.treewatch.as_deref().ok_or_else(missing)
    }

    fn script(&self, name: &str, line: &str) -> std::io::Result<String> {
        let path = self.place.base.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{line}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    }

    /// Watchman with a state of its own, and git's sample hook made to find it.
    fn watchman(&mut self) -> std::io::Result<String> {
        let dir = self.place.base.join("wm");
        fs::create_dir_all(&dir)?;
        let d = dir.display();
        let options = format!("-U {d}/sock -o {d}/log --statefile {d}/state --pidfile {d}/pid");
        let quoted = format!("exec /usr/bin/watchman {options} --no-spawn \"$@\"");
        let client = self.script("watchman", &quoted)?;
        let mut server = Command::new("/usr/bin/watchman");
        server.args(options.split(' ')).args(["-f", "-n"]);
        server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.place.environment(&mut server);
        self.server = Some(server.spawn()?);
        poll("watchman answers", || {
            let mut ask = Command::new(&client);
            ask.arg("version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            ask.status().is_ok_and(|s| s.success())
        })?;
        let sample = self
            .place
            .worktree()
            .join(".git/hooks/fsmonitor-watchman.sample");
        let bin = self.place.base.join("bin");
        let line = format!(
            "PATH='{}':\"$PATH\" exec '{}' \"$@\"",
            bin.display(),
            sample.display()
        );
        self.script("hook-script", &line)
    }

    /// The hook as git would call it with `token`; None if it cannot be asked alone.
    pub fn hook(&self, token: &str) -> Option<Command> {
        let program = match self.backend {
            Backend::Inotify | Backend::Notify => self.programs.treewatch.clone()?,
            Backend::Ideal | Backend::Lossy | Backend::Slash => {
                self.place.base.join("bin/hook-script")
            }
            _ => return None,
        };
        let mut hook = Command::new(program);
        hook.args(["2", token]).current_dir(self.place.worktree());
        self.place.environment(&mut hook);
        hook.stdin(Stdio::null());
        Some(hook)
    }

    /// How the monitor says it answered so far.
    pub fn answers(&self) -> Option<Answers> {
        if matches!(
            self.backend,
            Backend::Ideal | Backend::Lossy | Backend::Slash
        ) {
            return self_hook::answers(&self.place.base.join("hook"));
        }
        if !self.backend.is_treewatch() {
            return None;
        }
        let mut ask = Command::new(self.programs.treewatch.as_ref()?);
        ask.args(["status", "--json"])
            .current_dir(self.place.worktree());
        self.place.environment(&mut ask);
        let out = ask.stdin(Stdio::null()).output().ok()?;
        let status: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
        Some(Answers {
            exact: status["exact_answers"].as_u64()?,
            full: status["full_answers"].as_u64()?,
        })
    }

    /// Stop whatever was started for this place.
    pub fn stop(&mut self) -> Result<(), String> {
        match self.backend {
            Backend::Inotify | Backend::Notify | Backend::Widened => {
                let program = self.treewatch().map_err(|e| e.to_string())?;
                let mut stop = Command::new(program);
                stop.arg("stop").arg(self.place.worktree());
                self.place.environment(&mut stop);
                let out = stop
                    .stdin(Stdio::null())
                    .output()
                    .map_err(|e| e.to_string())?;
                let text = String::from_utf8_lossy(&out.stderr).into_owned();
                if !out.status.success() {
                    return Err(format!("treewatch stop: {}: {text}", out.status));
                }
            }
            Backend::Builtin => {
                let mut stop = self.place.git(&self.place.worktree());
                stop.args(["fsmonitor--daemon", "stop"]);
                stop.stdout(Stdio::null()).stderr(Stdio::null());
                let _ = stop.status();
            }
            Backend::Watchman => {
                let mut stop = Command::new(self.place.base.join("bin/watchman"));
                stop.arg("shutdown-server").stdout(Stdio::null());
                let _ = stop.status();
                if let Some(mut server) = self.server.take() {
                    let _ = server.wait();
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Quote for the shell, only where it is needed: git runs a value without shell
/// characters itself.
fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Wait until `condition` holds, a minute at most.
pub fn poll(what: &str, mut condition: impl FnMut() -> bool) -> std::io::Result<()> {
    let limit = Instant::now() + Duration::from_secs(60);
    while !condition() {
        if Instant::now() > limit {
            return Err(std::io::Error::other(format!("waited a minute: {what}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Processes that run the program at `path`.
pub fn running(path: &Path) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        if fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == path) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}
