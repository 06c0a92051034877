//! The generator: what is done next, chosen by a random number and by what lies on the
//! disk. Weighted towards what has broken file-system monitors: directories renamed,
//! names that come back, trees that appear at once.

use crate::git_ops;
use crate::ops::{Bytes, Op};
use crate::tree::View;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Above this many files what removes is chosen more often.
const MANY: usize = 260;
/// Below this many what makes.
const FEW: usize = 40;

const DIR_NAMES: [&[u8]; 9] = [b"a", b"b", b"c", b"d", b"e", b"a", b"b", b"new\ndir", b"-d"];
const FILE_NAMES: [&[u8]; 12] = [
    b"f",
    b"g",
    b"h",
    b"f",
    b"g",
    b"new",
    b"x.o",
    b"\xff\xfe",
    b"-n",
    b"a\"q",
    b"two\nlines",
    b"d",
];
const MODES: [u32; 8] = [0o000, 0o300, 0o500, 0o555, 0o444, 0o111, 0o700, 0o600];

/// Chooses operations. The same numbers and the same tree give the same operations.
pub struct Generator {
    pub rng: ChaCha8Rng,
    view: View,
    /// Names made lately, to come back to.
    slot: u8,
    /// Share of git commands, in percent of the patterns.
    pub git_share: u32,
}

type Pattern = fn(&mut Generator, &mut Vec<Op>);

/// Patterns and their weights.
const PATTERNS: &[(u32, Pattern)] = &[
    (18, Generator::edit),
    (6, Generator::new_file),
    (4, Generator::delete_file),
    (4, Generator::rename_file),
    (10, Generator::rename_dir),
    (8, Generator::rename_and_edit_below),
    (6, Generator::rename_chain),
    (5, Generator::rename_swap),
    (6, Generator::exchange),
    (4, Generator::rename_over_empty),
    (8, Generator::rename_and_make_anew),
    (4, Generator::rename_up_and_down),
    (2, Generator::move_out),
    (5, Generator::move_in),
    (2, Generator::out_and_back),
    (4, Generator::build_outside),
    (5, Generator::tree_at_once),
    (5, Generator::copy_tree),
    (5, Generator::remove_tree),
    (5, Generator::remove_and_make_anew),
    (5, Generator::make_deep),
    (7, Generator::swap_kinds),
    (3, Generator::symlinks),
    (3, Generator::chmod_file),
    (4, Generator::chmod_dir),
    (3, Generator::links),
    (2, Generator::mapping),
    (3, Generator::held),
    (4, Generator::nested),
    (3, Generator::ignore_file),
    (2, Generator::ignored_output),
];

impl Generator {
    pub fn new(rng: ChaCha8Rng, git_share: u32) -> Self {
        Self {
            rng,
            view: View::default(),
            slot: 0,
            git_share,
        }
    }

    /// The next few operations, given what lies on the disk now.
    pub fn next(&mut self, view: View) -> Vec<Op> {
        self.view = view;
        let mut ops = Vec::new();
        let files = self.view.files.len();
        if files > MANY && self.chance(40) {
            self.shrink(&mut ops);
        } else if files < FEW && self.chance(40) {
            self.grow(&mut ops);
        } else if !self.view.closed.is_empty() && self.chance(15) {
            for path in self.view.closed.clone() {
                ops.push(Op::Chmod { path, mode: 0o755 });
            }
        } else if self.rng.random_range(0..100) < self.git_share {
            git_ops::command(&mut self.rng, &self.view, &mut ops);
        } else {
            let all: u32 = PATTERNS.iter().map(|(weight, _)| weight).sum();
            let mut at = self.rng.random_range(0..all);
            for (weight, pattern) in PATTERNS {
                if at < *weight {
                    pattern(self, &mut ops);
                    break;
                }
                at -= weight;
            }
        }
        ops
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn pick(&mut self, from: fn(&View) -> &Vec<Bytes>) -> Option<Bytes> {
        let all = from(&self.view);
        if all.is_empty() {
            return None;
        }
        let n = self.rng.random_range(0..all.len());
        Some(from(&self.view)[n].clone())
    }

    /// A directory of the worktree, sometimes its top.
    fn dir(&mut self) -> Bytes {
        if self.chance(15) {
            return Bytes::of("t");
        }
        self.pick(|v| &v.dirs).unwrap_or_else(|| Bytes::of("t"))
    }

    /// A directory below the top; one that need not be there, if there is none.
    fn subdir(&mut self) -> Bytes {
        self.pick(|v| &v.dirs).unwrap_or_else(|| Bytes::of("t/a"))
    }

    /// A directory that has others in it, if one is soon found.
    fn deep_dir(&mut self) -> Bytes {
        for _ in 0..4 {
            let dir = self.subdir();
            let deep = |d: &Bytes| d.0 != dir.0 && d.within(&dir);
            if self.view.dirs.iter().any(deep) {
                return dir;
            }
        }
        self.subdir()
    }

    fn file(&mut self) -> Bytes {
        self.pick(|v| &v.files).unwrap_or_else(|| Bytes::of("t/f"))
    }

    fn dir_name(&mut self) -> &'static [u8] {
        DIR_NAMES[self.rng.random_range(0..DIR_NAMES.len())]
    }

