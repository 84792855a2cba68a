//! Whether the words of docs/reference/glossary.md stand in the files that it names, each once and in order.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The page.
const PAGE: &str = "docs/reference/glossary.md";

/// A row of the page's table.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    word: &'a str,
    file: &'a str,
}

/// What is wrong with the page, and how many words it has.
pub(crate) fn check(root: &Path) -> Result<(Vec<String>, usize)> {
    let page =
        fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let rows = rows(&page);
    ensure!(rows.len() > 20, "{PAGE}: only {} rows were understood", rows.len());
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let wrong = problems(&rows, read).into_iter().map(|wrong| format!("{PAGE}: {wrong}"));
    Ok((wrong.collect(), rows.len()))
}

/// The rows that have a file in their last column.
fn rows(page: &str) -> Vec<Row<'_>> {
    page.lines().filter_map(row_of).collect()
}

fn row_of(line: &str) -> Option<Row<'_>> {
    let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
    let word = cells.next()?;
    let file = cells.next_back()?.strip_prefix('`')?.strip_suffix('`')?;
    Some(Row { word, file })
}

/// Words that are not in their file, files that are not there, rows out of order.
fn problems(rows: &[Row<'_>], read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for Row { word, file } in rows {
        match read(file) {
            None => wrong.push(format!("`{word}`: cannot read {file}")),
            Some(text) if !has_word(&text, word) => {
                wrong.push(format!("`{word}` does not stand in {file}"));
            }
            Some(_) => {}
        }
    }
    let unordered = rows.windows(2).filter(|pair| pair[0].word >= pair[1].word);
    wrong.extend(
        unordered.map(|pair| format!("`{}` stands before `{}`", pair[0].word, pair[1].word)),
    );
    wrong
}

/// Whether a text has the word, as a word or as a name: `busy polling` is `busy_polling` and
/// `BusyPolling` as well, and one may be several.
fn has_word(text: &str, word: &str) -> bool {
    let separated = separate(text);
    let (wanted, text) = (separate(word), separated);
    text.match_indices(&wanted).any(|(at, _)| {
        let after = &text[at + wanted.len()..];
        let ends = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric());
        (at == 0 || text[..at].ends_with(' '))
            && (ends(after) || after.strip_prefix('s').is_some_and(ends))
    })
}

/// Lower-case words with one space between them, also where names join them.
fn separate(text: &str) -> String {
    let mut separated = String::with_capacity(text.len() + text.len() / 8);
    let mut before = ' ';
    for letter in text.chars() {
        if !letter.is_alphanumeric() {
            if !separated.ends_with(' ') {
                separated.push(' ');
            }
        } else {
            if letter.is_uppercase() && before.is_lowercase() {
                separated.push(' ');
            }
            separated.extend(letter.to_lowercase());
        }
        before = letter;
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_text_and_in_names() {
        for text in ["the ring slice", "ring_slices", "pub struct RingSlice;", "a ring\n/// slice"]
        {
            assert!(has_word(text, "ring slice"), "{text}");
        }
        for text in ["string slice", "ring sliced", "ring", "slice ring"] {
            assert!(!has_word(text, "ring slice"), "{text}");
        }
    }

    #[test]
    fn a_word_without_its_file_or_out_of_order_is_found() {
        let page = "| word | what | file |\n| --- | --- | --- |\n| ring | x | `a.rs` |\n\
                    | handle | y | `a.rs` |\n| lost | z | `b.rs` |\n";
        let rows = rows(page);
        assert_eq!(rows.len(), 3);
        let read = |file: &str| (file == "a.rs").then(|| "struct Ring;".to_owned());
        let expected = [
            "`handle` does not stand in a.rs",
            "`lost`: cannot read b.rs",
            "`ring` stands before `handle`",
        ];
        assert_eq!(problems(&rows, read), expected);
    }

    #[test]
    fn every_word_of_the_page_stands_in_the_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (wrong, _) = check(&root).unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
