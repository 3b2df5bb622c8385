//! The curve of a loss as SVG: a line for the steps, dots for the evaluations.

use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 480.0;
/// Left, top, right, bottom.
const MARGIN: [f64; 4] = [72.0, 56.0, 24.0, 56.0];
/// Largest number of points of the line: about one per pixel.
const POINTS: usize = 2000;
/// Approximate number of ticks on an axis.
const TICKS: f64 = 6.0;

const LINE: &str = "#7a8ca3";
const DOTS: [&str; 2] = ["#1f77b4", "#d62728"];

/// Points of a curve: (step, loss).
pub(crate) type Points = Vec<(u64, f64)>;

/// The curve and its labels.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Above the picture.
    pub(crate) title: String,
    /// Below the axis of steps.
    pub(crate) axis: String,
    /// The loss of every step.
    pub(crate) line: (String, Points),
    /// Evaluations of the training and of the validation data.
    pub(crate) dots: [(String, Points); 2],
}

/// An axis: the values at its two ends, and their positions in the picture.
#[derive(Clone, Copy)]
struct Axis {
    ends: [f64; 2],
    at: [f64; 2],
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let share = (value - self.ends[0]) / (self.ends[1] - self.ends[0]);
        self.at[0] + share * (self.at[1] - self.at[0])
    }

    /// Round numbers along the axis.
    fn ticks(&self) -> Vec<f64> {
        let raw = (self.ends[1] - self.ends[0]) / TICKS;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0];
        let step = power * steps.into_iter().find(|s| s * power >= raw).unwrap_or(10.0);
        let (first, last) = ((self.ends[0] / step).ceil(), (self.ends[1] / step).floor());
        (0..=(last - first).max(0.0) as u32).map(|n| (first + f64::from(n)) * step).collect()
    }
}

/// The picture. Points that are not finite are skipped; without any, only the frame and the title
/// are drawn.
pub(crate) fn draw(curve: &Curve) -> String {
    let line = thinned(&finite(&curve.line.1));
    let dots = curve.dots.each_ref().map(|(_, points)| finite(points));
    let all = || line.iter().chain(dots.iter().flatten());
    let (x, y) =
        (axis(all().map(|p| p.0), AxisKind::Steps), axis(all().map(|p| p.1), AxisKind::Losses));

    let [left, top, right, bottom] = MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{left}\" y=\"24\" font-size=\"16\">{}</text>\n",
        escaped(&curve.title)
    );
    grid(&mut svg, &x, &y);
    let (middle, below) = (WIDTH / 2.0, HEIGHT - 12.0);
    let axis_name = escaped(&curve.axis);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{axis_name}</text>"
    );
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>",
        WIDTH - left - right,
        HEIGHT - top - bottom
    );

    let mut path = String::new();
    for (step, loss) in &line {
        let _ = write!(path, "{:.1},{:.1} ", x.place(*step), y.place(*loss));
    }
    if !path.is_empty() {
        let path = path.trim_end();
        let _ = writeln!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{LINE}\" stroke-width=\"1.2\"/>"
        );
    }
    for (points, colour) in dots.iter().zip(DOTS) {
        for (step, loss) in points {
            let (cx, cy) = (x.place(*step), y.place(*loss));
            let _ = writeln!(
                svg,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3.5\" fill=\"{colour}\">\
                 <title>{step}: {loss:.4}</title></circle>"
            );
        }
    }
    legend(&mut svg, curve);
    svg.push_str("</svg>\n");
    svg
}

/// Lines and numbers of both axes.
fn grid(svg: &mut String, x: &Axis, y: &Axis) {
    for tick in y.ticks() {
        let (at, from, to) = (y.place(tick), x.at[0], x.at[1]);
        let _ = writeln!(
            svg,
            "<path d=\"M{from} {at:.1}H{to}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            from - 8.0,
            at + 4.5,
            number(tick)
        );
    }
    for tick in x.ticks() {
        let (at, from, to) = (x.place(tick), y.at[0], y.at[1]);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {from}V{to}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            from + 18.0,
            number(tick)
        );
    }
}

