//! What went wrong, as it is told to a person: what, why, and what to do about it.

use std::fmt::Display;

use super::exit;

/// An error of a people's command.
#[derive(Debug)]
pub struct Problem {
    /// What could not be done, where, and why.
    pub what: String,
    /// What to do: a command or a sentence.
    pub advice: Option<String>,
    /// The exit code.
    pub code: u8,
}

/// What a command returns: its exit code, or why it could not be carried out.
pub type Outcome = Result<u8, Problem>;

impl Problem {
    /// Something that could not be done ([`exit::FAILED`]).
    pub fn new(what: impl Display) -> Self {
        Self {
            what: what.to_string(),
            advice: None,
            code: exit::FAILED,
        }
    }

    /// The same with another exit code.
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// The same with what to do about it.
    pub fn advice(mut self, advice: impl Display) -> Self {
        self.advice = Some(advice.to_string());
        self
    }

    /// Tells the person on stderr; returns the exit code. A stderr that takes nothing is
    /// nobody's problem.
    pub fn tell(&self) -> u8 {
        use std::io::Write;
        if self.code == exit::OK {
            return self.code;
        }
        let mut text = format!("treewatch: {}\n", self.what);
        if let Some(advice) = &self.advice {
            text.push_str(&format!("  {}\n", advice.replace('\n', "\n  ")));
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
        self.code
    }
}

/// Nobody reads what we print any more, or nothing can be printed.
impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // `treewatch watch | head`: the reader has what it wanted.
            return Self::new("").code(exit::OK);
        }
        Self::new(format_args!("cannot write to standard output: {error}"))
    }
}
