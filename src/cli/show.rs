//! Numbers, sizes and times as people read them, and colours for what matters. Pure.

use std::fmt::Display;
use std::time::{Duration, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};

/// What a word in colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// Worth a look.
    Doubtful,
    /// Something is wrong.
    Bad,
    /// What stands out.
    Strong,
    /// What is only there to lead the eye.
    Faint,
}

/// Text in a colour. Whether the colour is printed is [`super::out::print`]'s business.
pub fn toned(tone: Tone, text: impl Display) -> String {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let style = match tone {
        Tone::Good => colour(AnsiColor::Green),
        Tone::Doubtful => colour(AnsiColor::Yellow),
        Tone::Bad => colour(AnsiColor::Red),
        Tone::Strong => Style::new().bold(),
        Tone::Faint => Style::new().dimmed(),
    };
    format!("{style}{text}{style:#}")
}

/// A count with its thousands apart: 111,112.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// "1 query", "2 queries".
pub fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// Bytes: 4.3 MiB.
pub fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "KiB", "MiB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{number} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} GiB")
}

/// A time span in its two biggest units: 2h 3m.
pub fn span(seconds: u64) -> String {
    let text = humantime::format_duration(Duration::from_secs(seconds)).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A short time, from microseconds: 0.21 ms, 1.8 s.
pub fn short(microseconds: f64) -> String {
    if microseconds < 10_000.0 {
        format!("{:.2} ms", microseconds / 1e3)
    } else if microseconds < 1_000_000.0 {
        format!("{:.0} ms", microseconds / 1e3)
    } else {
        format!("{:.2} s", microseconds / 1e6)
    }
}

/// A point in time, from seconds since 1970, in UTC.
pub fn moment(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Rows of cells as columns, two spaces apart; the last column is as wide as it is.
/// `right`: columns that are numbers.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            if right.contains(&column) {
                line.push_str(&padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&padding);
            }
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(7), "7");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "query", "queries"), "1 query");
        assert_eq!(counted(1000, "query", "queries"), "1,000 queries");
    }

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(4_513_792), "4.3 MiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(span(0), "0s");
        assert_eq!(span(7_384), "2h 3m");
        assert_eq!(short(210.0), "0.21 ms");
        assert_eq!(short(45_000.0), "45 ms");
        assert_eq!(short(1_760_000.0), "1.76 s");
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let rows = [row("a", "x"), row("12", "long one")];
        assert_eq!(table(&rows, &[0]), " a  x\n12  long one\n");
    }
}
