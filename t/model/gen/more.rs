//! The rest of the patterns: trees at once, kinds of files, permissions, names that
//! share a file, nested repositories.

use super::{Generator, MODES};
use crate::ops::{Bytes, IGNORES, Op};
use rand::RngExt;

impl Generator {
    pub(super) fn shrink(&mut self, ops: &mut Vec<Op>) {
        if self.chance(20) {
            let git = |args: &str| Op::Git {
                dir: Bytes::of("t"),
                args: args.split(' ').map(Bytes::of).collect(),
            };
            ops.push(git("reset -q --hard"));
            ops.push(git("clean -qfdx"));
        } else {
            let path = self.deep_dir();
            ops.push(Op::RemoveAll { path });
        }
    }

    pub(super) fn grow(&mut self, ops: &mut Vec<Op>) {
        if self.chance(50) {
            let args = ["reset", "-q", "--hard"].map(Bytes::of).to_vec();
            ops.push(Op::Git {
                dir: Bytes::of("t"),
                args,
            });
        } else {
            self.tree_at_once(ops);
        }
    }

    pub(super) fn tree_at_once(&mut self, ops: &mut Vec<Op>) {
        let text = self.number();
        let to = self.dir_place();
        if self.chance(40) {
            let from = Bytes::of("out/built");
            ops.push(Op::MakeTree {
                path: from.clone(),
                text,
            });
            ops.push(Op::Rename {
                from,
                to: to.clone(),
            });
        } else {
            ops.push(Op::MakeTree {
                path: to.clone(),
                text,
            });
        }
        match self.rng.random_range(0..4) {
            0 => ops.push(self.write(to.join(b"f1"))),
            1 => ops.push(self.write(to.join(b"d0/f0"))),
            2 => ops.push(Op::RemoveAll { path: to }),
            _ => {}
        }
    }

    pub(super) fn copy_tree(&mut self, ops: &mut Vec<Op>) {
        let from = match self.chance(25) {
            true => self.pick(|v| &v.out_dirs).unwrap_or_else(|| self.subdir()),
            false => self.subdir(),
        };
        let to = match self.chance(10) {
            true => self.out_place(),
            false => self.dir_place(),
        };
        ops.push(Op::CopyAll {
            from: from.clone(),
            to: to.clone(),
        });
        if self.chance(40) {
            self.edit_below(&from, &to, ops);
        }
    }

    pub(super) fn remove_tree(&mut self, ops: &mut Vec<Op>) {
        let path = self.subdir();
        ops.push(Op::RemoveAll { path });
    }

    pub(super) fn remove_and_make_anew(&mut self, ops: &mut Vec<Op>) {
        let dir = self.subdir();
        ops.push(Op::RemoveAll { path: dir.clone() });
        ops.push(Op::Mkdir { path: dir.clone() });
        let inner = match self.chance(50) {
            true => dir.join(self.dir_name()),
            false => dir.clone(),
        };
        ops.push(Op::MkdirAll {
            path: inner.clone(),
        });
        let name = self.file_name();
        ops.push(self.write(inner.join(name)));
    }

    pub(super) fn make_deep(&mut self, ops: &mut Vec<Op>) {
        let mut path = self.dir();
        for _ in 0..self.rng.random_range(2..9) {
            path = path.join(self.dir_name());
        }
        ops.push(Op::MkdirAll { path: path.clone() });
        if self.chance(85) {
            let name = self.file_name();
            ops.push(self.write(path.join(name)));
        }
        if self.chance(30) {
            ops.push(Op::RemoveAll {
                path: path.parent(),
            });
        }
    }

    pub(super) fn swap_kinds(&mut self, ops: &mut Vec<Op>) {
        let path = match self.chance(50) {
            true => self.file(),
            false => self.subdir(),
        };
        ops.push(match self.chance(50) {
            true => Op::RemoveAll { path: path.clone() },
            false => Op::Rename {
                from: path.clone(),
                to: self.dir_place(),
            },
        });
        match self.rng.random_range(0..5) {
            0 => ops.push(self.write(path)),
            1 => {
                ops.push(Op::Mkdir { path: path.clone() });
                let name = self.file_name();
                ops.push(self.write(path.join(name)));
            }
            2 => {
                let target = self.target(&path);
                ops.push(Op::Symlink { target, path });
            }
            3 => {
                let text = self.number();
                ops.push(Op::MakeTree { path, text });
            }
            _ => ops.push(Op::Fifo { path }),
        }
    }

    /// Something for a symlink to name: a thing in the worktree, outside it, or nothing.
    fn target(&mut self, link: &Bytes) -> Bytes {
        let depth = link.0.iter().filter(|&&b| b == b'/').count();
        let up = "../".repeat(depth);
        let to = match self.rng.random_range(0..5) {
            0 => Bytes::of("out"),
            1 => self.file(),
            2 => Bytes::of("t/none"),
            _ => self.subdir(),
        };
        Bytes([up.as_bytes(), &to.0].concat())
    }

    pub(super) fn symlinks(&mut self, ops: &mut Vec<Op>) {
        let path = self.file_place();
        let target = self.target(&path);
        ops.push(Op::Symlink {
            target,
            path: path.clone(),
        });
        if self.chance(40) {
            // Through the link, if it leads to a directory.
            let name = self.file_name();
            ops.push(self.write(path.join(name)));
        }
        if self.chance(20) {
            let to = self.file_place();
            ops.push(Op::Rename { from: path, to });
        }
    }

