//! The page: sections of charts and tables, made of a report's JSON. It refers to nothing outside.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::chart::{Bars, Figure, Lines, Series, escape, number};
use super::compare::{Change, figure};

const STYLE: &str = include_str!("page.css");

/// The page of a report, with what has changed since an older one.
pub(super) fn html(report: &Value, changes: Option<&[Change]>) -> String {
    let text =
        |path: &str| escape(report.pointer(path).and_then(Value::as_str).unwrap_or("unknown"));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gpunet: measurements of {date}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>gpunet: measurements</h1><p>{date}, {gpu}; {processor}, {cores} cores; <code>bench {command}</code></p>",
        date = text("/date"),
        gpu = text("/machine/gpu"),
        processor = text("/machine/processor"),
        cores = report["machine"]["cores"],
        command = text("/command"),
    );
    if report["quick"] == true {
        page.push_str(
            "<p class=\"note\">A quick run: it shows that everything works, not how fast.</p>",
        );
    }
    if let Some(changes) = changes {
        page.push_str(&comparison(changes));
    }
    let suites = &report["suites"];
    for (title, note, charts) in [
        ("Round trips by size", SIZES, sizes(&suites["sizes"])),
        ("Ways of calling", WAYS, ways(&suites["ways"])),
        ("Beside waiting blocks", WAITERS, waiters(&suites["waiters"])),
        ("Streams", STREAMS, streams(&suites["streams"])),
        ("Many connections", SCALE, scale(&suites["scale"])),
        ("Stream-ordered operations", PINGPONG, pingpong(&suites["pingpong"])),
        ("A kernel that computes", SGEMM, sgemm(&suites["sgemm"])),
        ("Footprint", FOOTPRINT, footprint(&suites["footprint"])),
    ] {
        if charts.is_empty() {
            continue;
        }
        let _ = write!(page, "<section><h2>{title}</h2><p>{note}</p>");
        for (name, svg) in charts {
            let _ =
                write!(page, "<figure><figcaption>{}</figcaption>{svg}</figure>", escape(&name));
        }
        page.push_str("</section>");
    }
    for (suite, content) in suites.as_object().into_iter().flatten() {
        page.push_str(&table(suite, content));
    }
    for (suite, why) in report["not_run"].as_object().into_iter().flatten() {
        let why = escape(why.as_str().unwrap_or_default());
        let _ = write!(page, "<p class=\"note\">Not run: {}: {why}</p>", escape(suite));
    }
    page.push_str("</body></html>\n");
    page
}

const SIZES: &str = "Medians of batches that take turns, with quartiles. TCP: a polling client against a server on the CPU that polls (the baseline) and against a kernel. Kernel to kernel: against the best exchange known of the same bytes between two blocks. Limit: what the machine takes without gpunet, the best round trip known of the CPU and a block through pinned memory.";
const WAYS: &str = "Round trips of the shortest message, by every way in which a server kernel calls: by TCP what it adds to a server on the CPU that polls, kernel to kernel in times of the best exchange known.";
const WAITERS: &str = "A round trip of 64 B while other blocks wait, each in a call of its own.";
const STREAMS: &str =
    "TCP streams into and out of kernels, against as many between threads of the CPU.";
const SCALE: &str = "Round trips beside very many connections that do nothing, as a ratio to the same without them.";
const PINGPONG: &str = "A kernel makes a message, which travels to a peer and back, and a kernel checks it: by the program's thread, by operations on a stream, as a graph, and by one kernel.";
const SGEMM: &str = "A persistent matrix multiplication with calls between its tiles and in its loop: its speed as a share of the same kernel without calls.";
const FOOTPRINT: &str = "Registers of a thread, as the driver has compiled and linked each kernel.";

/// Charts with their names.
type Charts = Vec<(String, String)>;

fn rows(suite: &Value) -> impl Iterator<Item = &Value> {
    suite["rows"].as_array().into_iter().flatten()
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}

fn count(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_default()
}

fn bytes(count: u64) -> String {
    gpunet_terminal::quantity::bytes_text(count)
}

