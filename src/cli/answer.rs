//! The hook's answers, taken apart for people and programs. Pure.

use serde_json::{Value, json};

/// One answer: `<token>\0` and paths each ended by NUL, or `/\0`.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The token.
    pub token: &'a [u8],
    /// What changed; `None` for everything.
    pub paths: Option<Vec<&'a [u8]>>,
}

impl<'a> Answer<'a> {
    /// Takes an answer apart. `None` if it has not the form of one.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_suffix(b"\0")?;
        let mut parts = bytes.split(|&byte| byte == 0);
        let token = parts.next()?;
        let paths: Vec<&[u8]> = parts.collect();
        Some(Self {
            token,
            paths: (paths != [b"/"]).then_some(paths),
        })
    }

    /// As JSON. A path that is not UTF-8 is an object with its bytes.
    pub fn json(&self) -> Value {
        let paths = self.paths.as_deref().unwrap_or_default();
        json!({
            "token": String::from_utf8_lossy(self.token),
            "everything": self.paths.is_none(),
            "paths": paths.iter().map(|path| path_json(path)).collect::<Vec<_>>(),
        })
    }
}

fn path_json(path: &[u8]) -> Value {
    match std::str::from_utf8(path) {
        Ok(text) => json!(text),
        Err(_) => json!({ "bytes": path }),
    }
}

/// A path on a line of its own: as it is, or, if something in it would not show on a line
/// or could steer a terminal, in quotes with escapes as git writes them (git-config(1),
/// `core.quotePath`).
pub fn quoted(path: &[u8]) -> Vec<u8> {
    let plain = |byte: u8| byte >= b' ' && byte != 0x7f && byte != b'"' && byte != b'\\';
    let shows = |text: &str| !text.contains(char::is_control);
    if path.iter().all(|&byte| plain(byte)) && std::str::from_utf8(path).is_ok_and(shows) {
        return path.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in path {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\t' => out.extend(b"\\t"),
            byte if plain(byte) && byte < 0x80 => out.push(byte),
            byte => out.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let none = Answer::parse(b"t\0").unwrap();
        assert_eq!(none.paths, Some(vec![]));
        let everything = Answer::parse(b"t\0/\0").unwrap();
        assert_eq!((everything.token, everything.paths), (&b"t"[..], None));
        let two = Answer::parse(b"t\0a/b\0c\nd\0").unwrap();
        assert_eq!(two.paths, Some(vec![&b"a/b"[..], b"c\nd"]));
        assert_eq!(Answer::parse(b""), None);
        assert_eq!(Answer::parse(b"t"), None);
    }

    #[test]
    fn json_holds_paths_that_are_no_text() {
        let json = Answer::parse(b"t\0a\0\xff\0").unwrap().json();
        assert_eq!(
            json,
            json!({"token": "t", "everything": false, "paths": ["a", {"bytes": [255]}]})
        );
    }

    #[test]
    fn paths_that_would_break_a_line_are_quoted() {
        assert_eq!(quoted("grün tee".as_bytes()), "grün tee".as_bytes());
        assert_eq!(quoted(b"a\nb\"c\\"), br#""a\nb\"c\\""#);
        assert_eq!(quoted(b"\xff\x01"), br#""\377\001""#);
        // Some terminals take U+009B for ESC [.
        assert_eq!(quoted("\u{9b}2J".as_bytes()), br#""\302\2332J""#);
    }
}
