//! `bench report` from outside: a quick run on the emulated GPU, and its page in a real browser.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::run;
use gpunet_support::testing::{Documented, Finished, Folder, hang_limit, skip};
use serde_json::Value;

/// Has the browser report how it drew each chart, as JSON in an element of its own: how far each line and bar
/// goes, and whether what belongs to a chart lies inside it.
const LOOK: &str = r#"<script>
const charts = [...document.querySelectorAll('svg.chart')].map(svg => {
  const frame = svg.getBoundingClientRect();
  const inside = element => {
    const box = element.getBoundingClientRect();
    return box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  };
  const lines = [...svg.querySelectorAll('.series path')];
  return {
    title: svg.querySelector('title').textContent,
    width: frame.width, height: frame.height,
    lines: lines.map(path => path.getTotalLength()),
    colours: new Set(lines.map(path => getComputedStyle(path).stroke)).size,
    points: svg.querySelectorAll('.series circle').length,
    bars: [...svg.querySelectorAll('rect.bar')].map(bar => bar.getBoundingClientRect().width),
    texts: svg.querySelectorAll('text').length,
    inside: [...svg.querySelectorAll('path, circle, rect, text')].every(inside),
  };
});
const found = document.createElement('pre');
found.id = 'found';
found.textContent = JSON.stringify({charts, worse: document.querySelectorAll('tr.worse').length, remote: performance.getEntriesByType('resource').length});
document.body.append(found);
</script>"#;

/// How long a suite of a quick report may take, and so may all of them.
const SUITES: Duration = Duration::from_secs(60);

fn bench(arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(arguments);
    let output = gpunet_support::testing::run(&mut command, SUITES);
    assert!(output.status.success(), "{arguments:?}: {}: {}", output.status, output.stderr);
    output
}

/// What the browser found on a page; none where there is no browser.
fn look_at(page: &Path, folder: &Path) -> Option<Value> {
    let browser = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).map(|place| place.join("chromium")).collect::<Vec<_>>()
    });
    let browser = browser.into_iter().find(|program| program.is_file())?;
    let text = std::fs::read_to_string(page).expect("the page");
    let looked = folder.join("looked.html");
    std::fs::write(&looked, text.replace("</body>", &format!("{LOOK}</body>"))).expect("a copy");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args(["--disable-background-networking", "--disable-component-update"]);
    command.args(["--disable-sync", "--window-size=1200,900", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("file://{}", looked.display()));
    let printed = run(command);
    let dom = &printed.stdout;
    let found = dom.split_once("id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("the browser drew nothing: {dom:.500}"));
    let plain = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&plain).expect("JSON"))
}

#[test]
fn a_browser_draws_every_chart_of_a_quick_run() {
    let folder = Folder::new("report");
    let place = |name: &str| folder.path(name).display().to_string();
    let (json, page) = (place("report.json"), place("report.html"));
    let only = "--only=sizes,streams,sgemm";
    // Other steps may have most of the machine.
    let limit = format!("--limit={}", hang_limit(SUITES).as_secs().min(3600));
    let quick = ["report", "--gpu", "emulated", "--quick", only, &limit];
    bench(&[&quick[..], &["--out", &json, "--html", &page]].concat());
    let text = std::fs::read_to_string(&json).expect("the report");
    let mut report: Value = serde_json::from_str(&text).expect("JSON");
    Documented::of(&["bench report"]).check(&report);
    assert_eq!(report["schema"], 1);
    for suite in ["sizes", "streams", "sgemm"] {
        let own = format!("bench {suite}");
        Documented::of(&["bench suites", &own]).check(&report["suites"][suite]);
    }
    assert_eq!(report["not_run"], serde_json::json!({}));
    // An older report in which one figure was better.
    let row = &mut report["suites"]["sizes"]["rows"][0]["gpunet_us"];
    *row = serde_json::json!({"median": 1e-3, "p25": 1e-3, "p75": 1e-3});
    let old = place("old.json");
    std::fs::write(&old, report.to_string()).expect("the older report");
    let compared = place("compared.html");
    let output = bench(&["report", "--from", &json, "--compare", &old, "--html", &compared]);
    let said = &output.stdout;
    assert!(
        said.contains("worse: sizes, bytes 64, threads 32, transport tcp: gpunet_us"),
        "{said}"
    );

    let Some(found) = look_at(Path::new(&compared), folder.root()) else {
        return skip("a_browser_draws_every_chart_of_a_quick_run", "chromium is not installed");
    };
    assert_eq!(found["remote"], 0, "the page needs nothing else");
    assert_eq!(found["worse"], 1);
    let charts = found["charts"].as_array().expect("a list");
    let titles: Vec<_> = charts.iter().filter_map(|chart| chart["title"].as_str()).collect();
    let wanted = [
        "By TCP",
        "By TCP, what gpunet adds",
        "Kernel to kernel",
        "Into kernels",
        "Out of kernels",
        "Speed, of the kernel without calls",
    ];
    assert_eq!(titles, wanted);
    for chart in charts {
        let number = |name: &str| chart[name].as_f64().unwrap_or_default();
        assert!(number("width") > 300.0 && number("height") > 40.0, "{chart}");
        assert_eq!(chart["inside"], true, "{chart}");
        assert!(number("texts") > 3.0, "{chart}");
        let lengths = |name: &str| -> Vec<f64> {
            chart[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let (lines, bars) = (lengths("lines"), lengths("bars"));
        assert!(!lines.is_empty() || !bars.is_empty(), "{chart}");
        assert!(lines.iter().chain(&bars).all(|length| *length >= 1.0), "{chart}");
        assert_eq!(
            number("colours"),
            lines.len() as f64,
            "each line has a colour of its own: {chart}"
        );
        assert!(number("points") >= 2.0 * lines.len() as f64, "{chart}");
    }
}

#[test]
fn what_is_no_report_is_refused_in_a_line() {
    let folder = Folder::new("no-report");
    let path = folder.path("x.json");
    for (content, why) in
        [("{}", "not the JSON"), ("[", "not the JSON"), (r#"{"schema": 9}"#, "schema 9")]
    {
        std::fs::write(&path, content).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command
            .args(["report", "--gpu", "emulated", "--from"])
            .arg(&path)
            .current_dir(folder.root());
        let output = run(command);
        let said = &output.stderr;
        assert!(!output.status.success() && said.contains(why), "{content}: {said}");
    }
}