/// Lines over numbers, which become places in their order. Points: the line's name, the number, the figure.
fn lines(
    title: String,
    unit: &'static str,
    x_label: &'static str,
    points: Vec<(String, u64, Figure)>,
    place: fn(u64) -> String,
) -> Option<(String, String)> {
    let mut numbers: Vec<u64> = points.iter().map(|(_, number, _)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut series = BTreeMap::<String, Vec<(usize, Figure)>>::new();
    for (name, number, figure) in points {
        let at = numbers.iter().position(|other| *other == number).unwrap_or_default();
        series.entry(name).or_default().push((at, figure));
    }
    let sorted = |(name, mut points): (String, Vec<(usize, Figure)>)| {
        points.sort_by_key(|(at, _)| *at);
        Series { name, points }
    };
    let series = series.into_iter().map(sorted).collect();
    let places = numbers.into_iter().map(place).collect();
    let chart = Lines { title: title.clone(), unit, x_label, places, series };
    chart.svg().map(|svg| (title, svg))
}

fn sizes(suite: &Value) -> Charts {
    let chart = |transport: &str, named: [(&str, &str); 2], title: &str| {
        let mut points = Vec::new();
        for row in rows(suite).filter(|row| text(row, "transport") == transport) {
            let (threads, size) = (count(row, "threads"), count(row, "bytes"));
            points.extend(named.into_iter().filter_map(|(name, key)| {
                Some((format!("{name}, {threads} threads"), size, figure(&row[key])?))
            }));
        }
        lines(title.to_owned(), "us", "message", points, bytes)
    };
    let both = [("baseline", "baseline_us"), ("gpunet", "gpunet_us")];
    let added = [("added", "added_us"), ("limit", "limit_us")];
    let charts = [
        chart("tcp", both, "By TCP"),
        chart("tcp", added, "By TCP, what gpunet adds"),
        chart("local", both, "Kernel to kernel"),
    ];
    charts.into_iter().flatten().collect()
}

fn ways(suite: &Value) -> Charts {
    let shortest = rows(suite).map(|row| count(row, "bytes")).min();
    let chart = |transport: &str, key: &str, unit: &'static str, title: &str| {
        let rows = rows(suite).filter(|row| text(row, "transport") == transport);
        let rows = rows.filter(|row| Some(count(row, "bytes")) == shortest).filter_map(|row| {
            let mut name = format!("{}, {} threads", text(row, "way"), count(row, "threads"));
            for (what, number) in
                [("streams", count(row, "streams")), ("blocks", count(row, "blocks"))]
            {
                if number > 1 {
                    let _ = write!(name, ", {number} {what}");
                }
            }
            if text(row, "ends") == "both" {
                name.push_str(", both ends");
            }
            Some((name, figure(&row[key])?))
        });
        let bars = Bars { title: title.to_owned(), unit, limit: None, rows: rows.collect() };
        bars.svg().map(|svg| (title.to_owned(), svg))
    };
    let charts = [
        chart("tcp", "added_us", "us", "Each way by TCP, what it adds"),
        chart("local", "ratio", "times", "Each way kernel to kernel, of the best exchange"),
    ];
    charts.into_iter().flatten().collect()
}

fn waiters(suite: &Value) -> Charts {
    let chart = |client: &str, title: &str| {
        let rows = rows(suite).filter(|row| text(row, "client") == client);
        let points = rows.filter_map(|row| {
            let name = format!("waiting in {}", text(row, "waiting_in"));
            Some((name, count(row, "blocks"), figure(&row["waiting_us"])?))
        });
        lines(title.to_owned(), "us", "other blocks", points.collect(), |blocks| blocks.to_string())
    };
    let charts = [
        chart("rust, tcp", "By TCP"),
        chart("c, tcp", "By TCP, a client in C"),
        chart("kernel, local", "Kernel to kernel"),
        chart("bare exchange", "Two blocks, without gpunet"),
    ];
    charts.into_iter().flatten().collect()
}

fn streams(suite: &Value) -> Charts {
    let chart = |direction: &str, title: &str| {
        let mut points = Vec::new();
        for row in rows(suite).filter(|row| text(row, "direction") == direction) {
            let (connections, threads) = (count(row, "connections"), count(row, "proxy_threads"));
            let one = threads == 1 && connections > 1;
            let name = if one { "gpunet, one proxy thread" } else { "gpunet, a proxy thread each" };
            points.extend(figure(&row["gpunet_gbps"]).map(|it| (name.to_owned(), connections, it)));
            let baseline = figure(&row["baseline_gbps"]).filter(|_| !one);
            points.extend(baseline.map(|it| ("CPU to CPU".to_owned(), connections, it)));
            let limit = figure(&row["limit_gbps"]);
            points.extend(limit.map(|it| ("limit".to_owned(), connections, it)));
        }
        lines(title.to_owned(), "GB/s", "connections", points, |count| count.to_string())
    };
    [chart("in", "Into kernels"), chart("out", "Out of kernels")].into_iter().flatten().collect()
}

