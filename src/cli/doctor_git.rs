//! What `doctor` finds in git's version, settings and index, and in the file system.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use super::doctor::{Finding, Verdict};
use super::git_view::{index_path, run, skippable};
use super::hook_value::{Whose, program_of, whose};
use super::index_file;
use super::problem::Problem;
use super::settings::Settings;
use super::show;
use super::worktree::{Worktree, user};
use crate::watcher::{mounts, remote};

/// The first git that speaks version 2 of the hook protocol.
const OLDEST: (u32, u32) = (2, 26);

/// Looks at all of it.
pub fn look(worktree: &Worktree) -> Result<Vec<Finding>, Problem> {
    let settings = Settings::of(Some(worktree));
    let mut findings = vec![version(worktree)?, kind(worktree)];
    findings.push(hook(&settings)?);
    let enabled = findings.last().is_some_and(|f| f.verdict == Verdict::Well);
    findings.extend(hook_version(&settings)?);
    if enabled {
        findings.extend(competitor(worktree));
    }
    let extensions = extensions(worktree);
    findings.extend(untracked_cache(&settings, extensions.as_deref())?);
    if let Some(extensions) = &extensions
        && extensions.iter().any(|name| name == "link")
    {
        findings.push(Finding::known(
            "index",
            "split (core.splitIndex), which works",
        ));
    }
    if enabled {
        findings.push(bits(worktree)?);
    }
    findings.push(file_system(worktree, &settings));
    Ok(findings)
}

/// Whether git is to ask a treewatch here, be it one that works or not.
pub fn is_enabled(worktree: &Worktree) -> Result<bool, Problem> {
    let value = Settings::of(Some(worktree)).effective("core.fsmonitor")?;
    Ok(value.is_some_and(|found| whose(&found.value) == Whose::Ours))
}

fn version(worktree: &Worktree) -> Result<Finding, Problem> {
    let mut git = worktree.git();
    git.arg("version");
    let output = run(git)?;
    let text = String::from_utf8_lossy(output.trim_ascii()).into_owned();
    Ok(match parse_version(&text) {
        Some(found) if found < OLDEST => Finding::wrong(
            "git",
            format!("{text} does not speak version 2 of the hook protocol"),
            "Install git 2.26 or newer.",
        ),
        Some(_) => Finding::well("git", text),
        None => Finding::known("git", format!("of an unknown version: {text}")),
    })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kind(worktree: &Worktree) -> Finding {
    let own = worktree.top.join(".git");
    let kind = if worktree.git_dir == own {
        "ordinary"
    } else if worktree.git_dir.join("commondir").exists() {
        "linked"
    } else {
        "with its git directory elsewhere"
    };
    let found = format!("{kind}, git directory {}", worktree.git_dir.display());
    if worktree.place.owner == nix::unistd::geteuid().as_raw() {
        Finding::well("worktree", found)
    } else {
        Finding::wrong(
            "worktree",
            format!(
                "{found}, which belongs to {}: only the owner has a watcher",
                user(worktree.place.owner)
            ),
            "Work in it as its owner; for others git looks at everything by itself.",
        )
    }
}

fn hook(settings: &Settings<'_>) -> Result<Finding, Problem> {
    let Some(found) = settings.effective("core.fsmonitor")? else {
        return Ok(Finding::wrong(
            "core.fsmonitor",
            "not set: git does not ask treewatch",
            "treewatch enable",
        ));
    };
    let shown = format!("{} ({})", found.value.to_string_lossy(), found.scope);
    Ok(match whose(&found.value) {
        Whose::Nobody => Finding::wrong(
            "core.fsmonitor",
            format!("{shown}: git does not ask treewatch"),
            "treewatch enable",
        ),
        Whose::BuiltIn => Finding::wrong(
            "core.fsmonitor",
            format!("{shown}: git asks its own daemon, not treewatch"),
            "git fsmonitor--daemon stop; treewatch enable --force",
        ),
        Whose::Other => Finding::wrong(
            "core.fsmonitor",
            format!("{shown}: git asks something else, not treewatch"),
            "treewatch enable --force",
        ),
        Whose::Ours => match runnable(&found.value) {
            Ok(()) => Finding::well("core.fsmonitor", shown),
            Err(why) => Finding::wrong(
                "core.fsmonitor",
                format!("{shown}: {why}"),
                "treewatch enable",
            ),
        },
    })
}

/// Whether git can run what the value names.
fn runnable(value: &OsStr) -> Result<(), String> {
    let program = program_of(value);
    if program.is_relative() && program.components().count() > 1 {
        return Err("a relative path, which leads nowhere in linked worktrees".to_owned());
    }
    if program.is_relative() {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths).any(|dir| dir.join(&program).is_file());
        return found.then_some(()).ok_or("not found in PATH".to_owned());
    }
    nix::unistd::access(&program, nix::unistd::AccessFlags::X_OK)
        .map_err(|error| error.desc().to_owned())
}

fn hook_version(settings: &Settings<'_>) -> Result<Option<Finding>, Problem> {
    let found = settings.effective("core.fsmonitorHookVersion")?;
    Ok(found.filter(|found| found.value != "2").map(|found| {
        Finding::wrong(
            "hook version",
            format!(
                "core.fsmonitorHookVersion is {} ({}): git is told to look at everything",
                found.value.to_string_lossy(),
                found.scope
            ),
            match &*found.scope {
                // git-config(1), --show-scope: no file that could be changed.
                "command" => "take core.fsmonitorHookVersion out of git's command line, or of GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS in the environment".to_owned(),
                scope => format!("git config --{scope} --unset core.fsmonitorHookVersion"),
            },
        )
    }))
}

