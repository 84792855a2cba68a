//! Whether every relative link in the repository's Markdown leads somewhere: to a file that is there, and to a
//! heading where it names one. Links to other hosts are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::context::Context;
use crate::decisions;
use crate::report::Outcome;
use crate::tree::files;

/// A link of a page, as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'p> {
    /// What it leads to.
    pub(crate) target: &'p str,
    /// Of a link of Markdown, all of it from `[` on: what a page without the link would not have. Of an attribute
    /// of HTML or a definition, the target alone.
    pub(crate) range: Range<usize>,
    /// The text between the brackets; of other kinds nothing.
    pub(crate) text: &'p str,
    line: usize,
}

/// The step of `cargo xtask test`: links, and citations of decisions.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let root = &context.workspace.root;
    let (mut failed, links) = in_repository(root)?;
    let (wrong, records) = decisions::check(root)?;
    let passed = usize::from(failed.is_empty()) + usize::from(wrong.is_empty());
    failed.extend(wrong);
    let remark = format!("{links} links, citations of {records} decisions");
    Ok(Outcome { passed, failed, remark, ..Outcome::default() })
}

/// What is wrong with links, and how many there are.
fn in_repository(root: &Path) -> Result<(Vec<String>, usize)> {
    let mut pages = BTreeMap::new();
    for path in files(root, "md")? {
        let text = fs::read_to_string(root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        pages.insert(path, text);
    }
    let (wrong, links) = problems(&pages, |path| root.join(path).exists());
    ensure!(links > 100, "only {links} links were understood in {} pages", pages.len());
    Ok((wrong, links))
}

/// One line for each link that leads nowhere, and how many links lead to places in the repository.
fn problems(
    pages: &BTreeMap<PathBuf, String>,
    exists: impl Fn(&Path) -> bool,
) -> (Vec<String>, usize) {
    let headings: BTreeMap<&Path, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, text) in pages {
        for link in links(text).iter().filter(|link| !is_elsewhere(link.target)) {
            count += 1;
            let mut report = |why: String| {
                wrong.push(format!("{}:{}: `{}`: {why}", page.display(), link.line, link.target));
            };
            let (path, anchor) = link.target.split_once('#').unwrap_or((link.target, ""));
            let Some(target) = resolve(page, path) else {
                report("leads out of the repository; write a path relative to this page".into());
                continue;
            };
            if !exists(&target) {
                report(format!("there is no {}; correct the path", target.display()));
            } else if let Some(known) = headings.get(target.as_path())
                && !anchor.is_empty()
                && !known.contains(anchor)
            {
                report(format!("no heading of {} makes #{anchor}", target.display()));
            }
        }
    }
    (wrong, count)
}

/// Whether a target is no file: `https:`, `mailto:`.
pub(crate) fn is_elsewhere(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    })
}

/// The place in the repository that a path on a page means; nothing if it is outside.
pub(crate) fn resolve(page: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(page.to_owned());
    }
    let mut place = page.parent()?.to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::ParentDir if place.pop() => {}
            _ => return None,
        }
    }
    Some(place)
}

/// All links of a page: `[text](target)`, `[name]: target`, and `src`, `srcset` and `href` of HTML. What stands in
/// code is none.
pub(crate) fn links(page: &str) -> Vec<Link<'_>> {
    let code = code(page);
    let is_code = |at: usize| code.iter().any(|range| range.contains(&at));
    let mut links = Vec::new();
    let mut add = |target: Range<usize>, range: Range<usize>, text: Range<usize>| {
        let line = page[..target.start].matches('\n').count() + 1;
        links.push(Link { target: &page[target], range, text: &page[text], line });
    };
    for (at, _) in page.match_indices("](").filter(|(at, _)| !is_code(*at)) {
        let start = at + 2;
        let Some(length) = page[start..].find(')') else { continue };
        // A title may follow behind a space.
        let written = &page[start..start + length];
        let target = written.split_whitespace().next().unwrap_or_default();
        let open = opening(page, at, is_code);
        add(start..start + target.len(), open..start + length + 1, open + 1..at);
    }
    for attribute in ["src=\"", "srcset=\"", "href=\""] {
        for (at, _) in page.match_indices(attribute).filter(|(at, _)| !is_code(*at)) {
            let start = at + attribute.len();
            let Some(length) = page[start..].find('"') else { continue };
            add(start..start + length, start..start + length, 0..0);
        }
    }
    let mut start = 0;
    for line in page.split_inclusive('\n') {
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, rest)) = definition.filter(|_| !is_code(start)) {
            let target = rest.split_whitespace().next().unwrap_or_default();
            let at = start + line.len() - rest.len();
            add(at..at + target.len(), at..at + target.len(), 0..0);
        }
        start += line.len();
    }
    links.sort_by_key(|link| link.range.start);
    links
}

/// Where the bracket opens that is closed at `end`.
fn opening(page: &str, end: usize, is_code: impl Fn(usize) -> bool) -> usize {
    let mut depth = 0;
    for (at, letter) in page[..end].char_indices().rev().filter(|(at, _)| !is_code(*at)) {
        match letter {
            ']' => depth += 1,
            '[' if depth == 0 => return at,
            '[' => depth -= 1,
            _ => {}
        }
    }
    end
}

