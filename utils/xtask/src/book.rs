//! The book: the pages of docs/ as HTML, made by mdBook.
//!
//! mdBook comes from PyPI, and is kept in the target folder's `tools`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::report::Outcome;
use crate::tree::files;
use crate::workspace::Workspace;
use crate::{install, links, shell};

/// The pages, and the list of them.
const PAGES: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";

/// The step of `cargo xtask release`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let pages = context.workspace.root.join(PAGES);
    let listed = fs::read_to_string(pages.join(SUMMARY)).context("the book has no list")?;
    let failed = unlisted(&listed, &files(&pages, "md")?);
    let mut outcome = match install::mdbook(&context.workspace) {
        Ok(program) => {
            let built = build(&context.workspace, &program)?;
            let mut outcome = Outcome::of_one_check(
                built.success,
                "see above, and docs/book.toml",
                built.printed,
            );
            outcome.failed.extend(dead_ends(&place(&context.workspace))?);
            outcome
        }
        Err(error) => {
            let line = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            let skipped = vec![format!("no mdBook, and it cannot be fetched: {line}")];
            Outcome { skipped, output: format!("{error:#}"), ..Outcome::default() }
        }
    };
    outcome.failed.extend(failed);
    Ok(outcome)
}

/// The command `cargo xtask book`.
pub(crate) fn make(workspace: &Workspace) -> Result<bool> {
    let built = build(workspace, &install::mdbook(workspace)?)?;
    if !built.success {
        eprint!("{}", built.printed);
        return Ok(false);
    }
    let lost = dead_ends(&place(workspace))?;
    for line in &lost {
        eprintln!("{line}");
    }
    println!("{}", place(workspace).join("index.html").display());
    Ok(lost.is_empty())
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

/// A page as the book has it. Of links to files outside of it their text stays, and the path where the text does not
/// name it. mdBook calls a README `index`, but for links to it.
fn in_book(path: &Path, page: &str) -> String {
    let mut text = page.to_owned();
    let is_list = path.ends_with(SUMMARY);
    for link in links::links(page).iter().rev() {
        let target = link.target.split('#').next().unwrap_or_default();
        let Some(place) = links::resolve(path, target) else { continue };
        if links::is_elsewhere(target) {
            continue;
        }
        if place.starts_with(PAGES) {
            if place.ends_with("README.md") && target.ends_with("README.md") && !is_list {
                let renamed = link.target.replacen("README.md", "index.md", 1);
                text.replace_range(link.range.clone(), &format!("[{}]({renamed})", link.text));
            }
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

/// One line for each link of the finished book that leads nowhere.
fn dead_ends(book: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in files(book, "html")? {
        // One is for any address, the other a frame whose links count from elsewhere.
        if path != Path::new("404.html") && path != Path::new("toc.html") {
            let text = fs::read_to_string(book.join(&path))?;
            pages.insert(path, text);
        }
    }
    Ok(lost(&pages, |path| book.join(path).is_file()))
}

/// Links of HTML pages to files that are not there, and to parts that a page does not have.
fn lost(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (page, text) in pages {
        for target in attributes(text).filter(|target| !links::is_elsewhere(target)) {
            let (path, part) = target.split_once('#').unwrap_or((target, ""));
            let place = links::resolve(page, path);
            let found = place.as_deref().is_some_and(|place| {
                let id = format!("id=\"{part}\"");
                let has_part = |text: &String| part.is_empty() || text.contains(&id);
                exists(place) && pages.get(place).is_none_or(has_part)
            });
            if !found {
                wrong.push(format!("{} of the book: `{target}` leads nowhere", page.display()));
            }
        }
    }
    wrong
}

/// What the links of an HTML page lead to.
fn attributes(page: &str) -> impl Iterator<Item = &str> {
    let named = |name: &'static str| page.split(name).skip(1);
    let all = named(" href=\"").chain(named(" src=\"")).chain(named(" srcset=\""));
    all.filter_map(|rest| rest.split('"').next())
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
    fn a_readme_is_the_index_but_in_the_list() {
        let page = "[README.md](../a/README.md#b), [README.md](README.md)";
        let expected = "[README.md](../a/index.md#b), [README.md](index.md)";
        assert_eq!(in_book(Path::new("docs/c/d.md"), page), expected);
        let list = "[a](a/README.md)";
        assert_eq!(in_book(Path::new("docs/SUMMARY.md"), list), list);
    }

    #[test]
    fn a_link_of_the_book_that_leads_nowhere_is_found() {
        let page = "<a href=\"b.html#x\"> <a href=\"b.html#y\"> <img src=\"c.svg\"> <a href=\"https://x.y\">";
        let pages = [("a.html", page), ("b.html", "<h2 id=\"x\">")];
        let pages = pages.map(|(path, text)| (PathBuf::from(path), text.to_owned())).into();
        let expected = ["b.html#y", "c.svg"]
            .map(|target| format!("a.html of the book: `{target}` leads nowhere"));
        assert_eq!(lost(&pages, |path| pages.contains_key(path)), expected);
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
        assert_eq!(unlisted(&list, &files(&pages, "md").unwrap()), [""; 0]);
    }
}