    fn file_name(&mut self) -> &'static [u8] {
        FILE_NAMES[self.rng.random_range(0..FILE_NAMES.len())]
    }

    /// A place for a directory; it may be taken.
    fn dir_place(&mut self) -> Bytes {
        let name = self.dir_name();
        self.dir().join(name)
    }

    fn file_place(&mut self) -> Bytes {
        let name = self.file_name();
        self.dir().join(name)
    }

    fn out_place(&mut self) -> Bytes {
        let name = self.dir_name();
        Bytes::of("out").join(name)
    }

    fn number(&mut self) -> u32 {
        self.rng.random_range(0..400_000)
    }

    fn write(&mut self, path: Bytes) -> Op {
        let text = self.number();
        Op::Write { path, text }
    }

    /// Change something below `dir` as it will be named after `old` became `dir`: a file
    /// that is there, or a new one as deep as the directories go.
    fn edit_below(&mut self, old: &Bytes, dir: &Bytes, ops: &mut Vec<Op>) {
        let below = |p: &&Bytes| p.0 != old.0 && p.within(old);
        let files: Vec<_> = self.view.files.iter().filter(below).cloned().collect();
        let dirs: Vec<_> = self.view.dirs.iter().filter(below).cloned().collect();
        let moved = |p: &Bytes| Bytes([&dir.0[..], &p.0[old.0.len()..]].concat());
        for _ in 0..self.rng.random_range(1..3) {
            if !files.is_empty() && self.chance(60) {
                let file = &files[self.rng.random_range(0..files.len())];
                let text = self.number();
                let path = moved(file);
                ops.push(match self.rng.random_range(0..4) {
                    0 => Op::Append { path, text },
                    1 => Op::Unlink { path },
                    2 => Op::Replace { path, text },
                    _ => Op::Write { path, text },
                });
            } else {
                let parent = match dirs.len() {
                    0 => dir.clone(),
                    n => moved(&dirs[self.rng.random_range(0..n)]),
                };
                let name = self.file_name();
                ops.push(self.write(parent.join(name)));
            }
        }
    }

    fn edit(&mut self, ops: &mut Vec<Op>) {
        let path = self.file();
        let text = self.number();
        ops.push(match self.rng.random_range(0..8) {
            0 => Op::Append { path, text },
            1 => Op::Replace { path, text },
            2 => Op::Touch { path },
            _ => Op::Write { path, text },
        });
    }

    fn new_file(&mut self, ops: &mut Vec<Op>) {
        let path = self.file_place();
        ops.push(self.write(path));
    }

    fn delete_file(&mut self, ops: &mut Vec<Op>) {
        let path = match self.chance(20) {
            true => self.pick(|v| &v.others).unwrap_or_else(|| self.file()),
            false => self.file(),
        };
        ops.push(Op::Unlink { path: path.clone() });
        if self.chance(30) {
            ops.push(self.write(path));
        }
    }

    fn rename_file(&mut self, ops: &mut Vec<Op>) {
        let from = self.file();
        let to = match self.chance(30) {
            true => self.file(),
            false => self.file_place(),
        };
        ops.push(Op::Rename { from, to });
    }

    fn rename_dir(&mut self, ops: &mut Vec<Op>) {
        let from = self.subdir();
        let to = self.dir_place();
        ops.push(Op::Rename { from, to });
    }

    fn rename_and_edit_below(&mut self, ops: &mut Vec<Op>) {
        let from = self.deep_dir();
        let to = self.dir_place();
        ops.push(Op::Rename {
            from: from.clone(),
            to: to.clone(),
        });
        self.edit_below(&from, &to, ops);
    }

    fn rename_chain(&mut self, ops: &mut Vec<Op>) {
        let first = self.deep_dir();
        let mut at = first.clone();
        for _ in 0..self.rng.random_range(2..5) {
            let to = self.dir_place();
            ops.push(Op::Rename {
                from: at,
                to: to.clone(),
            });
            if self.chance(60) {
                self.edit_below(&first, &to, ops);
            }
            at = to;
        }
    }

    fn rename_swap(&mut self, ops: &mut Vec<Op>) {
        let (a, b) = (self.subdir(), self.subdir());
        let aside = match self.chance(20) {
            true => Bytes::of("out/aside"),
            false => self.dir().join(b"aside"),
        };
        ops.push(Op::Rename {
            from: a.clone(),
            to: aside.clone(),
        });
        ops.push(Op::Rename {
            from: b.clone(),
            to: a.clone(),
        });
        ops.push(Op::Rename {
            from: aside,
            to: b.clone(),
        });
        self.edit_below(&a, &b, ops);
        self.edit_below(&b, &a, ops);
    }

    fn exchange(&mut self, ops: &mut Vec<Op>) {
        let (a, b) = match self.rng.random_range(0..8) {
            0 => (self.file(), self.file()),
            1 => (self.file(), self.subdir()),
            2 => {
                let out = self.pick(|v| &v.out_dirs);
                (self.subdir(), out.unwrap_or_else(|| Bytes::of("out/a")))
            }
            3 => {
                let other = self.pick(|v| &v.others);
                (self.subdir(), other.unwrap_or_else(|| self.subdir()))
            }
            _ => (self.deep_dir(), self.subdir()),
        };
        ops.push(Op::Exchange {
            a: a.clone(),
            b: b.clone(),
        });
        if self.chance(70) && b.within(&Bytes::of("t")) {
            self.edit_below(&a, &b, ops);
            self.edit_below(&b, &a, ops);
        }
    }

    fn rename_over_empty(&mut self, ops: &mut Vec<Op>) {
        let to = self.dir_place();
        let from = self.deep_dir();
        ops.push(Op::Mkdir { path: to.clone() });
        ops.push(Op::Rename {
            from: from.clone(),
            to: to.clone(),
        });
        self.edit_below(&from, &to, ops);
    }

    fn rename_and_make_anew(&mut self, ops: &mut Vec<Op>) {
        let from = self.deep_dir();
        let to = self.dir_place();
        ops.push(Op::Rename {
            from: from.clone(),
            to: to.clone(),
        });
        if self.chance(70) {
            ops.push(Op::Mkdir { path: from.clone() });
            let name = self.file_name();
            ops.push(self.write(from.join(name)));
            if self.chance(50) {
                let sub = from.join(self.dir_name());
                ops.push(Op::Mkdir { path: sub.clone() });
                let name = self.file_name();
                ops.push(self.write(sub.join(name)));
            }
        } else {
            let text = self.number();
            ops.push(Op::MakeTree {
                path: from.clone(),
                text,
            });
        }
        self.edit_below(&from, &to, ops);
    }

    /// A directory takes the place of the one above it, or the other way round.
    fn rename_up_and_down(&mut self, ops: &mut Vec<Op>) {
        let dir = self.deep_dir();
        let aside = self.dir().join(b"aside");
        ops.push(Op::Rename {
            from: dir.clone(),
            to: aside.clone(),
        });
        let inner: Vec<_> = self
            .view
            .dirs
            .iter()
            .filter(|d| d.parent() == dir)
            .cloned()
            .collect();
        if let Some(inner) = inner.first() {
            ops.push(Op::Rename {
                from: aside.join(inner.name()),
                to: dir.clone(),
            });
            self.edit_below(inner, &dir, ops);
            let back = dir.join(inner.name());
            ops.push(Op::Rename {
                from: aside,
                to: back,
            });
        } else {
            ops.push(Op::MkdirAll { path: dir.clone() });
            ops.push(Op::Rename {
                from: aside,
                to: dir.join(dir.name()),
            });
        }
    }

    fn move_out(&mut self, ops: &mut Vec<Op>) {
        let from = match self.chance(40) {
            true => self.file(),
            false => self.subdir(),
        };
        let to = self.out_place();
        ops.push(Op::RemoveAll { path: to.clone() });
        ops.push(Op::Rename {
            from: from.clone(),
            to,
        });
        if self.chance(40) {
            ops.push(Op::Mkdir { path: from.clone() });
            let name = self.file_name();
            ops.push(self.write(from.join(name)));
        }
    }

    fn move_in(&mut self, ops: &mut Vec<Op>) {
        let to = self.dir_place();
        let from = match self.chance(20) {
            true => self.pick(|v| &v.out_files),
            false => self.pick(|v| &v.out_dirs),
        };
        let from = from.unwrap_or_else(|| {
            let path = self.out_place();
            let text = self.number();
            ops.push(Op::MakeTree {
                path: path.clone(),
                text,
            });
            path
        });
        ops.push(Op::Rename {
            from: from.clone(),
            to: to.clone(),
        });
        if self.chance(50) {
            self.edit_below(&from, &to, ops);
        }
    }

    fn out_and_back(&mut self, ops: &mut Vec<Op>) {
        let from = self.deep_dir();
        let out = Bytes::of("out/visit");
        ops.push(Op::Rename {
            from: from.clone(),
            to: out.clone(),
        });
        if self.chance(60) {
            self.new_below(&out, ops);
        }
        let back = match self.chance(60) {
            true => from.clone(),
            false => self.dir_place(),
        };
        ops.push(Op::Rename {
            from: out,
            to: back.clone(),
        });
        self.edit_below(&from, &back, ops);
    }

    fn new_below(&mut self, dir: &Bytes, ops: &mut Vec<Op>) {
        let sub = dir.join(self.dir_name());
        let text = self.number();
        ops.push(Op::MakeTree { path: sub, text });
        let name = self.file_name();
        ops.push(Op::Replace {
            path: dir.join(name),
            text,
        });
    }

    fn build_outside(&mut self, ops: &mut Vec<Op>) {
        let path = self.out_place();
        if self.view.out_files.len() > 60 {
            ops.push(Op::RemoveAll { path: path.clone() });
        }
        let text = self.number();
        ops.push(Op::MakeTree { path, text });
    }
}

mod more;
