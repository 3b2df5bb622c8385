//! Properties of every picture.

use std::collections::HashMap;

use fitgpt_config::{Config, Precision, Written};
use fitgpt_exec::cpu::{CpuTarget, isa::Isa};
use fitgpt_fit::torch;
use fitgpt_model::{
    job::Job,
    report::{DeviceMemory, Overhead, PhaseReport, PhaseTimeline, PlanReport},
};
use fitgpt_program::{Names, TensorClass, units::Bytes};

use super::{
    chart::{Chart, Panel, columns},
    html,
    layout::panel_areas,
    svg,
};

const TINY: &[(&str, &str)] = &[
    ("n_layer", "2"),
    ("n_head", "2"),
    ("n_embd", "32"),
    ("block_size", "24"),
    ("batch_size", "4"),
    ("gradient_accumulation_steps", "3"),
];

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

fn config(changes: &[(&str, &str)]) -> Config {
    let mut written = Written::new();
    for (key, value) in changes {
        written.set(key, value).unwrap();
    }
    written.resolve().unwrap()
}

fn device(usable: u64) -> DeviceMemory {
    let usable_bytes = Bytes::new(usable);
    DeviceMemory { name: "a <card> & \"more\"".into(), total_bytes: usable_bytes, usable_bytes }
}

/// FitGPT's plan as `Setup` makes it, on a fixed machine.
fn ours(config: &Config, vocab: u32, usable: u64) -> Panel {
    let target = CpuTarget::new(2, Isa::named("portable").unwrap());
    let precision = Precision::Float32;
    let job = Job::new(config, vocab, precision, &target, Bytes::ZERO);
    let programs = job.training_programs(Names::Kept);
    let phases = programs.all().map(|p| PhaseReport::of(p.name(), [p], &target)).collect();
    let timelines = programs.all().map(|p| PhaseTimeline::of(p.name(), p, &target)).collect();
    let overhead = Overhead {
        context_bytes: [Bytes::new(20 * KIB), Bytes::new(90 * KIB)],
        ..Overhead::default()
    };
    let report = PlanReport::new("fitgpt", device(usable), overhead, config, phases, None);
    Panel { report, timelines, precision, vocab }
}

fn theirs(config: &Config, vocab: u32, usable: u64) -> Panel {
    let precision = Precision::Bfloat16;
    let overhead = torch::overhead(config);
    let options = torch::TorchOptions::from_config(config, precision);
    let report = torch::torch_report(config, vocab, &options, device(usable), overhead);
    let timelines = torch::torch_timelines(config, vocab, &options);
    Panel { report, timelines, precision, vocab }
}

/// Pictures of many kinds: one panel and two, budgets far above, near and below, deep and
/// shallow, compiled, eager, recomputing, resumed.
fn charts() -> Vec<Chart> {
    let tiny = config(TINY);
    let eager = config(&[("compile", "False"), ("n_layer", "48")]);
    let again = config(&[("compile", "False"), ("grad_checkpoint", "True")]);
    let resumed = config(&[("init_from", "resume")]);
    let mut charts = Vec::new();
    for usable in [0, 1, 700 * KIB, 1200 * KIB, GIB, 12 * GIB, u64::MAX / 4] {
        charts.push(vec![ours(&tiny, 61, usable)]);
        charts.push(vec![theirs(&tiny, 61, usable), ours(&tiny, 61, usable)]);
    }
    for config in [&eager, &again, &resumed] {
        charts.push(vec![theirs(config, 50304, 12 * GIB), ours(config, 50304, 12 * GIB)]);
    }
    charts.into_iter().map(|panels| Chart { panels }).collect()
}

/// The tags of a document as (name, attributes). Panics if they do not balance, an attribute has no
/// quotes, or text is not escaped.
fn tags(document: &str) -> Vec<(&str, HashMap<&str, &str>)> {
    let mut open = Vec::new();
    let mut tags = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "{text:?}");
        let bare = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
        assert!(!bare.replace("&quot;", "").replace("&#39;", "").contains('&'), "{text:?}");
        let end = start + rest[start..].find('>').expect("a tag is closed");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let (inner, is_alone) = tag.strip_suffix('/').map_or((tag, false), |inner| (inner, true));
        let (name, mut attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        let mut map = HashMap::new();
        while let Some((key, more)) = attributes.split_once("=\"") {
            let (value, more) = more.split_once('"').expect("a value is closed");
            assert_eq!(map.insert(key.trim(), value), None, "{tag}");
            attributes = more;
        }
        assert_eq!(attributes.trim(), "", "{tag}");
        if !is_alone {
            open.push(name);
        }
        tags.push((name, map));
    }
    assert_eq!(open, [""; 0], "every tag is closed");
    tags
}

/// The numbers of an attribute or a path.
fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
    parts.filter(|part| !part.is_empty()).map(|part| part.parse().expect(part)).collect()
}

