//! Tables: columns as wide as their widest cell, words to the left and figures to the right.

use std::fmt::{self, Write as _};

use crate::output::{HEADING, plain, styled};

/// A table; [`fmt::Display`] shows it, a line for each row.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With a name for each column.
    pub fn new<S: Into<String>>(heading: impl IntoIterator<Item = S>) -> Self {
        Self { heading: heading.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Of names and values, without a heading.
    #[must_use]
    pub fn of_facts() -> Self {
        Self::default()
    }

    /// Adds a row. Cells may be styled.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Whether a column holds figures: each cell begins with a digit, or is empty or a dash.
    fn has_figures(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column)).map(|cell| plain(cell));
        let is_figure = |cell: &str| cell.trim_start_matches('-').starts_with(char::is_numeric);
        cells().all(|cell| cell.is_empty() || cell == "-" || is_figure(&cell))
            && cells().any(|cell| is_figure(&cell))
            // The values of facts stand beside words.
            && !self.heading.is_empty()
    }
}

fn width(cell: &str) -> usize {
    plain(cell).chars().count()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || self.rows.iter().chain([&self.heading]);
        let columns = lines().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            lines().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        };
        let layout: Vec<_> =
            (0..columns).map(|column| (widest(column), self.has_figures(column))).collect();
        let heading: Vec<_> = self.heading.iter().map(|name| styled(HEADING, name)).collect();
        let heading = (!heading.is_empty()).then_some(&heading);
        for row in heading.into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (at, (cell, (wide, figures))) in row.iter().zip(&layout).enumerate() {
                let space = " ".repeat(wide.saturating_sub(width(cell)));
                let between = if at == 0 { "" } else { "  " };
                let (before, behind) = if *figures { (&*space, "") } else { ("", &*space) };
                // Writing to a string does not fail.
                let _ = write!(line, "{between}{before}{cell}{behind}");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{GOOD, plain};

    #[test]
    fn words_line_up_to_the_left_and_figures_to_the_right() {
        let mut table = Table::new(["call", "us", "result"]);
        table.row(["read", "7.25", &styled(GOOD, "ok")]);
        table.row(["write_all", "-", "no"]);
        table.row(["x", "1234.50", "ok"]);
        let expected = "call            us  result\n\
                        read          7.25  ok\n\
                        write_all        -  no\n\
                        x          1234.50  ok\n";
        assert_eq!(plain(&table.to_string()), expected);
    }

    #[test]
    fn facts_have_no_heading_and_values_to_the_left() {
        let mut table = Table::of_facts();
        table.row(["rounds", "12"]);
        table.row(["GPU", "emulated"]);
        assert_eq!(table.to_string(), "rounds  12\nGPU     emulated\n");
    }
}
