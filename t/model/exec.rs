//! Doing operations.
//!
//! One thing is never done: changing a file through a name outside the worktree, or through
//! one that was removed, while it has another name inside. The kernel tells a watcher of
//! the inside name nothing of that; it is a limitation the product states, and no test of
//! what it promises.
//!
//! And while others work in the tree, nobody changes a `.gitignore`. git notes the hash
//! that the index has for it, if the entry is up to date, and then reads the file for its
//! patterns (git: dir.c, add_patterns). If it was written in between, the untracked cache
//! holds listings by the new patterns under the old hash; they count as valid again when
//! the old file comes back, with any monitor.

use crate::ops::{Bytes, Op, text};
use crate::sandbox::Place;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// How many entries a copied tree may have.
const COPY_MAX: usize = 150;

/// Does operations in one place, and holds what is open between two of them.
pub struct Executor<'a> {
    place: &'a Place,
    /// Do others work in the same tree at the same time?
    crowded: bool,
    held: Vec<(u8, File)>,
    mapped: Vec<(u8, Child)>,
}

impl<'a> Executor<'a> {
    pub fn new(place: &'a Place, crowded: bool) -> Self {
        Self {
            place,
            crowded,
            held: Vec::new(),
            mapped: Vec::new(),
        }
    }

    /// Do `op`. Whether it worked is of no interest: the tree says.
    pub fn run(&mut self, op: &Op) {
        let _ = self.attempt(op);
    }

    /// Close everything open, so that nothing can change the tree any more.
    pub fn quiet(&mut self) {
        self.held.clear();
        for (_, mut child) in self.mapped.drain(..) {
            finish(&mut child);
        }
    }

    fn at(&self, path: &Bytes) -> std::path::PathBuf {
        path.at(&self.place.base)
    }

    fn attempt(&mut self, op: &Op) -> std::io::Result<()> {
        if let Op::Write { path, .. } | Op::Unlink { path } | Op::Rename { from: path, .. } = op
            && self.crowded
            && path.name() == b".gitignore"
        {
            return refused();
        }
        match op {
            Op::Write { path, text: n } => {
                self.writable(path)?;
                OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .custom_flags(nix::libc::O_NONBLOCK)
                    .open(self.at(path))?
                    .write_all(text(*n).as_bytes())
            }
            Op::Append { path, text: n } => {
                self.writable(path)?;
                OpenOptions::new()
                    .append(true)
                    .custom_flags(nix::libc::O_NONBLOCK)
                    .open(self.at(path))?
                    .write_all(text(*n).as_bytes())
            }
            Op::Replace { path, text: n } => {
                let beside = path.parent().join(b".swp~");
                OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .custom_flags(nix::libc::O_NONBLOCK)
                    .open(self.at(&beside))?
                    .write_all(text(*n).as_bytes())?;
                fs::rename(self.at(&beside), self.at(path))
            }
            Op::Touch { path } => {
                self.writable(path)?;
                OpenOptions::new()
                    .append(true)
                    .custom_flags(nix::libc::O_NONBLOCK)
                    .open(self.at(path))?
                    .set_modified(SystemTime::now())
            }
            Op::Unlink { path } => fs::remove_file(self.at(path)),
            Op::Mkdir { path } => fs::create_dir(self.at(path)),
            Op::MkdirAll { path } => fs::create_dir_all(self.at(path)),
            Op::Rmdir { path } => fs::remove_dir(self.at(path)),
            Op::RemoveAll { path } => remove_all(&self.at(path)),
            Op::Rename { from, to } => {
                self.movable(from, to)?;
                fs::rename(self.at(from), self.at(to))
            }
            Op::Exchange { a, b } => {
                self.movable(a, b)?;
                self.movable(b, a)?;
                let flags = RenameFlags::RENAME_EXCHANGE;
                Ok(renameat2(
                    AT_FDCWD,
                    &self.at(a),
                    AT_FDCWD,
                    &self.at(b),
                    flags,
                )?)
            }
            Op::Symlink { target, path } => symlink(target.os(), self.at(path)),
            Op::Link { from, to } => {
                self.inside(from)?;
                self.inside(to)?;
                fs::hard_link(self.at(from), self.at(to))
            }
            Op::Chmod { path, mode } => {
                self.writable(path)?;
                fs::set_permissions(self.at(path), Permissions::from_mode(*mode))
            }
            Op::CopyAll { from, to } => {
                if to.within(from) {
                    return refused();
                }
                let mut left = COPY_MAX;
                copy_all(&self.at(from), &self.at(to), &mut left)
            }
            Op::MakeTree { path, text: n } => make_tree(&self.at(path), *n),
            // git opens a .gitignore whatever it is, and would wait for a writer for ever.
            Op::Fifo { path } if path.name().starts_with(b".git") => refused(),
            Op::Fifo { path } => Ok(mkfifo(&self.at(path), Mode::from_bits_truncate(0o644))?),
            Op::MapOpen { slot, path } => self.map(*slot, path),
            Op::MapWrite { slot } => {
                if let Some(n) = self.mapped.iter().position(|(s, _)| s == slot) {
                    finish(&mut self.mapped.remove(n).1);
                }
                Ok(())
            }
            Op::Hold { slot, path } => {
                let file = OpenOptions::new()
                    .append(true)
                    .custom_flags(nix::libc::O_NONBLOCK)
                    .open(self.at(path))?;
                self.held.push((*slot, file));
                Ok(())
            }
            Op::HeldWrite { slot, text: n } => {
                let Some(at) = self.held.iter().position(|(s, _)| s == slot) else {
                    return Ok(());
                };
                let (_, mut file) = self.held.remove(at);
                if file.metadata()?.nlink() > 1 {
                    return refused();
                }
                file.write_all(text(*n).as_bytes())
            }
            Op::Git { dir, args } => {
                let mut git = self.place.git(&self.at(dir));
                git.args(args.iter().map(Bytes::os));
                git.stdin(Stdio::null());
                git.stdout(Stdio::null()).stderr(Stdio::null());
                git.status().map(drop)
            }
            Op::Status { untracked, locks } => self
                .place
                .status(*untracked, *locks)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map(drop),
            Op::Compare { .. } | Op::Query => Ok(()),
        }
    }