    pub(super) fn chmod_file(&mut self, ops: &mut Vec<Op>) {
        let path = self.file();
        let mode = [0o755, 0o644, 0o755, 0o600, 0o000][self.rng.random_range(0..5)];
        ops.push(Op::Chmod { path, mode });
    }

    pub(super) fn chmod_dir(&mut self, ops: &mut Vec<Op>) {
        let path = self.subdir();
        let mode = MODES[self.rng.random_range(0..MODES.len())];
        if self.chance(40) {
            self.edit_below(&path, &path, ops);
        }
        ops.push(Op::Chmod {
            path: path.clone(),
            mode,
        });
        match self.rng.random_range(0..5) {
            0 => {
                let to = self.dir_place();
                ops.push(Op::Rename { from: path, to });
            }
            1 | 2 => {
                self.edit(ops);
                ops.push(Op::Chmod {
                    path: path.clone(),
                    mode: 0o755,
                });
                self.edit_below(&path, &path, ops);
            }
            _ => {}
        }
    }

    pub(super) fn links(&mut self, ops: &mut Vec<Op>) {
        let from = self.file();
        let to = self.file_place();
        ops.push(Op::Link {
            from: from.clone(),
            to: to.clone(),
        });
        match self.rng.random_range(0..6) {
            0 => ops.push(self.write(from)),
            1 => ops.push(self.write(to)),
            2 => ops.push(Op::Unlink { path: from }),
            3 => ops.push(Op::Chmod {
                path: to,
                mode: 0o755,
            }),
            _ => {}
        }
    }

    fn next_slot(&mut self) -> u8 {
        self.slot = self.slot.wrapping_add(1);
        self.slot
    }

    /// A write through a mapping, with something else before it.
    pub(super) fn mapping(&mut self, ops: &mut Vec<Op>) {
        let path = self.file();
        let slot = self.next_slot();
        ops.push(Op::MapOpen {
            slot,
            path: path.clone(),
        });
        self.in_between(&path, ops);
        ops.push(Op::MapWrite { slot });
    }

    /// A file held open while its name goes elsewhere.
    pub(super) fn held(&mut self, ops: &mut Vec<Op>) {
        let path = self.file();
        let slot = self.next_slot();
        ops.push(Op::Hold {
            slot,
            path: path.clone(),
        });
        self.in_between(&path, ops);
        let text = self.number();
        ops.push(Op::HeldWrite { slot, text });
    }

    fn in_between(&mut self, path: &Bytes, ops: &mut Vec<Op>) {
        match self.rng.random_range(0..6) {
            0 => self.edit(ops),
            1 => {
                let to = self.file_place();
                ops.push(Op::Rename {
                    from: path.clone(),
                    to,
                });
            }
            2 if path.parent().0 != b"t" => {
                let to = self.dir_place();
                ops.push(Op::Rename {
                    from: path.parent(),
                    to,
                });
            }
            3 => ops.push(Op::Status {
                untracked: crate::ops::Untracked::All,
                locks: true,
            }),
            _ => {}
        }
    }

    /// Repositories inside the worktree come, go, move and change kind.
    pub(super) fn nested(&mut self, ops: &mut Vec<Op>) {
        let found = self.pick(|v| &v.nested);
        match (self.rng.random_range(0..6), found) {
            (0 | 1, Some(git)) => ops.push(Op::RemoveAll { path: git }),
            (2, Some(git)) => ops.push(Op::RemoveAll { path: git.parent() }),
            (3, Some(git)) => {
                let to = self.dir_place();
                ops.push(Op::Rename {
                    from: git.parent(),
                    to,
                });
            }
            (4, Some(git)) => {
                // The same name, now an ordinary thing, or a directory of git's no more.
                ops.push(Op::Rename {
                    from: git.clone(),
                    to: git.parent().join(b"was-git"),
                });
            }
            _ => {
                let dir = self.subdir();
                let run = |args: &str| Op::Git {
                    dir: dir.clone(),
                    args: args.split(' ').map(Bytes::of).collect(),
                };
                ops.push(run("init -q ."));
                if self.chance(50) {
                    ops.push(run("add ."));
                    ops.push(run("commit -q -m nested"));
                }
            }
        }
    }

    pub(super) fn ignore_file(&mut self, ops: &mut Vec<Op>) {
        let path = self.dir().join(b".gitignore");
        match self.rng.random_range(0..6) {
            0 => ops.push(Op::Unlink { path }),
            1 => {
                let to = self.dir().join(b".gitignore");
                ops.push(Op::Rename { from: path, to });
            }
            _ => {
                let text = IGNORES + self.rng.random_range(0..12);
                ops.push(Op::Write { path, text });
            }
        }
    }

    /// What a build leaves behind: in an ignored directory, or ignored by its name.
    pub(super) fn ignored_output(&mut self, ops: &mut Vec<Op>) {
        let dir = self.dir().join(b"build");
        ops.push(Op::MkdirAll { path: dir.clone() });
        for name in [&b"x.o"[..], b"f", b"d"] {
            ops.push(self.write(dir.join(name)));
        }
        if self.chance(20) {
            ops.push(Op::RemoveAll { path: dir });
        }
    }
}
