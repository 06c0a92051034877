//! Saying that something takes its time: on a terminal, after a second, and never in a pipe.

use std::io::IsTerminal;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// What takes less is not worth a word.
const QUIET: Duration = Duration::from_secs(1);

/// A line at the bottom of the terminal, as long as this lives.
pub struct Progress {
    words: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to count the second. `what`: "checking ...".
    pub fn begin(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self {
                words: None,
                thread: None,
            };
        }
        let (words, read) = channel::<String>();
        let mut what = what.to_owned();
        let thread = std::thread::spawn(move || {
            let until = std::time::Instant::now() + QUIET;
            loop {
                let left = until.saturating_duration_since(std::time::Instant::now());
                match read.recv_timeout(left) {
                    Ok(words) => what = words,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break,
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.set_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            while let Ok(words) = read.recv() {
                bar.set_message(words);
            }
            bar.finish_and_clear();
        });
        Self {
            words: Some(words),
            thread: Some(thread),
        }
    }

    /// Now it is this that takes its time.
    pub fn now(&self, what: &str) {
        if let Some(words) = &self.words {
            let _ = words.send(what.to_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.words = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