/// git's own daemon, left running beside us.
fn competitor(worktree: &Worktree) -> Option<Finding> {
    let mut git = worktree.git();
    git.args(["fsmonitor--daemon", "status"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let running = git.status().is_ok_and(|status| status.success());
    running.then(|| {
        Finding::wrong(
            "competitor",
            "git's own daemon watches the same tree, and nobody asks it",
            "git fsmonitor--daemon stop",
        )
    })
}

/// The extensions of the index; `None` where they cannot be told.
fn extensions(worktree: &Worktree) -> Option<Vec<String>> {
    let mut git = worktree.git();
    git.args(["rev-parse", "--show-object-format"]);
    let hash = match run(git).ok()?.trim_ascii() {
        b"sha256" => 32,
        _ => 20,
    };
    let index = std::fs::read(index_path(worktree).ok()?).ok()?;
    index_file::extensions(&index, hash)
}

fn untracked_cache(
    settings: &Settings<'_>,
    extensions: Option<&[String]>,
) -> Result<Option<Finding>, Problem> {
    let in_index = extensions.map(|names| names.iter().any(|name| name == "UNTR"));
    let value = settings.effective("core.untrackedCache")?;
    let set = settings.truth("core.untrackedCache");
    Ok(Some(match (set, in_index) {
        (Some(false), _) => Finding::known(
            "untracked cache",
            "switched off (core.untrackedCache): git lists every directory for untracked files",
        ),
        (Some(true), Some(false)) => Finding::known(
            "untracked cache",
            "switched on, and not in the index yet: git's next status makes it",
        ),
        (_, Some(true)) => Finding::well("untracked cache", "in the index"),
        (Some(true), None) => Finding::well("untracked cache", "switched on"),
        (None, _) if value.is_some() => {
            Finding::known("untracked cache", "left as it is (core.untrackedCache)")
        }
        (None, _) => Finding::known(
            "untracked cache",
            "not in use: git lists every directory for untracked files",
        )
        .advice("git update-index --test-untracked-cache && git config core.untrackedCache true"),
    }))
}

/// Whether git really passes over files.
fn bits(worktree: &Worktree) -> Result<Finding, Problem> {
    // As after any day's work: the first run may only save a token.
    for _ in 0..2 {
        let mut git = worktree.git();
        git.args(["status", "--porcelain"]);
        run(git)?;
    }
    let (lower, all) = skippable(worktree)?;
    let found = format!(
        "git need not look at {} of {}",
        show::count(lower),
        show::counted(all, "file", "files")
    );
    let writable = nix::unistd::access(&worktree.git_dir, nix::unistd::AccessFlags::W_OK);
    Ok(if all == 0 || lower > 0 {
        Finding::well("effect", found)
    } else if let Err(error) = writable {
        Finding::wrong(
            "effect",
            format!(
                "{found}: it cannot save in the git directory what it is told ({})",
                error.desc()
            ),
            format!("ls -ld '{}'", worktree.git_dir.display()),
        )
    } else {
        Finding::wrong(
            "effect",
            format!("{found}: it looks at everything all the same"),
            "GIT_TRACE_FSMONITOR=1 git status",
        )
    })
}

fn file_system(worktree: &Worktree, settings: &Settings<'_>) -> Finding {
    let allowed = settings.truth("fsmonitor.allowRemote") == Some(true);
    match remote::kind(&worktree.top) {
        None => Finding::well("file system", name_of(&worktree.top)),
        Some(kind) if allowed => Finding::known(
            "file system",
            format!("{kind}, allowed by fsmonitor.allowRemote: changes made elsewhere are missed"),
        ),
        Some(kind) => Finding::wrong(
            "file system",
            format!("{kind} does not tell of changes made elsewhere, so git looks at everything"),
            "If nobody else writes there: git config fsmonitor.allowRemote true",
        ),
    }
}

/// The type of the file system with the longest mount point above the path (proc(5),
/// /proc/self/mountinfo).
fn name_of(path: &Path) -> String {
    kind_at(
        path,
        &std::fs::read("/proc/self/mountinfo").unwrap_or_default(),
    )
    .unwrap_or_else(|| "local".to_owned())
}

/// The type of the file system that a path is on, by a mountinfo.
fn kind_at(path: &Path, mountinfo: &[u8]) -> Option<String> {
    let mounts = mountinfo.split(|&byte| byte == b'\n').filter_map(|line| {
        let point = mounts::point(line).filter(|point| path.starts_with(point))?;
        Some((point.as_os_str().len(), mounts::kind(line)?))
    });
    // Of several in one place, the last is on top.
    let (_, kind) = mounts.max_by_key(|(length, _)| *length)?;
    Some(String::from_utf8_lossy(kind).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_whatever_its_name() {
        let mountinfo = b"20 1 8:1 / / rw - ext4 /dev/a rw\n\
            21 20 0:5 / /a\\040place rw shared:1 - nfs4 host:/ rw\n\
            22 20 0:6 / /a rw - tmpfs none rw\n\
            23 20 0:7 / /a rw - xfs /dev/b rw\n";
        let kind = |path: &str| kind_at(Path::new(path), mountinfo);
        assert_eq!(kind("/a place/repo").as_deref(), Some("nfs4"));
        assert_eq!(kind("/a/repo").as_deref(), Some("xfs"));
        assert_eq!(kind("/ab").as_deref(), Some("ext4"));
        assert_eq!(kind_at(Path::new("/"), b""), None);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version("git version 2.47.3"), Some((2, 47)));
        assert_eq!(
            parse_version("git version 2.39.5 (Apple Git-154)"),
            Some((2, 39))
        );
        assert_eq!(parse_version("git version 2.55.GIT"), Some((2, 55)));
        assert_eq!(parse_version("something else"), None);
        assert!(parse_version("git version 2.25.1") < Some(OLDEST));
    }
}
