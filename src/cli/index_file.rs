//! Which extensions a git index has (git: Documentation/gitformat-index). Pure.

/// Bytes of an entry before its hash: times, device, inode, mode, owner, size.
const STAT: usize = 40;

/// The names of an index's extensions, in order: `UNTR` is the untracked cache, `FSMN` the
/// monitor's bits, `link` a split index. `None` if it is not an index that can be read.
/// `hash`: bytes of an object name, 20 or 32.
pub fn extensions(index: &[u8], hash: usize) -> Option<Vec<String>> {
    let number = |at: usize| {
        let bytes = index.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    for _ in 0..count {
        at = entry_end(index, at, hash, version)?;
    }
    let end = index.len().checked_sub(hash)?;
    let mut names = Vec::new();
    while at + 8 <= end {
        names.push(String::from_utf8_lossy(index.get(at..at + 4)?).into_owned());
        at = at.checked_add(8)?.checked_add(number(at + 4)?)?;
    }
    (at == end).then_some(names)
}

/// Where the entry that begins at `start` ends.
fn entry_end(index: &[u8], start: usize, hash: usize, version: usize) -> Option<usize> {
    let flags_at = start + STAT + hash;
    let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
    let extended = version >= 3 && flags & 0x4000 != 0;
    let mut name = flags_at + 2 + if extended { 2 } else { 0 };
    if version == 4 {
        // How much of the name before to drop: seven bits a byte.
        while index.get(name)? & 0x80 != 0 {
            name += 1;
        }
        name += 1;
    }
    let length = index.get(name..)?.iter().position(|&byte| byte == 0)?;
    let end = name + length;
    if version == 4 {
        return Some(end + 1);
    }
    // At least one NUL, so that the entry's length divides by 8.
    Some(start + ((end - start) / 8 + 1) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str, version: usize) -> Vec<u8> {
        let mut bytes = vec![1; STAT + 20];
        let extended = version == 3;
        let flags = name.len() as u16 | if extended { 0x4000 } else { 0 };
        bytes.extend(flags.to_be_bytes());
        if extended {
            bytes.extend([0, 0]);
        }
        if version == 4 {
            bytes.extend([0x81, 0x00]);
            bytes.extend(name.bytes());
            bytes.push(0);
        } else {
            bytes.extend(name.bytes());
            bytes.resize((bytes.len() / 8 + 1) * 8, 0);
        }
        bytes
    }

    fn index(version: usize) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend((version as u32).to_be_bytes());
        bytes.extend(3u32.to_be_bytes());
        for name in ["a", "some/longer name", "eightxxx"] {
            bytes.extend(entry(name, version));
        }
        for (name, length) in [(b"TREE", 5u32), (b"UNTR", 0), (b"FSMN", 300)] {
            bytes.extend(name);
            bytes.extend(length.to_be_bytes());
            bytes.resize(bytes.len() + length as usize, 7);
        }
        bytes.extend([9; 20]);
        bytes
    }

    #[test]
    fn extensions_are_found_behind_entries_of_every_version() {
        for version in 2..=4 {
            assert_eq!(
                extensions(&index(version), 20),
                Some(vec![
                    "TREE".to_owned(),
                    "UNTR".to_owned(),
                    "FSMN".to_owned()
                ]),
                "version {version}"
            );
        }
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_no_index() {
        let whole = index(2);
        // Cut off between two extensions, what comes last passes for the hash.
        let entries = whole.windows(4).position(|name| name == b"TREE").unwrap();
        for length in 0..whole.len() {
            let names = extensions(&whole[..length], 20);
            assert_ne!(names, extensions(&whole, 20), "{length}");
            assert!(length >= entries + 20 || names.is_none(), "{length}");
        }
        assert_eq!(extensions(b"PACK", 20), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(
            version in 2u32..5, count in 0u32..4, rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes = b"DIRC".to_vec();
            bytes.extend(version.to_be_bytes());
            bytes.extend(count.to_be_bytes());
            bytes.extend(rest);
            let _ = extensions(&bytes, 20);
        }
    }
}
