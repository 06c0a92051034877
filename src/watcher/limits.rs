//! The limits that can keep a watcher from watching: which it is, where it stands, and the
//! command that raises it.

use std::path::Path;

use serde_json::{Value, json};

use super::tracker::Trouble;

/// A limit of the system, as it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its name for sysctl(8).
    pub name: &'static str,
    /// Where it stands.
    pub value: u64,
}

impl Limit {
    /// The limit behind a trouble, if it is one that can be read.
    ///
    /// A user namespace has limits of its own below those of the whole system
    /// (user_namespaces(7), `/proc/sys/user`): the lower one is what counts.
    pub fn behind(trouble: Trouble) -> Option<Self> {
        let names = match trouble {
            Trouble::Watches => ["fs.inotify.max_user_watches", "user.max_inotify_watches"],
            Trouble::Instances => [
                "fs.inotify.max_user_instances",
                "user.max_inotify_instances",
            ],
            _ => return None,
        };
        names
            .into_iter()
            .filter_map(|name| read(name).map(|value| Self { name, value }))
            .min_by_key(|limit| limit.value)
    }

    /// A value that would do, if `needed` more are needed: other programs need some too.
    fn enough(self, needed: u64) -> u64 {
        self.value
            .saturating_add(needed)
            .clamp(1, 1 << 30)
            .next_power_of_two()
    }

    /// As JSON; `needed` is how many this worktree needs, if that is known.
    pub fn report(self, needed: Option<u64>) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "needed": needed,
            "raise_with": needed.map(|needed| {
                format!("sysctl {}={}", self.name, self.enough(needed))
            }),
        })
    }

    /// In words, to follow what the trouble is.
    pub fn words(self, needed: Option<u64>) -> String {
        let Self { name, value } = self;
        match needed {
            Some(needed) => format!(
                "{name} stands at {value}, this worktree needs {needed}, and other programs need theirs; raise it with: sysctl {name}={}",
                self.enough(needed)
            ),
            None => format!(
                "{name} stands at {value}, and how many this worktree needs is still being counted"
            ),
        }
    }
}

fn read(name: &str) -> Option<u64> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    let text = std::fs::read_to_string(path).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_enough_is() {
        for (value, needed, enough) in [(8192, 111_112, 131_072), (0, 1, 1), (128, 1, 256)] {
            let limit = Limit { name: "x", value };
            assert_eq!(limit.enough(needed), enough);
        }
        let limit = Limit {
            name: "x",
            value: u64::MAX,
        };
        assert_eq!(limit.enough(u64::MAX), 1 << 30);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_limits_of_this_system_can_be_read() {
        for trouble in [Trouble::Watches, Trouble::Instances] {
            assert!(Limit::behind(trouble).is_some_and(|limit| limit.value > 0));
        }
        assert_eq!(Limit::behind(Trouble::Remote), None);
    }
}
