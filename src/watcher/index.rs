//! A look into git's index: whether it holds an untracked cache.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The signature of the extension that holds it (git: Documentation/gitformat-index.txt).
const SIGNATURE: &[u8] = b"UNTR";

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// Whether the index of a git directory may hold an untracked cache. The bytes are
/// searched without reading the format, so that a path that looks like one counts as well;
/// an index that is not there holds none.
pub fn may_hold_untracked_cache(git_dir: &Path) -> bool {
    let Ok(mut index) = File::open(git_dir.join("index")) else {
        return false;
    };
    let mut buffer = vec![0; CHUNK];
    let mut kept = 0;
    loop {
        match index.read(&mut buffer[kept..]) {
            Ok(0) => return false,
            Ok(count) => {
                let length = kept + count;
                if memchr::memmem::find(&buffer[..length], SIGNATURE).is_some() {
                    return true;
                }
                // The signature may lie across two chunks.
                kept = length.min(SIGNATURE.len() - 1);
                buffer.copy_within(length - kept..length, 0);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_found_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!may_hold_untracked_cache(dir.path()));
        for at in [0, CHUNK - 2, CHUNK, 3 * CHUNK + 7] {
            let mut bytes = vec![b'x'; 4 * CHUNK];
            std::fs::write(dir.path().join("index"), &bytes).unwrap();
            assert!(!may_hold_untracked_cache(dir.path()));
            bytes[at..at + 4].copy_from_slice(SIGNATURE);
            std::fs::write(dir.path().join("index"), &bytes).unwrap();
            assert!(may_hold_untracked_cache(dir.path()), "{at}");
        }
    }
}
