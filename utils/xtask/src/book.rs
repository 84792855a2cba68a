//! The book: the pages of docs/ as HTML, made by mdBook.
//!
//! mdBook is built from the registry into the target folder's `tools` where it is missing. It is run and not linked:
//! its licence asks for more than ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::checks::Context;
use crate::report::Outcome;
use crate::workspace::Workspace;
use crate::{install, links, shell};

/// The release that docs/book.toml is written for.
const VERSION: &str = "0.5.4";
/// The pages, and the list of them.
const PAGES: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";

/// The step of `cargo xtask test`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let pages = context.workspace.root.join(PAGES);
    let listed = fs::read_to_string(pages.join(SUMMARY)).context("the book has no list")?;
    let failed = unlisted(&listed, &links::files(&pages, "md")?);
    let mut outcome = match mdbook(&context.workspace) {
        Ok(program) => {
            let built = build(&context.workspace, &program)?;
            Outcome::of_one_check(built.success, "see above, and docs/book.toml", built.printed)
        }
        Err(error) => {
            let line = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            let skipped = vec![format!("no mdBook {VERSION} and it cannot be built: {line}")];
            Outcome { skipped, output: format!("{error:#}"), ..Outcome::default() }
        }
    };
    outcome.failed.extend(failed);
    Ok(outcome)
}

/// The command `cargo xtask book`.
pub(crate) fn make(workspace: &Workspace) -> Result<bool> {
    let built = build(workspace, &mdbook(workspace)?)?;
    if built.success {
        println!("{}", place(workspace).join("index.html").display());
    } else {
        eprint!("{}", built.printed);
    }
    Ok(built.success)
}

/// Where the book is made.
fn place(workspace: &Workspace) -> PathBuf {
    workspace.target.join("book")
}

/// Makes the book of a copy of the pages, whose links lead to pages alone.
fn build(workspace: &Workspace, program: &Path) -> Result<shell::Finished> {
    let copy = workspace.scratch().join("book");
    if copy.exists() {
        fs::remove_dir_all(&copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    }
    copy_pages(&workspace.root, Path::new(PAGES), &copy)?;
    let mut command = Command::new(program);
    command.arg("build").arg("--dest-dir").arg(place(workspace)).arg(copy.join(PAGES));
    let mut finished = shell::run_logged(&mut command, &workspace.scratch().join("book.log"))?;
    // A page that is missing, or HTML that does not close, is a warning only.
    finished.success &= !finished.printed.contains("WARN");
    Ok(finished)
}

/// Copies a folder of pages; of links to files outside of the book their text stays.
fn copy_pages(root: &Path, folder: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.join(folder))?;
    for entry in fs::read_dir(root.join(folder))? {
        let path = folder.join(entry?.file_name());
        if root.join(&path).is_dir() {
            copy_pages(root, &path, to)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            fs::write(to.join(&path), in_book(&path, &fs::read_to_string(root.join(&path))?))?;
        } else {
            fs::copy(root.join(&path), to.join(&path))?;
        }
    }
    Ok(())
}

/// A page without links to files that are not in the book: their text, and the path where the text does not name it.
fn in_book(path: &Path, page: &str) -> String {
    let mut text = page.to_owned();
    for link in links::links(page).iter().rev() {
        let target = link.target.split('#').next().unwrap_or_default();
        let Some(place) = links::resolve(path, target) else { continue };
        if links::is_elsewhere(target) || place.starts_with(PAGES) {
            continue;
        }
        let (words, place) = (link.text, place.display().to_string());
        let name = place.rsplit('/').next().unwrap_or_default();
        let plain = match words.contains(name) {
            true => words.to_owned(),
            false => format!("{words} (`{place}`)"),
        };
        text.replace_range(link.range.clone(), &plain);
    }
    text
}

/// One line for each page that the list of pages leaves out.
fn unlisted(list: &str, pages: &[PathBuf]) -> Vec<String> {
    let links = links::links(list);
    let listed: BTreeSet<_> = links.iter().map(|link| Path::new(link.target)).collect();
    pages
        .iter()
        .filter(|page| page.as_path() != Path::new(SUMMARY) && !listed.contains(page.as_path()))
        .map(|page| format!("{PAGES}/{SUMMARY} does not list {}; add a line", page.display()))
        .collect()
}

fn mdbook(workspace: &Workspace) -> Result<PathBuf> {
    install::from_registry(workspace, "mdbook", VERSION, &["--no-default-features"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_become_their_text() {
        let page = "[a](b.md), [code](../../host/src/lib.rs), [lib.rs](../../host/src/lib.rs#L3), [w](https://x.y)";
        assert_eq!(
            in_book(Path::new("docs/how-to/a.md"), page),
            "[a](b.md), code (`host/src/lib.rs`), lib.rs, [w](https://x.y)"
        );
    }

    #[test]
    fn a_page_that_is_not_listed_is_found() {
        let pages = ["SUMMARY.md", "README.md", "how-to/a.md"].map(PathBuf::from);
        let wrong = unlisted("[Start](README.md)\n", &pages);
        assert_eq!(wrong, ["docs/SUMMARY.md does not list how-to/a.md; add a line"]);
    }

    #[test]
    fn every_page_is_listed() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGES);
        let list = fs::read_to_string(pages.join(SUMMARY)).unwrap();
        assert_eq!(unlisted(&list, &links::files(&pages, "md").unwrap()), [""; 0]);
    }
}
