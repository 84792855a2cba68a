//! What a command found: a table for people, or one JSON object (docs/reference/json.md).

use gpunet_apps::failure::Failure;
use gpunet_terminal::output::{BAD, GOOD, one_line, styled};
use gpunet_terminal::table::Table;
use serde::Serialize;
use serde_json::{Map, Value};

/// A backend that was not taken.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Passed {
    pub(crate) backend: String,
    pub(crate) why: String,
}

/// The GPU, and how its memory was mapped.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    pub(crate) gpu: String,
    pub(crate) gpu_name: String,
    pub(crate) gpu_reason: String,
    pub(crate) backend: String,
    pub(crate) caching: String,
    /// `gpu` or `host`.
    pub(crate) bytes_on: &'static str,
    pub(crate) passed_over: Vec<Passed>,
}

/// See the module.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) command: &'static str,
    pub(crate) ok: bool,
    #[serde(flatten)]
    pub(crate) facts: Facts,
    #[serde(skip)]
    columns: Vec<&'static str>,
    rows: Vec<Map<String, Value>>,
}

impl Report {
    pub(crate) fn new(command: &'static str, facts: Facts, columns: &[&'static str]) -> Self {
        Self { command, ok: true, facts, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, a value for each column.
    pub(crate) fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        let names = self.columns.iter().map(|name| (*name).to_owned());
        self.rows.push(names.zip(values).collect());
    }

    pub(crate) fn json(&self) -> Result<String, Failure> {
        serde_json::to_string(self)
            .map(|text| text + "\n")
            .map_err(|error| Failure::refused(format!("cannot write the result: {error}")))
    }

    pub(crate) fn table(&self) -> String {
        let facts = &self.facts;
        let mut text = format!(
            "{}: {} ({})\nmapped by {}, {}, bytes on the {}\n",
            facts.gpu,
            facts.gpu_name,
            one_line(&facts.gpu_reason),
            facts.backend,
            facts.caching,
            facts.bytes_on,
        );
        for passed in &facts.passed_over {
            text += &format!("  not by {}: {}\n", passed.backend, passed.why);
        }
        text.push('\n');
        let mut table = Table::new(self.columns.iter().map(|name| name.replace('_', " ")));
        for row in &self.rows {
            table.row(self.columns.iter().map(|name| shown(row.get(*name))));
        }
        text + &table.to_string()
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if text == "ok" => styled(GOOD, text),
        Some(Value::String(text)) if text == "FAILED" => styled(BAD, text),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            format!("{number:.*}", if number < 10.0 { 3 } else { 1 })
        }
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    }
}
