//! Counting the directories of a worktree that cannot be watched, so that a person can be
//! told how many watches it needs. No watch is spent on it.

use std::time::Instant;

use crate::backend::Backend;

/// A count under way.
pub struct Census {
    /// Directories to list, relative to the top.
    left: Vec<Vec<u8>>,
    count: u64,
}

impl Census {
    /// Begins at the top.
    pub fn new() -> Self {
        Self {
            left: vec![Vec::new()],
            count: 0,
        }
    }

    /// Counts on until `until`; the number of directories when all were seen. What cannot
    /// be listed counts as one, and git directories as one, as when watching.
    pub fn go_on(&mut self, backend: &mut dyn Backend, until: Instant) -> Option<u64> {
        if backend.disk().enter().is_err() {
            return Some(self.count);
        }
        let mut found = None;
        loop {
            let Some(dir) = self.left.pop() else {
                found = Some(self.count);
                break;
            };
            self.count += 1;
            let left = &mut self.left;
            let _ = backend.disk().list(&dir, &mut |name, is_dir| {
                if is_dir && name != b".git" {
                    let mut path = dir.clone();
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(name);
                    left.push(path);
                }
            });
            if Instant::now() >= until {
                break;
            }
        }
        backend.disk().leave();
        found
    }
}
