//! Text that others wrote, as it is printed and put into bug reports.

/// What others wrote, for a person to read: no control characters, one line, not endless.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 1000;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line: String = words.chars().filter(|letter| !letter.is_control()).collect();
    if let Some((at, _)) = line.char_indices().nth(MOST) {
        line.truncate(at);
        line.push_str(" ...");
    }
    line
}

/// What others wrote, without the names of people that home folders have.
pub(crate) fn without_homes(text: &str) -> String {
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1);
    let text = home.map_or_else(|| text.to_owned(), |home| text.replace(&home, "~"));
    let mut parts = text.split("/home/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| {
        let ends = |letter: char| letter.is_whitespace() || "/\"':,;)".contains(letter);
        let rest = part.find(ends).map_or("", |at| &part[at..]);
        format!("{whole}/home/~{rest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed_from_lines() {
        assert_eq!(one_line("a\n\tb\u{1b}[31m"), "a b[31m");
        assert!(one_line(&"x".repeat(5000)).len() < 1010);
    }

    #[test]
    fn names_of_people_stay_out() {
        let text = without_homes("/home/alice/ptxas and '/home/bob': /home/carol");
        assert_eq!(text, "/home/~/ptxas and '/home/~': /home/~");
        assert_eq!(without_homes("/opt/ptxas"), "/opt/ptxas");
    }
}
