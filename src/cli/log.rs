//! `treewatch log`: what the watcher has written down.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::problem::{Outcome, Problem};
use super::worktree::Worktree;
use super::{exit, out, state};

/// So often a log that is followed is looked at.
const STEP: Duration = Duration::from_millis(200);

/// `treewatch log [--follow] [DIR]`.
pub fn run(dir: Option<&Path>, follow: bool) -> Outcome {
    let worktree = Worktree::enter(dir)?;
    let Some(path) = state::log(&worktree.place) else {
        return Err(Problem::new(format_args!(
            "there is no log: no watcher of {} has written one",
            worktree.top.display()
        ))
        .advice("Start one: treewatch start")
        .code(exit::NOT_RUNNING));
    };
    // The part before, where there is one.
    let mut before = path.clone().into_os_string();
    before.push(".1");
    if let Ok(text) = std::fs::read(PathBuf::from(before)) {
        out::print_bytes(&text)?;
    }
    let mut reader = Reader::default();
    out::print_bytes(&reader.new_bytes(&path))?;
    if !follow {
        return Ok(exit::OK);
    }
    while !out::is_closed() {
        std::thread::sleep(STEP);
        out::print_bytes(&reader.new_bytes(&path))?;
    }
    Ok(exit::OK)
}

/// Reads what was added to a file, and the next one when that has taken its place.
#[derive(Default)]
struct Reader {
    file: Option<(File, u64)>,
}

impl Reader {
    fn new_bytes(&mut self, path: &Path) -> Vec<u8> {
        let mut text = Vec::new();
        if let Some((file, at)) = &mut self.file {
            read_from(file, at, &mut text);
        }
        let replaced = match (&self.file, path.metadata()) {
            (Some((file, _)), Ok(found)) => !file
                .metadata()
                .is_ok_and(|held| held.ino() == found.ino() && held.dev() == found.dev()),
            (None, Ok(_)) => true,
            (_, Err(_)) => false,
        };
        if replaced && let Ok(file) = File::open(path) {
            let (file, at) = self.file.insert((file, 0));
            read_from(file, at, &mut text);
        }
        text
    }
}

fn read_from(file: &mut File, at: &mut u64, text: &mut Vec<u8>) {
    if file.seek(SeekFrom::Start(*at)).is_ok() {
        *at += file.read_to_end(text).unwrap_or(0) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_replaced_is_read_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut reader = Reader::default();
        assert_eq!(reader.new_bytes(&path), b"");
        std::fs::write(&path, "a\n").unwrap();
        assert_eq!(reader.new_bytes(&path), b"a\n");
        let append = |text: &str| {
            use std::io::Write;
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        append("b\n");
        assert_eq!(reader.new_bytes(&path), b"b\n");
        append("c\n");
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        std::fs::write(&path, "d\n").unwrap();
        assert_eq!(reader.new_bytes(&path), b"c\nd\n");
        assert_eq!(reader.new_bytes(&path), b"");
    }
}