    /// Is this the name, in the worktree, of what it names?
    fn inside(&self, path: &Bytes) -> std::io::Result<()> {
        let above = fs::canonicalize(self.at(&path.parent()))?;
        if above.starts_with(self.place.worktree()) {
            Ok(())
        } else {
            refused()
        }
    }

    /// Refuse a file with several names that is reached through one outside.
    fn writable(&self, path: &Bytes) -> std::io::Result<()> {
        match fs::metadata(self.at(path)) {
            Ok(meta) if meta.is_file() && meta.nlink() > 1 => {
                let real = fs::canonicalize(self.at(path))?;
                if real.starts_with(self.place.worktree()) {
                    Ok(())
                } else {
                    refused()
                }
            }
            _ => Ok(()),
        }
    }

    /// While others work here, a file with several names stays inside: another process
    /// may have it open for writing at this moment, under the name that goes out.
    fn movable(&self, from: &Bytes, to: &Bytes) -> std::io::Result<()> {
        if self.crowded && self.inside(to).is_err() && has_linked(&self.at(from)) {
            return refused();
        }
        Ok(())
    }

    fn map(&mut self, slot: u8, path: &Bytes) -> std::io::Result<()> {
        let Some(helper) = &self.place.mmap_helper else {
            return Ok(());
        };
        self.writable(path)?;
        let mut child = Command::new(helper)
            .arg(self.at(path))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // Wait for "ready", or for the end of a helper that could not map the file.
        let mut line = String::new();
        if let Some(out) = child.stdout.as_mut() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.is_empty() {
            child.wait()?;
        } else {
            self.mapped.push((slot, child));
        }
        Ok(())
    }
}

impl Drop for Executor<'_> {
    fn drop(&mut self) {
        self.quiet();
    }
}

fn refused() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Let a mapping write and end. If the name it was made by is removed (proc(5), on
/// /proc/pid/maps), it ends and does not write.
fn finish(child: &mut Child) {
    let maps = fs::read(format!("/proc/{}/maps", child.id())).unwrap_or_default();
    let mut shared = maps.split(|&byte| byte == b'\n').filter(|line| {
        line.split(|&byte| byte == b' ')
            .nth(1)
            .is_some_and(|mode| mode.ends_with(b"s"))
    });
    if shared.any(|line| line.ends_with(b" (deleted)")) {
        let _ = child.kill();
    }
    drop(child.stdin.take());
    let _ = child.wait();
}

fn has_linked(path: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return false;
    };
    if !meta.is_dir() {
        return meta.is_file() && meta.nlink() > 1;
    }
    // What cannot be read may hold such a file.
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().any(|entry| has_linked(&entry.path())),
        Err(_) => true,
    }
}

/// `rm -rf`, also of directories that may not be read.
pub fn remove_all(path: &Path) -> std::io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    open_up(path);
    fs::remove_dir_all(path)
}

fn open_up(dir: &Path) {
    let _ = fs::set_permissions(dir, Permissions::from_mode(0o755));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Copy a tree: files, symlinks, directories; times and fifos are not copied.
pub fn copy_all(from: &Path, to: &Path, left: &mut usize) -> std::io::Result<()> {
    if *left == 0 {
        return refused();
    }
    *left -= 1;
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if meta.is_file() {
        // Not over a file that is there: it may have names elsewhere.
        let mut new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(meta.mode() & 0o777)
            .open(to)?;
        // Another process may just have put a fifo in its place, which would be waited for.
        let mut old = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(from)?;
        return std::io::copy(&mut old, &mut new).map(drop);
    }
    if meta.is_dir() {
        DirBuilder::new().mode(0o755).create(to)?;
        let mut entries: Vec<_> = fs::read_dir(from)?.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let _ = copy_all(&entry.path(), &to.join(entry.file_name()), left);
        }
    }
    Ok(())
}

/// Make up to four directories with up to four files in each, some below others.
fn make_tree(top: &Path, n: u32) -> std::io::Result<()> {
    fs::create_dir(top)?;
    let mut dir = top.to_path_buf();
    for i in 0..=n % 4 {
        for j in 0..=(n / 4 + i) % 4 {
            fs::write(dir.join(format!("f{j}")), text(n + i + j))?;
        }
        if (n / 16 + i).is_multiple_of(3) {
            dir = top.to_path_buf();
        }
        dir.push(format!("d{i}"));
        fs::create_dir(&dir)?;
    }
    Ok(())
}
