//! A place of its own for each episode: worktree, neighbour, HOME, environment.

use crate::exec::{Executor, remove_all};
use crate::ops::{Bytes, IGNORES, Op, Untracked};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The settings of an episode that its seed decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub seed: u64,
    pub untracked_cache: bool,
    /// The mode compared, and `status.showUntrackedFiles`; None: a new one each time.
    pub untracked: Option<Untracked>,
    pub split_index: bool,
    /// Processes that work on the tree at once.
    pub procs: u8,
}

/// Where an episode happens and with what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Holds `t`, `out`, `home` and what the monitor needs.
    pub base: PathBuf,
    pub mmap_helper: Option<PathBuf>,
}

impl Place {
    pub fn worktree(&self) -> PathBuf {
        self.base.join("t")
    }

    /// `git`, in `dir`, with nothing of the user's environment that could reach it.
    pub fn git(&self, dir: &Path) -> Command {
        let mut git = Command::new("git");
        git.current_dir(dir);
        self.environment(&mut git);
        git
    }

    /// The environment of every program an episode runs.
    pub fn environment(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("GIT_") || name.starts_with("TREEWATCH_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", self.base.join("home"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", self.base.join("home/gitconfig"))
            .env("GIT_CEILING_DIRECTORIES", &self.base)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("PWD", self.worktree());
    }

    /// `git status` under the monitor. `locks`: may it write the index?
    pub fn status(&self, untracked: Untracked, locks: bool) -> Command {
        let mut git = self.git(&self.worktree());
        git.args(["status", "--porcelain=v1", "-z", untracked.flag()]);
        git.env("GIT_OPTIONAL_LOCKS", if locks { "1" } else { "0" });
        git.stdin(Stdio::null());
        git
    }

    /// Make the directories and HOME, but no repository.
    pub fn prepare(&self) -> std::io::Result<()> {
        for dir in ["t", "out", "home", "bin"] {
            fs::create_dir_all(self.base.join(dir))?;
        }
        fs::write(
            self.base.join("home/gitconfig"),
            "[user]\n\tname = Model\n\temail = model@example.org\n\
             [init]\n\tdefaultBranch = main\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n\
             [core]\n\tfsync = none\n\tlogAllRefUpdates = false\n\
             [advice]\n\taddEmbeddedRepo = false\n\
             [merge]\n\tstat = false\n[safe]\n\tdirectory = *\n",
        )
    }

    /// Make the repository every episode begins with, by operations, so that a list of
    /// operations says all there is to say.
    pub fn make_template(&self) -> std::io::Result<()> {
        self.prepare()?;
        let mut executor = Executor::new(self, false);
        for op in setup() {
            executor.run(&op);
        }
        Ok(())
    }

    /// Fill this place with a copy of the repository of `template`.
    pub fn copy_template(&self, template: &Self) -> std::io::Result<()> {
        self.prepare()?;
        fs::remove_dir(self.base.join("t"))?;
        let mut left = usize::MAX;
        crate::exec::copy_all(&template.worktree(), &self.worktree(), &mut left)
    }

    /// Set git configuration of the repository.
    pub fn configure(&self, settings: &[(String, String)]) -> std::io::Result<()> {
        use std::fmt::Write as _;
        let mut text = String::new();
        for (key, value) in settings {
            let (section, name) = key.split_once('.').unwrap_or((key, "x"));
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(text, "[{section}]\n\t{name} = \"{value}\"");
        }
        let path = self.worktree().join(".git/config");
        let old = fs::read_to_string(&path)?;
        fs::write(path, old + &text)
    }

    pub fn remove(&self) {
        let _ = remove_all(&self.base);
    }
}

/// The configuration an episode's settings ask for, without the monitor's.
pub fn configuration(settings: &Settings) -> Vec<(String, String)> {
    let mut all = vec![(
        "core.untrackedCache".to_owned(),
        settings.untracked_cache.to_string(),
    )];
    if let Some(untracked) = settings.untracked {
        let value = untracked.config().to_owned();
        all.push(("status.showUntrackedFiles".to_owned(), value));
    }
    if settings.split_index {
        all.push(("core.splitIndex".to_owned(), "true".to_owned()));
    }
    all
}

/// What makes the first repository: two branches that differ, directories with depth,
/// an ignore file.
pub fn setup() -> Vec<Op> {
    let git = |args: &str| Op::Git {
        dir: Bytes::of("t"),
        args: args.split(' ').map(Bytes::of).collect(),
    };
    let write = |path: &str, text: u32| Op::Write {
        path: Bytes::of(path),
        text,
    };
    let mut ops = vec![git("init -q")];
    let mut n = 0;
    for dir in [
        "t",
        "t/a",
        "t/a/b",
        "t/a/b/c",
        "t/b",
        "t/b/a",
        "t/c",
        "t/c/a/b/d",
        "t/d",
        "t/d/e",
    ] {
        ops.push(Op::MkdirAll {
            path: Bytes::of(dir),
        });
        for name in ["f", "g", "h"] {
            n += 1;
            ops.push(write(&format!("{dir}/{name}"), n));
        }
    }
    ops.push(write("t/.gitignore", IGNORES));
    ops.push(git("add -A"));
    ops.push(git("commit -q -m one"));
    ops.push(git("checkout -q -b side"));
    ops.push(write("t/a/f", 901));
    ops.push(write("t/a/b/new", 902));
    ops.push(Op::Unlink {
        path: Bytes::of("t/b/a/g"),
    });
    ops.push(Op::Rename {
        from: Bytes::of("t/d"),
        to: Bytes::of("t/e"),
    });
    ops.push(git("add -A"));
    ops.push(git("commit -q -m two"));
    ops.push(git("checkout -q main"));
    ops
}