/// Fenced blocks and code spans.
fn code(page: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut fence: Option<(&str, usize)> = None;
    let mut start = 0;
    // A span may go on in the next line of its paragraph, not behind a block.
    let mut paragraph = 0;
    for line in page.split_inclusive('\n') {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => {
                spans(page, paragraph..start, &mut ranges);
                fence = Some((mark, start));
            }
            (Some((open, from)), Some(mark)) if open == mark => {
                ranges.push(from..start + line.len());
                fence = None;
                paragraph = start + line.len();
            }
            (None, None) if bare.is_empty() => {
                spans(page, paragraph..start, &mut ranges);
                paragraph = start;
            }
            _ => {}
        }
        start += line.len();
    }
    match fence {
        Some((_, from)) => ranges.push(from..start),
        None => spans(page, paragraph..start, &mut ranges),
    }
    ranges
}

/// The code spans of a paragraph: what stands between two runs of as many backticks.
fn spans(page: &str, paragraph: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let text = &page[paragraph.clone()];
    let mut at = 0;
    while let Some(open) = text[at..].find('`').map(|open| at + open) {
        let ticks = text[open..].chars().take_while(|letter| *letter == '`').count();
        let inside = open + ticks;
        let mut from = inside;
        let close = loop {
            let Some(close) = text[from..].find('`').map(|close| from + close) else { break None };
            let length = text[close..].chars().take_while(|letter| *letter == '`').count();
            if length == ticks {
                break Some(close);
            }
            from = close + length;
        };
        match close {
            Some(close) => {
                ranges.push(paragraph.start + open..paragraph.start + close + ticks);
                at = close + ticks;
            }
            None => at = inside,
        }
    }
}

/// What links to headings of a page may name, as forges and mdBook make it of their text, and what HTML names.
fn anchors(page: &str) -> BTreeSet<String> {
    let code = code(page);
    let mut found = BTreeSet::new();
    let mut start = 0;
    for line in page.split_inclusive('\n') {
        let level = line.chars().take_while(|letter| *letter == '#').count();
        // A span begins behind the marks; where a line begins within code, it is a block.
        let in_block = code.iter().any(|range| range.contains(&start));
        if (1..=6).contains(&level) && line[level..].starts_with(' ') && !in_block {
            let slug = slug(&line[level..]);
            let mut unique = slug.clone();
            // Counted: by the headings with the same text.
            for number in 1.. {
                if found.insert(unique.clone()) {
                    break;
                }
                unique = format!("{slug}-{number}");
            }
        }
        start += line.len();
    }
    for (at, mark) in page.match_indices(" id=\"") {
        found.extend(page[at + mark.len()..].split_once('"').map(|(id, _)| id.to_owned()));
    }
    found
}

/// A heading's text as an anchor: lower case, spaces as hyphens, of links their text, no other signs.
fn slug(heading: &str) -> String {
    let mut text = heading.trim().to_owned();
    while let Some(at) = text.find("](") {
        let Some(length) = text[at..].find(')') else { break };
        text.replace_range(at..=at + length, "");
    }
    text.chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ if letter.is_alphanumeric() => Some(letter),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: BTreeMap<_, _> =
            pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        problems(&pages, |path| pages.contains_key(path) || path == Path::new("src/a.rs")).0
    }

    #[test]
    fn a_link_to_a_missing_file_is_found_with_its_line() {
        let wrong = found(&[("docs/a.md", "# A\n\nSee [b\nc](b.md) and [a](../src/a.rs).\n")]);
        assert_eq!(wrong, ["docs/a.md:4: `b.md`: there is no docs/b.md; correct the path"]);
    }

    #[test]
    fn a_link_to_a_missing_heading_is_found() {
        let other =
            "# B\n\n## C and C++\n\n## `x_y`, z\n\n## C and C++\n\n```sh\n# no heading\n```\n";
        let page = "[1](b.md#c-and-c) [2](b.md#c-and-c-1) [3](b.md#x_y-z) [4](#here) [5](b.md#no-heading)\n";
        assert_eq!(
            found(&[("a.md", page), ("b.md", other)]),
            [
                "a.md:1: `#here`: no heading of a.md makes #here",
                "a.md:1: `b.md#no-heading`: no heading of b.md makes #no-heading",
            ]
        );
    }

    #[test]
    fn pictures_definitions_and_attributes_are_links() {
        let page = "![p](p.svg)\n<img src=\"q.svg\">\n<source srcset=\"r.svg\">\n\n[d]: s.md\n";
        let targets: Vec<_> = links(page).iter().map(|link| link.target).collect();
        assert_eq!(targets, ["p.svg", "q.svg", "r.svg", "s.md"]);
        assert_eq!(found(&[("a.md", page)]).len(), 4);
    }

    #[test]
    fn code_and_other_hosts_are_left_out() {
        let page = "`[a](b.md)` [c](https://x.y/z.md) [m](mailto:a@b.c)\n\n```md\n[d](e.md)\n```\n";
        assert_eq!(found(&[("a.md", page)]), [""; 0]);
        // An odd backtick hides nothing in the next paragraph.
        assert_eq!(found(&[("a.md", "an odd `\n\n[c](d.md) `\n")]).len(), 1);
    }

    #[test]
    fn a_link_out_of_the_repository_is_found() {
        for target in ["../../b.md", "/etc/passwd"] {
            let page = format!("[b]({target})\n");
            let wrong = found(&[("docs/a.md", &page)]);
            assert!(wrong[0].contains("leads out of the repository"), "{wrong:?}");
        }
    }

    #[test]
    fn a_link_has_its_text_and_where_it_stands() {
        let page = "see [the `[code]` [x]](a.md \"title\") now";
        let link = &links(page)[0];
        assert_eq!((link.text, link.target), ("the `[code]` [x]", "a.md"));
        assert_eq!(&page[link.range.clone()], "[the `[code]` [x]](a.md \"title\")");
    }

    #[test]
    fn every_link_of_the_repository_leads_somewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (wrong, _) = in_repository(&root).unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