fn scale(suite: &Value) -> Charts {
    let rows = rows(suite).filter(|row| text(row, "unit") == "us" && row["alone"].is_object());
    let bars = rows.filter_map(|row| Some((text(row, "what").to_owned(), figure(&row["ratio"])?)));
    let title = "Beside the others, of the same alone".to_owned();
    let bars = Bars { title: title.clone(), unit: "times", limit: Some(1.3), rows: bars.collect() };
    bars.svg().map(|svg| (title, svg)).into_iter().collect()
}

fn pingpong(app: &Value) -> Charts {
    let rounds = || app["rounds"].as_array().into_iter().flatten();
    let mut computes: Vec<u64> = rounds().map(|row| count(row, "compute_us")).collect();
    computes.sort_unstable();
    computes.dedup();
    let chart = |compute: u64| {
        let rows = rounds().filter(|row| count(row, "compute_us") == compute);
        let points = rows.filter_map(|row| {
            Some((text(row, "mode").to_owned(), count(row, "bytes"), figure(&row["us_per_round"])?))
        });
        let title = format!("A round, with kernels of {compute} us");
        lines(title, "us", "message", points.collect(), bytes)
    };
    computes.into_iter().filter_map(chart).collect()
}

fn sgemm(suite: &Value) -> Charts {
    let bars = rows(suite)
        .filter_map(|row| Some((text(row, "kernel").to_owned(), figure(&row["ratio"])?)));
    let title = "Speed, of the kernel without calls".to_owned();
    let bars = Bars { title: title.clone(), unit: "share", limit: None, rows: bars.collect() };
    bars.svg().map(|svg| (title, svg)).into_iter().collect()
}

fn footprint(suite: &Value) -> Charts {
    let bars = rows(suite).filter_map(|row| {
        let name = format!("{}, blocks up to {}", text(row, "kernel"), count(row, "max_threads"));
        Some((name, figure(row.get("registers")?)?))
    });
    let title = "Registers".to_owned();
    let bars = Bars { title: title.clone(), unit: "registers", limit: None, rows: bars.collect() };
    bars.svg().map(|svg| (title, svg)).into_iter().collect()
}

/// A suite's rows as they are.
fn table(suite: &str, content: &Value) -> String {
    let rows: Vec<_> = ["rows", "rounds"]
        .iter()
        .find_map(|name| content[*name].as_array())
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    let mut names: Vec<&String> = rows.iter().flat_map(|row| row.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let cell = |value: Option<&Value>| match value {
        Some(Value::String(text)) => escape(text),
        Some(value @ (Value::Object(_) | Value::Number(_))) => {
            figure(value).map_or_else(|| escape(&value.to_string()), |it| number(it.median))
        }
        Some(value @ Value::Bool(_)) => value.to_string(),
        _ => String::new(),
    };
    let mut table = format!("<details><summary>{}</summary><table><tr>", escape(suite));
    if rows.is_empty() {
        return format!(
            "<details><summary>{}</summary><pre>{}</pre></details>",
            escape(suite),
            escape(&serde_json::to_string_pretty(content).unwrap_or_default())
        );
    }
    names.iter().for_each(|name| table.push_str(&format!("<th>{}</th>", escape(name))));
    for row in rows {
        table.push_str("</tr><tr>");
        names.iter().for_each(|name| table.push_str(&format!("<td>{}</td>", cell(row.get(*name)))));
    }
    table.push_str("</tr></table></details>");
    table
}

fn comparison(changes: &[Change]) -> String {
    let worse = changes.iter().filter(|change| change.is_worse).count();
    let mut section = format!(
        "<section><h2>Since the older report</h2><p>{worse} of {} figures are worse.</p><table class=\"changes\">\
         <tr><th>suite</th><th>row</th><th>figure</th><th>was</th><th>is</th><th>ratio</th></tr>",
        changes.len()
    );
    let mut sorted: Vec<_> = changes.iter().collect();
    sorted.sort_by_key(|change| !change.is_worse);
    for change in sorted {
        let _ = write!(
            section,
            "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            if change.is_worse { " class=\"worse\"" } else { "" },
            escape(&change.suite),
            escape(&change.row),
            change.figure,
            number(change.old),
            number(change.new),
            number(change.new / change.old),
        );
    }
    section.push_str("</table></section>");
    section
}