#[test]
fn every_picture_is_well_formed_and_stays_within_its_bounds() {
    for chart in charts() {
        let svg = svg::draw(&chart);
        let tags = tags(&svg);
        let size = numbers(tags[0].1["viewBox"]);
        for (name, attributes) in &tags {
            for (key, most) in [("x", size[2]), ("y", size[3]), ("cx", size[2]), ("cy", size[3])] {
                for number in attributes.get(key).map_or(Vec::new(), |value| numbers(value)) {
                    assert!((0.0..=most).contains(&number), "{name} {attributes:?}");
                }
            }
            for number in attributes.get("d").map_or(Vec::new(), |path| numbers(path)) {
                assert!((0.0..=size[2]).contains(&number), "{attributes:?}");
            }
        }
        assert!(!svg.contains("<card>") && svg.contains("a &lt;card&gt; &amp; &quot;more&quot;"));
    }
}

#[test]
fn the_classes_of_a_legend_sum_to_the_peak_of_the_report() {
    for chart in charts() {
        for panel in &chart.panels {
            let highest = panel.peak().unwrap();
            assert_eq!(highest.peak.bytes, panel.report.peak_bytes);
            assert_eq!(highest.peak.classes.iter().copied().sum::<Bytes>(), highest.peak.bytes);
            assert_eq!(panel.timelines[highest.timeline].name, panel.report.peak_phase);
            for timeline in &panel.timelines {
                let phase = panel.report.phases.iter().find(|p| p.name == timeline.name).unwrap();
                let peak = timeline.peak().unwrap();
                assert_eq!((peak.bytes, peak.at.0), (phase.peak_bytes, phase.at.index));
                assert_eq!(peak.classes, phase.classes);
            }
        }
    }
}

#[test]
fn a_column_shows_its_highest_op() {
    for chart in charts() {
        for (panel, area) in chart.panels.iter().zip(panel_areas(&chart)) {
            for (timeline, span) in panel.timelines.iter().zip(area.spans) {
                let total = |op: usize| timeline.profile.by_op[op].iter().copied().sum::<Bytes>();
                let shown = columns(timeline, span.width);
                assert_eq!(shown.len() as u64, span.width);
                assert!(shown.is_sorted(), "ops are in order");
                let highest = shown.iter().map(|op| total(*op)).max();
                assert_eq!(highest, timeline.peak().map(|peak| peak.bytes));
                if timeline.ops.len() as u64 <= span.width {
                    for op in 0..timeline.ops.len() {
                        let neighbours = op.saturating_sub(1)..(op + 2).min(timeline.ops.len());
                        let is_lower = neighbours.clone().any(|other| total(other) >= total(op));
                        assert!(shown.contains(&op) || is_lower, "{op} of {}", timeline.name);
                    }
                }
            }
        }
    }
}

#[test]
fn panels_share_a_scale_and_do_not_overlap() {
    for chart in charts() {
        let panel_areas = panel_areas(&chart);
        for pair in panel_areas.windows(2) {
            assert!(pair[0].x + pair[0].width < pair[1].x);
            assert_eq!(pair[0].width, pair[1].width);
        }
        for area in &panel_areas {
            let last = area.spans.last().unwrap();
            assert_eq!(area.spans[0].x, area.x);
            assert_eq!(last.x + last.width, area.x + area.width);
            for pair in area.spans.windows(2) {
                assert!(pair[0].x + pair[0].width < pair[1].x, "phases do not overlap");
            }
        }
    }
}

#[test]
fn a_page_holds_the_picture_and_every_op_without_external_resources() {
    let config = config(TINY);
    let chart = Chart { panels: vec![theirs(&config, 61, GIB), ours(&config, 61, GIB)] };
    let page = html::draw(&chart);
    assert!(page.contains(&svg::draw(&chart)));
    let addresses = page.matches("http").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count(), "only a name");
    for word in [" src=", "href=", "@import", "url(http", "fetch("] {
        assert!(!page.contains(word), "{word}");
    }
    let (_, data) = page.split_once("id=\"chart\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    for (panel, shown_panel) in chart.panels.iter().zip(data["panels"].as_array().unwrap()) {
        for (timeline, drawn) in
            panel.timelines.iter().zip(shown_panel["phases"].as_array().unwrap())
        {
            let names = drawn["names"].as_array().unwrap();
            let ops = drawn["ops"].as_array().unwrap();
            let ops = ops.iter().map(|op| names[op.as_u64().unwrap() as usize].as_str().unwrap());
            assert_eq!(ops.collect::<Vec<_>>(), timeline.ops);
            let at = timeline.peak().unwrap();
            let sum = drawn["bytes"][at.at.index()].as_array().unwrap().iter();
            assert_eq!(sum.map(|b| b.as_u64().unwrap()).sum::<u64>(), at.bytes.get());
        }
    }
    assert_eq!(data["classes"].as_array().unwrap().len(), TensorClass::ALL.len());
}

#[test]
fn the_picture_of_a_tiny_model() {
    let panels = vec![ours(&config(TINY), 61, 1200 * KIB)];
    insta::assert_snapshot!(svg::draw(&Chart { panels }));
}
