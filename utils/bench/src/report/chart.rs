//! Charts as SVG: lines over a logarithmic axis or over named places, and bars. Colours are the page's
//! (`series-N`), so that they follow a light or dark screen; every point has a title with its figures.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;
/// Of a bar, with the space behind it.
const BAR: f64 = 18.0;
/// Room for the names of bars.
const NAMES: f64 = 300.0;

/// A figure with its quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) p25: f64,
    pub(super) p75: f64,
}

impl Figure {
    pub(super) fn exact(value: f64) -> Self {
        Self { median: value, p25: value, p75: value }
    }
}

/// A line: points by place on the horizontal axis, which [`Lines::places`] names.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(usize, Figure)>,
}

/// Lines over places in order, with a logarithmic vertical axis.
pub(super) struct Lines {
    pub(super) title: String,
    pub(super) unit: &'static str,
    pub(super) x_label: &'static str,
    pub(super) places: Vec<String>,
    pub(super) series: Vec<Series>,
}

/// Bars, each with a name and a figure, in groups of one colour.
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// A line across all of them: what was wanted.
    pub(super) limit: Option<f64>,
    pub(super) rows: Vec<(String, Figure)>,
}

/// Text as SVG and HTML take it.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number as people read it.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A power of ten beside its line: short, since there is little room.
fn tick(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{v:.0e}"),
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e3 => format!("{} k", v / 1e3),
        v if v >= 1.0 => format!("{v}"),
        v => number(v),
    }
}

/// The powers of ten around some figures.
fn decades(figures: impl Iterator<Item = f64>) -> Option<(i32, i32)> {
    let positive = figures.filter(|figure| figure.is_finite() && *figure > 0.0);
    let (least, most) = positive.fold((f64::INFINITY, 0.0_f64), |(least, most), figure| {
        (least.min(figure), most.max(figure))
    });
    (most > 0.0).then(|| {
        let low = least.log10().floor() as i32;
        (low, (most.log10().ceil() as i32).max(low + 1))
    })
}

