//! A list of operations as a shell script that a person can run.

use crate::ops::{Bytes, Op, text};
use crate::sandbox::{Settings, configuration};
use std::fmt::Write as _;

/// Quote for bash: plain words as they are, others as `$'...'`.
fn quoted(word: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-=,:~+%@".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut out = String::from("$'");
    for &b in word {
        match b {
            b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(b));
            }
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(char::from(b)),
            _ => {
                let _ = write!(out, "\\x{b:02x}");
            }
        }
    }
    out + "'"
}

fn q(path: &Bytes) -> String {
    // Names with a leading dash are never the first component: no `--` needed.
    quoted(&path.0)
}

/// One operation as a line.
fn line(op: &Op) -> String {
    let says = |n: u32| quoted(text(n).as_bytes());
    match op {
        Op::Write { path, text } => format!("printf %s {} >{}", says(*text), q(path)),
        Op::Append { path, text } => format!("printf %s {} >>{}", says(*text), q(path)),
        Op::Replace { path, text } => {
            let beside = path.parent().join(b".swp~");
            format!(
                "printf %s {} >{b} && mv -fT {b} {}",
                says(*text),
                q(path),
                b = q(&beside)
            )
        }
        Op::Touch { path } => format!("touch -c {}", q(path)),
        Op::Unlink { path } => format!("unlink {}", q(path)),
        Op::Mkdir { path } => format!("mkdir {}", q(path)),
        Op::MkdirAll { path } => format!("mkdir -p {}", q(path)),
        Op::Rmdir { path } => format!("rmdir {}", q(path)),
        Op::RemoveAll { path } => format!("rm -rf {}", q(path)),
        Op::Rename { from, to } => {
            format!(
                "perl -e 'rename $ARGV[0], $ARGV[1] or die $!' {} {}",
                q(from),
                q(to)
            )
        }
        Op::Exchange { a, b } => {
            format!("mv --exchange -T {} {}   # coreutils 9.5", q(a), q(b))
        }
        Op::Symlink { target, path } => format!("ln -s {} {}", q(target), q(path)),
        Op::Link { from, to } => format!("ln {} {}", q(from), q(to)),
        Op::Chmod { path, mode } => format!("chmod {mode:o} {}", q(path)),
        Op::CopyAll { from, to } => format!("[ -e {t} ] || cp -r {} {t}", q(from), t = q(to)),
        Op::MakeTree { path, text } => {
            format!("make_tree {} {text}", q(path))
        }
        Op::Fifo { path } => format!("mkfifo {}", q(path)),
        Op::MapOpen { slot, path } => {
            format!(
                "coproc MAP{slot} {{ mmap-write {}; }}; read -r _ <&\"${{MAP{slot}[0]}}\"",
                q(path)
            )
        }
        Op::MapWrite { slot } => {
            format!("echo >&\"${{MAP{slot}[1]}}\"; wait \"$MAP{slot}_PID\"")
        }
        Op::Hold { slot, path } => format!("exec {{HELD{slot}}}>>{}", q(path)),
        Op::HeldWrite { slot, text } => {
            format!(
                "printf %s {} >&\"$HELD{slot}\"; exec {{HELD{slot}}}>&-",
                says(*text)
            )
        }
        Op::Git { dir, args } => {
            let args: Vec<_> = args.iter().map(q).collect();
            format!("git -C {} {}", q(dir), args.join(" "))
        }
        Op::Status { untracked, locks } => format!(
            "{}git -C t status --porcelain {} >/dev/null",
            if *locks { "" } else { "GIT_OPTIONAL_LOCKS=0 " },
            untracked.flag()
        ),
        Op::Compare { untracked, locks } => format!(
            "compare {} {}",
            untracked.flag(),
            if *locks { 1 } else { 0 }
        ),
        Op::Query => {
            "# here the hook itself was asked, and its answer held against lstat".to_owned()
        }
    }
}

const HEAD: &str = r#"#!/bin/bash
# Run in an empty directory, as an ordinary user; $TREEWATCH is the program.
set -u
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=$PWD
git config --global user.name M; git config --global user.email m@example.org
git config --global init.defaultBranch main; git config --global gc.auto 0
compare () {
	cp -p t/.git/index index-before
	GIT_OPTIONAL_LOCKS=$2 git -C t status --porcelain=v1 "$1" >with
	GIT_INDEX_FILE=$PWD/index-before GIT_OPTIONAL_LOCKS=0 git -C t -c core.fsmonitor=false \
		-c core.untrackedCache=false status --porcelain=v1 "$1" >without
	diff -u without with
}
mkdir -p t out
"#;

const MAKE_TREE: &str = r#"make_tree () {
	mkdir "$1" || return
	local dir=$1 i j
	for ((i = 0; i <= $2 % 4; i++)); do
		for ((j = 0; j <= ($2 / 4 + i) % 4; j++)); do echo "$i$j" >"$dir/f$j"; done
		(( ($2 / 16 + i) % 3 )) || dir=$1
		dir=$dir/d$i; mkdir "$dir"
	done
}
"#;

/// The whole script: what makes the repository, the settings, the operations.
pub fn script(setup: &[Op], settings: &Settings, monitor: &str, ops: &[Op]) -> String {
    let mut out = String::from(HEAD);
    if ops.iter().any(|op| matches!(op, Op::MakeTree { .. })) {
        out.push_str(MAKE_TREE);
    }
    for op in setup {
        out += &line(op);
        out.push('\n');
    }
    for (key, value) in configuration(settings) {
        let _ = writeln!(out, "git -C t config {key} {value}");
    }
    out += monitor;
    for op in ops {
        out += &line(op);
        out.push('\n');
    }
    out
}
