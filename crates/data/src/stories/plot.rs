//! The plots, read from `plots.txt`, which describes their format.

use std::collections::BTreeMap;

/// The plot of one kind of story.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) titles: Vec<&'static str>,
    pub(super) beats: Vec<Beat>,
}

/// A part of a story, of which one line is used.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) is_optional: bool,
    pub(super) lines: Vec<&'static str>,
}

/// Every plot, in the order of the file.
///
/// # Panics
///
/// If the file breaks its own rules; it is part of the program, and a test reads it.
pub(super) fn plots() -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut shared = BTreeMap::new();
    for text in include_str!("plots.txt").split("\n== ").skip(1) {
        let (name, body) = text.split_once('\n').expect("a plot has lines");
        let lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(name) = name.strip_prefix('@') {
            shared.insert(name, lines.collect::<Vec<_>>());
        } else {
            plots.push(plot(lines, &shared));
        }
    }
    plots
}

fn plot(
    lines: impl Iterator<Item = &'static str>,
    shared: &BTreeMap<&'static str, Vec<&'static str>>,
) -> Plot {
    let mut plot = Plot { titles: Vec::new(), beats: Vec::new() };
    for line in lines {
        if let Some(title) = line.strip_prefix("title ") {
            plot.titles.push(title);
        } else if line.starts_with(['*', '?']) {
            let lines = match line[1..].trim().strip_prefix('@') {
                Some(name) => {
                    shared.get(name).expect("a shared beat is defined before its use").clone()
                }
                None => Vec::new(),
            };
            plot.beats.push(Beat { is_optional: line.starts_with('?'), lines });
        } else {
            plot.beats.last_mut().expect("a line is in a beat").lines.push(line);
        }
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plot_has_titles_beats_and_lines() {
        let plots = plots();
        assert!(plots.len() >= 12);
        for plot in plots {
            assert!(!plot.titles.is_empty());
            let required = plot.beats.iter().filter(|beat| !beat.is_optional).count();
            assert!(required >= 4, "{plot:?}");
            assert!(plot.beats.iter().all(|beat| beat.lines.len() >= 2), "{plot:?}");
        }
    }
}
