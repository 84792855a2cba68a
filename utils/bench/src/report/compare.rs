//! Two reports compared: figures that are worse than they were by more than runs differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::chart::Figure;

/// How much worse a figure is before it counts, where its quartiles do not overlap the old ones.
const WORSE: f64 = 0.10;

/// Which way is better.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Less,
    More,
}

/// Figures of rows, by name, and which way is better. Others are not compared.
const FIGURES: [(&str, Better); 9] = [
    ("gpunet_us", Better::Less),
    ("waiting_us", Better::Less),
    ("gpunet_gbps", Better::More),
    ("gflops", Better::More),
    ("registers", Better::Less),
    ("stack", Better::Less),
    ("measured", Better::Less),
    ("us_per_round", Better::Less),
    ("thread_us_per_round", Better::Less),
];
/// Units of `measured` for which more is better.
const RATES: [&str; 1] = ["1/s"];
/// Numbers that say what a row is about.
const PLACES: [&str; 12] = [
    "bytes",
    "threads",
    "transport",
    "blocks",
    "client",
    "waiting_in",
    "connections",
    "direction",
    "proxy_threads",
    "what",
    "kernel",
    "mode",
];
const MORE_PLACES: [&str; 7] = ["module", "compute_us", "unit", "size", "way", "ends", "streams"];

/// A figure in both reports.
#[derive(Debug, PartialEq)]
pub(super) struct Change {
    pub(super) suite: String,
    pub(super) row: String,
    pub(super) figure: &'static str,
    pub(super) old: f64,
    pub(super) new: f64,
    pub(super) is_worse: bool,
}

/// A figure as reports hold it: with quartiles, or a number.
pub(super) fn figure(value: &Value) -> Option<Figure> {
    match value {
        Value::Object(object) => Some(Figure {
            median: object.get("median")?.as_f64()?,
            p25: object.get("p25")?.as_f64()?,
            p75: object.get("p75")?.as_f64()?,
        }),
        value => value.as_f64().map(Figure::exact),
    }
}

/// What a row is about, in words.
fn place(row: &Map<String, Value>) -> String {
    let names = PLACES.iter().chain(&MORE_PLACES);
    let parts = names.filter_map(|name| match row.get(*name)? {
        Value::String(text) => Some(format!("{name} {text}")),
        Value::Number(number) => Some(format!("{name} {number}")),
        _ => None,
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// The rows of a report's suites.
fn rows(report: &Value) -> BTreeMap<(String, String), &Map<String, Value>> {
    let suites = report.get("suites").and_then(Value::as_object);
    let mut rows = BTreeMap::new();
    for (suite, content) in suites.into_iter().flatten() {
        let listed = ["rows", "rounds"].iter().find_map(|name| content.get(*name)?.as_array());
        for row in listed.into_iter().flatten().filter_map(Value::as_object) {
            rows.insert((suite.clone(), place(row)), row);
        }
    }
    rows
}

/// All figures that both reports have.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let before = rows(old);
    let mut changes = Vec::new();
    for ((suite, place), row) in rows(new) {
        let Some(earlier) = before.get(&(suite.clone(), place.clone())) else { continue };
        for (name, better) in FIGURES {
            let figures = (earlier.get(name).and_then(figure), row.get(name).and_then(figure));
            let (Some(was), Some(is)) = figures else { continue };
            let unit = row.get("unit").and_then(Value::as_str).unwrap_or_default();
            let better = if RATES.contains(&unit) { Better::More } else { better };
            let is_worse = match better {
                Better::Less => is.median > was.median * (1.0 + WORSE) && is.p25 > was.p75,
                Better::More => is.median < was.median * (1.0 - WORSE) && is.p75 < was.p25,
            };
            let (old, new) = (was.median, is.median);
            let (suite, row) = (suite.clone(), place.clone());
            changes.push(Change { suite, row, figure: name, old, new, is_worse });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(us: [f64; 3], gbps: [f64; 3]) -> Value {
        let figure =
            |[p25, median, p75]: [f64; 3]| json!({"median": median, "p25": p25, "p75": p75});
        json!({"suites": {
            "sizes": {"rows": [{"bytes": 64, "transport": "tcp", "gpunet_us": figure(us)}]},
            "streams": {"rows": [{"connections": 4, "direction": "in", "gpunet_gbps": figure(gbps)}]},
        }})
    }

    #[test]
    fn worse_is_more_time_and_less_throughput() {
        let old = report([9.0, 10.0, 11.0], [4.0, 4.1, 4.2]);
        let worse = |new: &Value| -> Vec<&'static str> {
            let changes = changes(&old, new);
            assert_eq!(changes.len(), 2);
            changes.iter().filter(|change| change.is_worse).map(|change| change.figure).collect()
        };
        assert!(worse(&old).is_empty());
        assert_eq!(worse(&report([12.0, 13.0, 14.0], [4.0, 4.1, 4.2])), ["gpunet_us"]);
        assert_eq!(worse(&report([9.0, 10.0, 11.0], [3.0, 3.1, 3.2])), ["gpunet_gbps"]);
        // Quartiles overlap, or it is less than a tenth.
        assert!(worse(&report([10.5, 13.0, 14.0], [4.0, 4.1, 4.2])).is_empty());
        assert!(worse(&report([11.05, 10.9, 11.2], [5.0, 5.1, 5.2])).is_empty());
    }

    #[test]
    fn what_is_in_one_alone_is_not_compared() {
        let old = report([9.0, 10.0, 11.0], [4.0, 4.1, 4.2]);
        let new = json!({"suites": {"sizes": {"rows": [{"bytes": 128, "gpunet_us": 5.0}]}}});
        assert!(changes(&old, &new).is_empty() && changes(&json!({}), &new).is_empty());
    }
}