impl Lines {
    /// The chart, or nothing where there is no figure.
    pub(super) fn svg(&self) -> Option<String> {
        let all = self.series.iter().flat_map(|series| &series.points);
        let (low, high) =
            decades(all.flat_map(|(_, figure)| [figure.median, figure.p25, figure.p75]))?;
        let (wide, tall) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let x = |place: usize| LEFT + wide * (place as f64 + 0.5) / self.places.len().max(1) as f64;
        let y = |value: f64| {
            let share =
                (value.max(10_f64.powi(low)).log10() - f64::from(low)) / f64::from(high - low);
            TOP + tall * (1.0 - share)
        };
        let mut svg = open(&self.title, HEIGHT);
        for decade in low..=high {
            let (at, value) = (y(10_f64.powi(decade)), 10_f64.powi(decade));
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}"/><text class="tick" x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                tick(value),
            );
        }
        for (place, name) in self.places.iter().enumerate() {
            let _ = write!(
                svg,
                r#"<text class="tick" x="{:.1}" y="{}" text-anchor="middle">{}</text>"#,
                x(place),
                HEIGHT - BOTTOM + 18.0,
                escape(name),
            );
        }
        let _ = write!(
            svg,
            r#"<text class="label" x="{:.1}" y="{}" text-anchor="middle">{}</text><text class="label" x="14" y="{:.1}" text-anchor="middle" transform="rotate(-90 14 {:.1})">{}</text>"#,
            LEFT + wide / 2.0,
            HEIGHT - 8.0,
            escape(self.x_label),
            TOP + tall / 2.0,
            TOP + tall / 2.0,
            escape(self.unit),
        );
        for (number_of, series) in self.series.iter().enumerate() {
            svg.push_str(&self.line(number_of, series, &x, &y));
        }
        svg.push_str("</svg>");
        svg.push_str(&self.legend());
        Some(svg)
    }

    fn line(
        &self,
        number_of: usize,
        series: &Series,
        x: &dyn Fn(usize) -> f64,
        y: &dyn Fn(f64) -> f64,
    ) -> String {
        let mut path = String::new();
        let mut marks = String::new();
        for (place, figure) in &series.points {
            let (at_x, at_y) = (x(*place), y(figure.median));
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{at_x:.1} {at_y:.1}");
            let title = format!(
                "{}, {}: {} {} [{} {}]",
                series.name,
                self.places.get(*place).map_or("", String::as_str),
                number(figure.median),
                self.unit,
                number(figure.p25),
                number(figure.p75)
            );
            let _ = write!(
                marks,
                r#"<line class="range" x1="{at_x:.1}" x2="{at_x:.1}" y1="{:.1}" y2="{:.1}"/><circle cx="{at_x:.1}" cy="{at_y:.1}" r="4"><title>{}</title></circle>"#,
                y(figure.p25),
                y(figure.p75),
                escape(&title),
            );
        }
        format!(r#"<g class="series series-{number_of}"><path d="{path}"/>{marks}</g>"#)
    }

    fn legend(&self) -> String {
        let entries = self.series.iter().enumerate().map(|(number_of, series)| {
            let name = escape(&series.name);
            format!(r#"<span class="series-{number_of}"><i></i>{name}</span>"#)
        });
        format!(r#"<p class="legend">{}</p>"#, entries.collect::<String>())
    }
}

impl Bars {
    /// The chart, or nothing where there is no figure.
    pub(super) fn svg(&self) -> Option<String> {
        let shown = |figure: &Figure| figure.median.is_finite() && figure.median >= 0.0;
        let rows: Vec<_> = self.rows.iter().filter(|(_, figure)| shown(figure)).collect();
        let most =
            rows.iter().map(|(_, figure)| figure.median).chain(self.limit).fold(0.0, f64::max);
        if rows.is_empty() || most <= 0.0 {
            return None;
        }
        let (wide, height) = (WIDTH - NAMES - 80.0, rows.len() as f64 * BAR + 24.0);
        let x = |value: f64| NAMES + wide * (value / most).min(1.0);
        let mut svg = open(&self.title, height);
        for (at, (name, figure)) in rows.iter().enumerate() {
            let top = 4.0 + at as f64 * BAR;
            let title = format!("{name}: {} {}", number(figure.median), self.unit);
            let over = self.limit.is_some_and(|limit| figure.median > limit);
            let _ = write!(
                svg,
                r#"<text class="tick" x="{}" y="{:.1}" text-anchor="end">{}</text><rect class="{}" x="{NAMES}" y="{top:.1}" width="{:.1}" height="{}"><title>{}</title></rect><text class="tick" x="{:.1}" y="{:.1}">{}</text>"#,
                NAMES - 6.0,
                top + 11.0,
                escape(name),
                if over { "bar over" } else { "bar" },
                (x(figure.median) - NAMES).max(1.0),
                BAR - 5.0,
                escape(&title),
                x(figure.median) + 6.0,
                top + 11.0,
                number(figure.median),
            );
        }
        if let Some(limit) = self.limit {
            let at = x(limit);
            let _ = write!(
                svg,
                r#"<line class="limit" x1="{at:.1}" x2="{at:.1}" y1="0" y2="{:.1}"><title>wanted: {} {}</title></line>"#,
                height - 18.0,
                number(limit),
                self.unit,
            );
        }
        let _ = write!(
            svg,
            r#"<text class="label" x="{:.1}" y="{:.1}">{}</text></svg>"#,
            NAMES,
            height - 4.0,
            escape(self.unit)
        );
        Some(svg)
    }
}

fn open(title: &str, height: f64) -> String {
    format!(
        r#"<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img"><title>{}</title>"#,
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points_inside_the_chart() {
        let points =
            vec![(0, Figure::exact(1.0)), (1, Figure { median: 50.0, p25: 40.0, p75: 70.0 })];
        let lines = Lines {
            title: "round <trips>".to_owned(),
            unit: "us",
            x_label: "bytes",
            places: vec!["64 B".to_owned(), "1 KiB".to_owned()],
            series: vec![Series { name: "tcp & more".to_owned(), points }],
        };
        let svg = lines.svg().expect("there are figures");
        assert!(svg.contains("round &lt;trips&gt;") && svg.contains("tcp &amp; more"));
        // 1 us is the lowest of two decades, 50 us lies 0.85 of the way up.
        assert!(svg.contains(r#"d="M224.0 312.0L544.0 60.6""#), "{svg}");
        assert!(svg.contains("50.00 us [40.00 70.00]"));
    }

    #[test]
    fn a_tick_has_room_beside_its_line() {
        let shown = [1e-4, 0.1, 10.0, 1e5, 1e8, 1e12].map(tick);
        assert_eq!(shown, ["0.0001", "0.10", "10", "100 k", "100 M", "1e12"]);
        assert!((-4..300).all(|decade| tick(10_f64.powi(decade)).len() <= 6));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let lines = Lines {
            title: String::new(),
            unit: "us",
            x_label: "",
            places: vec!["a".to_owned()],
            series: vec![Series {
                name: String::new(),
                points: vec![(0, Figure::exact(f64::NAN))],
            }],
        };
        assert_eq!(lines.svg(), None);
        let rows = vec![("a".to_owned(), Figure::exact(f64::NAN))];
        let bars = Bars { title: String::new(), unit: "", limit: Some(1.0), rows };
        assert_eq!(bars.svg(), None);
    }

    #[test]
    fn a_bar_above_the_limit_is_marked() {
        let rows = vec![("a".to_owned(), Figure::exact(1.0)), ("b".to_owned(), Figure::exact(2.0))];
        let bars = Bars { title: "t".to_owned(), unit: "x", limit: Some(1.5), rows };
        let svg = bars.svg().expect("there are figures");
        assert_eq!(svg.matches("bar over").count(), 1);
    }
}
