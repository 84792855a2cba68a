//! What a page of docs/ has its reader do, for tests that follow it word for word.

/// The page is followed up to here: what comes then needs a GPU, or installs something.
const END: &str = "## On a real GPU";

/// What the page has its reader do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Write a file: its path, and what is in it.
    Write(String, String),
    /// Run a command; and compare what it prints, where the page shows that.
    Run(String, Option<String>),
}

/// The steps of the page, in its order: a heading that names a file makes the block below it that
/// file, `sh` blocks are commands, and a `text` block right behind a command is its output.
///
/// # Panics
/// At a block of which the page does not say what it is.
#[must_use]
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut file = None;
    let mut lines = page.lines().take_while(|line| *line != END);
    let mut behind_a_command = false;
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("### ") {
            file = heading.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .flat_map(|line| [line, "\n"])
            .collect();
        match (language, file.take(), steps.last_mut()) {
            ("sh", _, _) => steps.push(Step::Run(block, None)),
            ("text", _, Some(Step::Run(_, output))) if behind_a_command => *output = Some(block),
            ("text", _, _) => {}
            (_, Some(name), _) => steps.push(Step::Write(name.to_owned(), block)),
            (_, None, _) => panic!("the page does not say which file this is: {block}"),
        }
        behind_a_command = language == "sh";
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_from_a_page_in_order() {
        let page = "# Page\n\n```text\na tree\n```\n\n```sh\nmkdir src\n```\n\n### `src/lib.rs`\n\n\
                    Words.\n\n```rust\nfn f() {}\n```\n\n```sh\nrun it\n```\n\nIt prints:\n\n\
                    ```text\nhello\n```\n\n## On a real GPU\n\n```sh\nnot this\n```\n";
        let expected = [
            Step::Run("mkdir src\n".into(), None),
            Step::Write("src/lib.rs".into(), "fn f() {}\n".into()),
            Step::Run("run it\n".into(), Some("hello\n".into())),
        ];
        assert_eq!(steps(page), expected);
    }
}
