//! Names that git takes no word about: told that such a path changed, it drops it (git:
//! dir.c, untracked_cache_invalidate_path asks read-cache.c, verify_path), although it
//! lists what is there as untracked. Pure.

/// Whether git refuses a path for this component: `.git` in any case, and what Windows or
/// macOS would take for it, since git guards repositories against those everywhere
/// (core.protectNTFS, core.protectHFS; git: path.c, is_ntfs_dotgit, and utf8.c,
/// is_hfs_dotgit). `true` for more names than git refuses is no harm. `false` for
/// `.git` itself, which git does not list.
pub fn is_refused(name: &[u8]) -> bool {
    name != b".git" && name.split(|&byte| byte == b'\\').any(is_like_dot_git)
}

fn is_like_dot_git(part: &[u8]) -> bool {
    // Nearly every name is settled by its first byte.
    if !matches!(part.first(), Some(b'.' | b'g' | b'G' | 0x80..)) {
        return false;
    }
    // What HFS+ ignores in a name is not ASCII.
    let mut ascii = part.iter().filter(|byte| byte.is_ascii());
    let mut begin = [0; 5];
    for byte in &mut begin {
        match ascii.next() {
            Some(next) => *byte = next.to_ascii_lowercase(),
            None => break,
        }
    }
    let rest = match &begin {
        b"git~1" => None,
        [b'.', b'g', b'i', b't', last] => Some(last),
        _ => return false,
    };
    // NTFS drops dots and blanks from the end, and takes what follows a colon for the name
    // of a stream.
    let mut rest = rest.into_iter().chain(ascii);
    let next = rest.find(|byte| !matches!(byte, b'.' | b' '));
    matches!(next, None | Some(0 | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_refuses_is_known() {
        for name in [
            &b".GIT"[..],
            b".Git",
            b"git~1",
            b"GIT~1",
            b".git ",
            b".git...",
            b".git. .",
            b".git::$INDEX_ALLOCATION",
            b".git:x",
            b"git~1 .",
            b"a\\.git",
            b"a\\git~1\\b",
            b".git\\x",
            ".g\u{200c}it".as_bytes(),
            "\u{200d}.git".as_bytes(),
        ] {
            assert!(is_refused(name), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn ordinary_names_are_not() {
        for name in [
            &b"file"[..],
            b".git",
            b".gitignore",
            b".gitmodules",
            b".github",
            b"git",
            b"git~2",
            b"git~10",
            b".gi",
            b"..git",
            b"x.git",
            b"g",
            b".",
            b"unit\\x2dname",
            "\u{e9}t\u{e9}".as_bytes(),
        ] {
            assert!(!is_refused(name), "{}", name.escape_ascii());
        }
    }
}
