//! What docs/reference/json.md says of a program's JSON, and whether that is so.
//!
//! A section of the page has a table of fields: a path (`rows[].bytes`; `*` stands for any name), its type
//! and its meaning. Types are `string`, `number`, `bool`, `list`, `object`, with `or null`, and `spread`;
//! a field that may be missing is `optional`.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields of a section, or of several together.
#[derive(Debug, Default)]
pub struct Documented {
    fields: Node,
}

/// A field, with those below it.
#[derive(Debug, Default)]
struct Node {
    kind: String,
    below: BTreeMap<String, Node>,
}

/// The page, as it was when the tests were built: they also run where there is no source tree.
const PAGE: &str = include_str!("../../../../docs/reference/json.md");

/// What a `spread` has.
const SPREAD: [&str; 3] = ["p25", "median", "p75"];

impl Documented {
    /// The sections of docs/reference/json.md with these headings, all of which describe one object.
    ///
    /// # Panics
    /// When a section is not there.
    #[must_use]
    pub fn of(headings: &[&str]) -> Self {
        Self::read(PAGE, headings)
    }

    fn read(page: &str, headings: &[&str]) -> Self {
        let mut this = Self::default();
        for heading in headings {
            let heading = format!("## {heading}");
            let lines = page.lines().skip_while(|line| *line != heading).skip(1);
            let rows = lines.take_while(|line| !line.starts_with("## "));
            let rows: Vec<_> = rows.filter(|line| line.starts_with("| `")).collect();
            assert!(!rows.is_empty(), "docs/reference/json.md has no fields below {heading:?}");
            for row in rows {
                let mut cells = row.split('|').map(str::trim).skip(1);
                let (path, kind) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
                // Fields of one type may share a row.
                for path in path.split(", ") {
                    this.add(path.trim_matches('`'), kind);
                }
            }
        }
        this
    }

    fn add(&mut self, path: &str, kind: &str) {
        let path = path.replace("[]", ".[]");
        let mut node = &mut self.fields;
        for name in path.split('.') {
            node = node.below.entry(name.to_owned()).or_default();
        }
        node.kind = kind.to_owned();
        if kind.contains("spread") {
            for name in SPREAD {
                let below = node.below.entry(name.to_owned()).or_default();
                below.kind = "number or null".to_owned();
            }
        }
    }

    /// Whether a program's object has exactly these fields, of these types.
    ///
    /// # Panics
    /// When not; says where.
    pub fn check(&self, object: &Value) {
        let mut wrong = Vec::new();
        self.fields.check(object, "", &mut wrong);
        assert!(
            wrong.is_empty(),
            "not as docs/reference/json.md says:\n{}\n{object:#}",
            wrong.join("\n")
        );
    }
}

impl Node {
    fn allows(&self, kind: &str) -> bool {
        self.kind.split([' ', ',']).any(|word| word == kind)
    }

    fn check(&self, value: &Value, path: &str, wrong: &mut Vec<String>) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        match value {
            Value::Object(fields) if !self.below.is_empty() => {
                for (name, value) in fields {
                    let path = format!("{path}.{name}");
                    match self.below.get(name).or_else(|| self.below.get("*")) {
                        Some(node) => node.check(value, &path, wrong),
                        None => wrong.push(format!("{path} is there and not documented")),
                    }
                }
                let missing = self.below.iter().filter(|(name, node)| {
                    *name != "*" && !fields.contains_key(*name) && !node.allows("optional")
                });
                wrong.extend(missing.map(|(name, _)| format!("{path}.{name} is missing")));
            }
            Value::Array(values) if self.below.contains_key("[]") => {
                for value in values {
                    self.below["[]"].check(value, &format!("{path}[]"), wrong);
                }
            }
            // A list or an object of which nothing more is said.
            _ if self.allows(kind) => {}
            _ => wrong.push(format!("{path} is {kind}, documented as {:?}", self.kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SAMPLE: &str = "# JSON\n\n## a\n\n| field | type | meaning |\n| --- | --- | --- |\n\
        | `name`, `other` | string or null | x |\n| `rows[].us` | spread | x |\n\
        | `by_size.*` | number | x |\n| `extra` | object, optional | x |\n\n## b\n\n| `more[]` | string | x |\n";

    fn wrong(headings: &[&str], object: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        Documented::read(SAMPLE, headings).fields.check(object, "", &mut wrong);
        wrong
    }

    #[test]
    fn an_object_with_the_documented_fields_is_right() {
        let us = json!({"p25": 1.0, "median": 2, "p75": null});
        let object =
            json!({"name": "n", "other": null, "rows": [{"us": us}], "by_size": {"64": 1}});
        assert_eq!(wrong(&["a"], &object), [""; 0]);
        let mut both = object.clone();
        both["more"] = json!(["x"]);
        assert_eq!(wrong(&["a", "b"], &both), [""; 0]);
        assert_eq!(wrong(&["a"], &both), [".more is there and not documented"]);
    }

    #[test]
    fn missing_and_wrong_fields_are_named() {
        let object = json!({"name": 7, "rows": [{"us": 1.0}], "by_size": {}});
        let found = wrong(&["a"], &object);
        assert!(found.iter().any(|line| line.contains(".name is number")), "{found:?}");
        assert!(found.iter().any(|line| line == ".other is missing"), "{found:?}");
        assert!(found.iter().any(|line| line.contains(".rows[].us is number")), "{found:?}");
    }

    #[test]
    #[should_panic(expected = "no fields")]
    fn a_section_that_is_not_there_is_noticed() {
        let _ = Documented::read(SAMPLE, &["c"]);
    }
}
