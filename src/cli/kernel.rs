//! What the kernel allows and what is used of it, as /proc tells.

use nix::unistd::geteuid;

pub use crate::watcher::limits::Limit;
use crate::watcher::tracker::Trouble;

/// The limit of watches.
pub fn watches() -> Option<Limit> {
    Limit::behind(Trouble::Watches)
}

/// The limit of inotify instances.
pub fn instances() -> Option<Limit> {
    Limit::behind(Trouble::Instances)
}

/// How many events an instance's queue holds.
pub fn queue() -> Option<Limit> {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").ok()?;
    Some(Limit {
        name: "fs.inotify.max_queued_events",
        value: text.trim().parse().ok()?,
    })
}

/// What all processes of this user use.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// inotify instances.
    pub instances: u64,
    /// inotify watches.
    pub watches: u64,
}

/// Counts instances and watches of all processes of this user that can be looked at
/// (proc(5), /proc/PID/fdinfo). Looks through every descriptor, so not for every day.
pub fn used() -> Used {
    let mut used = Used::default();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return used;
    };
    for entry in entries.flatten() {
        use std::os::unix::fs::MetadataExt;
        let is_process = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let ours = entry
            .metadata()
            .is_ok_and(|found| found.uid() == geteuid().as_raw());
        if !is_process || !ours {
            continue;
        }
        let Ok(descriptors) = entry.path().join("fd").read_dir() else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let link = std::fs::read_link(descriptor.path());
            if !link.is_ok_and(|to| to.as_os_str() == "anon_inode:inotify") {
                continue;
            }
            used.instances += 1;
            let info = entry.path().join("fdinfo").join(descriptor.file_name());
            used.watches += std::fs::read_to_string(info).map_or(0, |text| watches_in(&text));
        }
    }
    used
}

/// The watches in an fdinfo of an inotify instance: a line for each.
fn watches_in(info: &str) -> u64 {
    info.lines()
        .filter(|line| line.starts_with("inotify wd:"))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_counted() {
        let info = "pos:\t0\nflags:\t02004000\nmnt_id:\t15\nino:\t1057\n\
            inotify wd:2 ino:3e sdev:fe00000 mask:fc6 ignored_mask:0 fhandle-bytes:8\n\
            inotify wd:1 ino:3d sdev:fe00000 mask:fc6 ignored_mask:0 fhandle-bytes:8\n";
        assert_eq!(watches_in(info), 2);
        assert_eq!(watches_in(""), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_this_process_uses_is_found() {
        use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC).unwrap();
        inotify
            .add_watch("/proc", AddWatchFlags::IN_CREATE)
            .unwrap();
        let used = used();
        assert!(used.instances >= 1 && used.watches >= 1, "{used:?}");
        assert!(watches().is_some_and(|limit| limit.value > 0));
        assert!(instances().is_some_and(|limit| limit.value > 0));
    }
}
