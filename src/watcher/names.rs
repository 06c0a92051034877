//! What a listing finds: kept from one to the next, so that a walk allocates little.

/// The entries of one directory, their names end to end.
#[derive(Default)]
pub struct Names {
    bytes: Vec<u8>,
    ends: Vec<(usize, bool)>,
}

impl Names {
    /// For the next directory; what one big one took is given back.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.shrink_to(64 << 10);
        self.ends.shrink_to(4 << 10);
    }

    /// Adds an entry.
    pub fn push(&mut self, name: &[u8], is_dir: bool) {
        self.bytes.extend_from_slice(name);
        self.ends.push((self.bytes.len(), is_dir));
    }

    /// Each name, and whether it is a directory.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, is_dir)| {
            let name = &self.bytes[start..end];
            start = end;
            (name, is_dir)
        })
    }
}
