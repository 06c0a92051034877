//! Tokens: how far into which watcher's journal a caller has read. Pure.
//!
//! A token is one JSON object without white space: `{"v":2,"id":"<instance>","seq":<n>}`.
//! To git it is an opaque string without NUL (git: `fsmonitor.c`, `refresh_fsmonitor`).

use serde::{Deserialize, Serialize};

/// Version of the token's form; it goes with version 2 of git's hook protocol.
const VERSION: u64 = 2;

/// The longest bytes that can be a token of ours. Anything longer need not be looked at.
pub const LENGTH_MAX: usize = 128;

/// What a hook prints when no watcher answered: well-formed, and never one that a
/// watcher has given out, since an instance id is never empty.
pub const NOBODY: &str = r#"{"v":2,"id":"","seq":0}"#;

#[derive(Deserialize, Serialize)]
struct Form<'a> {
    v: u64,
    id: &'a str,
    seq: u64,
}

/// Writes the token for place `seq` in the journal of the instance `id`.
pub fn write(id: &str, seq: u64) -> String {
    // A struct of two numbers and a string cannot fail to serialise.
    serde_json::to_string(&Form {
        v: VERSION,
        id,
        seq,
    })
    .unwrap_or_else(|_| NOBODY.to_owned())
}

/// Reads the place in the journal of the instance `id` from a token. `None` for whatever
/// was not written by that very instance.
pub fn read(token: &[u8], id: &str) -> Option<u64> {
    // serde would take an array for the object as well.
    if token.len() > LENGTH_MAX || id.is_empty() || token.first() != Some(&b'{') {
        return None;
    }
    let form: Form<'_> = serde_json::from_slice(token).ok()?;
    (form.v == VERSION && form.id == id).then_some(form.seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_one_json_object_without_white_space() {
        assert_eq!(write("1f", 7), r#"{"v":2,"id":"1f","seq":7}"#);
    }

    #[test]
    fn a_token_is_read_by_its_instance_only() {
        let token = write("abc", 42);
        assert_eq!(read(token.as_bytes(), "abc"), Some(42));
        assert_eq!(read(token.as_bytes(), "abd"), None);
        assert_eq!(read(token.as_bytes(), ""), None);
    }

    #[test]
    fn what_others_say_is_no_token() {
        for foreign in [
            "",
            "1712345678901234567",
            "c:1712345678:1234:1:5",
            "builtin:fake",
            "{}",
            r#"{"v":1,"id":"abc","seq":1}"#,
            r#"{"v":2,"id":"abc","seq":-1}"#,
            r#"{"v":2,"id":"abc","seq":1e3}"#,
            r#"{"v":2,"id":"abc","seq":18446744073709551616}"#,
            r#"{"v":2,"id":["abc"],"seq":1}"#,
            r#"[2,"abc",1]"#,
            r#"{"v":2,"id":"abc","seq":1"#,
            NOBODY,
        ] {
            assert_eq!(read(foreign.as_bytes(), "abc"), None, "{foreign}");
        }
        assert_eq!(read(&[b'['; 100_000], "abc"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(read(&bytes, "abc"), None);
        }

        #[test]
        fn every_place_comes_back(seq in any::<u64>()) {
            let token = write("0123456789abcdef", seq);
            prop_assert!(token.len() <= LENGTH_MAX);
            prop_assert_eq!(read(token.as_bytes(), "0123456789abcdef"), Some(seq));
        }
    }
}