/// The legend, in one row below the title.
fn legend(svg: &mut String, curve: &Curve) {
    let names = [&curve.line.0, &curve.dots[0].0, &curve.dots[1].0];
    let mut at = MARGIN[0];
    for (name, colour) in names.into_iter().zip([LINE, DOTS[0], DOTS[1]]) {
        let name_columns = unicode_width::UnicodeWidthStr::width(name.as_str());
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"41\" r=\"4\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"45\" font-size=\"12\">{}</text>",
            at + 4.0,
            at + 13.0,
            escaped(name)
        );
        // A letter of a sans-serif font of size 12 is about 7 wide.
        at += 36.0 + 7.0 * name_columns as f64;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AxisKind {
    Steps,
    Losses,
}

/// The axis for all `values`, with a margin around losses.
fn axis(values: impl Iterator<Item = f64>, along: AxisKind) -> Axis {
    let [left, top, right, bottom] = MARGIN;
    let (mut low, mut high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        (low, high) = (0.0, 1.0);
    }
    let margin = match along {
        AxisKind::Steps => 0.0,
        AxisKind::Losses => 0.05 * (high - low),
    };
    // A single value still needs an axis.
    let least = 1e-6 * low.abs().max(1.0);
    let margin = if high - low + 2.0 * margin < least { 0.5 * low.abs().max(1.0) } else { margin };
    let at = match along {
        AxisKind::Steps => [left, WIDTH - right],
        AxisKind::Losses => [HEIGHT - bottom, top],
    };
    Axis { ends: [low - margin, high + margin], at }
}

fn finite(points: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let finite = points.iter().filter(|(_, loss)| loss.is_finite());
    finite.map(|(step, loss)| (*step as f64, *loss)).collect()
}

/// At most [`POINTS`] points, each a mean over consecutive steps.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(POINTS).max(1);
    let mean = |group: &[(f64, f64)]| {
        let n = group.len() as f64;
        (group.iter().map(|p| p.0).sum::<f64>() / n, group.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(group).map(mean).collect()
}

/// Without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text escaped for XML, without characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(line: Points, val: Points) -> Curve {
        Curve {
            title: "a < b & \"c\"\u{1}".to_owned(),
            axis: "step".to_owned(),
            line: ("loss".to_owned(), line),
            dots: [("train".to_owned(), Vec::new()), ("val".to_owned(), val)],
        }
    }

    /// Checks that tags nest and close and that text is escaped; returns the tags in order.
    fn tags(xml: &str) -> Vec<String> {
        let (mut open, mut seen, mut rest) = (Vec::new(), Vec::new(), xml);
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>'), "{text}");
            for entity in text.split('&').skip(1) {
                let known = ["amp;", "lt;", "gt;", "quot;"];
                assert!(known.iter().any(|name| entity.starts_with(name)), "&{entity}");
            }
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            let name = tag.trim_matches('/').split_whitespace().next().unwrap().to_owned();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else {
                seen.push(name.clone());
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
            rest = &rest[end + 1..];
        }
        assert_eq!(rest.trim(), "");
        assert!(open.is_empty(), "{open:?}");
        seen
    }

    fn count(tags: &[String], name: &str) -> usize {
        tags.iter().filter(|tag| *tag == name).count()
    }

    #[test]
    fn a_picture_is_well_formed_with_any_text() {
        let line = (0..50u32).map(|s| (u64::from(s), f64::from(50 - s) / 10.0)).collect();
        let svg = draw(&curve(line, vec![(0, 4.9), (40, 1.5)]));
        let tags = tags(&svg);
        assert_eq!((count(&tags, "svg"), count(&tags, "polyline")), (1, 1));
        assert_eq!(count(&tags, "circle"), 3 + 2, "three of the legend and two evaluations");
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;</text>"), "{svg}");
        assert!(!svg.contains('\u{1}'));
    }

    #[test]
    fn a_falling_loss_falls_on_the_picture() {
        let svg = draw(&curve(vec![(0, 4.0), (100, 1.0)], Vec::new()));
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let points: Vec<Vec<f64>> = points
            .split(' ')
            .map(|point| point.split(',').map(|n| n.parse().unwrap()).collect())
            .collect();
        assert!(points[0][0] < points[1][0] && points[0][1] < points[1][1], "{points:?}");
    }

    #[test]
    fn no_points_one_point_and_nan_are_drawn_too() {
        for line in [vec![], vec![(7, 2.5)], vec![(0, f64::NAN), (1, f64::INFINITY)]] {
            let svg = draw(&curve(line, Vec::new()));
            tags(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_long_run_is_thinned_and_keeps_its_ends() {
        let line: Points = (0..1_000_000u64).map(|s| (s, 1.0)).collect();
        let thin = thinned(&finite(&line));
        assert!(thin.len() <= POINTS);
        assert!(thin[0].0 < 1000.0 && thin[thin.len() - 1].0 > 999_000.0);
    }
}
