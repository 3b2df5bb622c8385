//! Writes the text of a story from a plot and a cast.

use super::{cast::Cast, chance::StoryRandom, plot::Plot, words};

/// A story: a title half of the time, then one paragraph.
pub(super) fn write_story(plots: &[Plot], story: u64) -> String {
    let mut chance = StoryRandom::of_story(story);
    let plot = &plots[chance.below(plots.len())];
    let cast = Cast::draw(&mut chance);
    let mut writer = StoryWriter { cast: &cast, chance };
    let mut text = String::new();
    if writer.chance.one_in(2) {
        let title = writer.chance.pick(&plot.titles);
        text.push_str(&in_title_case(&writer.line(title)));
        text.push('\n');
    }
    let mut is_first = true;
    for beat in &plot.beats {
        if beat.is_optional && writer.chance.one_in(2) {
            continue;
        }
        if !is_first {
            text.push(' ');
        }
        is_first = false;
        let line = writer.chance.pick(&beat.lines);
        text.push_str(&writer.line(line));
    }
    text
}

struct StoryWriter<'a> {
    cast: &'a Cast,
    chance: StoryRandom,
}

impl StoryWriter<'_> {
    /// A line of a plot with every choice made.
    fn line(&mut self, template: &str) -> String {
        let mut text = String::new();
        self.expand(template, &mut text);
        with_articles(&with_capitals(&text))
    }

    /// Appends `template` with names, phrases and choices replaced.
    ///
    /// # Panics
    ///
    /// If the template breaks the rules of `plots.txt`; a test expands every line.
    fn expand(&mut self, template: &str, text: &mut String) {
        let mut rest = template;
        while let Some(open) = rest.find(['{', '<', '[']) {
            text.push_str(&rest[..open]);
            let inside = &rest[open + 1..];
            let close = match &rest[open..=open] {
                "{" => {
                    let close = inside.find('}').expect("a brace is closed");
                    self.name(&inside[..close], text);
                    close
                }
                "<" => {
                    let close = inside.find('>').expect("an angle bracket is closed");
                    let phrases = words::phrases(&inside[..close]).expect("a phrase has a list");
                    let phrase = self.chance.pick(phrases);
                    self.expand(phrase, text);
                    close
                }
                _ => {
                    let close = inside.find(']').expect("a bracket is closed");
                    let n = inside[..close].split('|').count();
                    let chosen = self.chance.below(n);
                    let choice = inside[..close].split('|').nth(chosen).unwrap_or_default();
                    self.expand(choice, text);
                    close
                }
            };
            rest = &inside[close + 1..];
        }
        text.push_str(rest);
    }

    /// Appends the text for a name in braces, with a capital if the name has one.
    fn name(&mut self, name: &str, text: &mut String) {
        let mut lower = name.to_owned();
        lower[..1].make_ascii_lowercase();
        let word = self.cast.word(&lower).unwrap_or_else(|| panic!("unknown name `{name}`"));
        let start = text.len();
        self.expand(word, text);
        if lower != name {
            text[start..=start].make_ascii_uppercase();
        }
    }
}

/// Capitalises the beginning of every sentence, quoted or not.
fn with_capitals(text: &str) -> String {
    let mut capital = String::with_capacity(text.len());
    let mut begins = true; // a sentence begins here
    let mut is_quoted = false;
    let mut goes_on = false; // `"Here," said Ben, "half of it is yours"`
    for symbol in text.chars() {
        match symbol {
            '"' if is_quoted => {
                is_quoted = false;
                goes_on = capital.ends_with(',');
                begins = capital.ends_with('.'); // but `"Who?" asked Ben`
            }
            '"' => {
                is_quoted = true;
                begins = !goes_on;
            }
            ' ' => begins |= capital.ends_with(['.', '!', '?']),
            '.' => goes_on = false,
            _ => {}
        }
        if begins && symbol.is_ascii_alphabetic() {
            capital.push(symbol.to_ascii_uppercase());
            begins = false;
        } else {
            capital.push(symbol);
        }
    }
    capital
}

/// "a" before a vowel becomes "an".
fn with_articles(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            let article =
                joined.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            if article.eq_ignore_ascii_case("a") && word.starts_with(['a', 'e', 'i', 'o', 'u']) {
                joined.push('n');
            }
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

/// Capitals for all but the smallest words.
fn in_title_case(text: &str) -> String {
    let word = |(i, word): (usize, &str)| {
        let is_small =
            matches!(word, "a" | "an" | "and" | "at" | "for" | "in" | "of" | "the" | "to");
        let mut word = word.to_owned();
        if i == 0 || !is_small {
            word[..1].make_ascii_uppercase();
        }
        word
    };
    text.split(' ').enumerate().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stories::plot::plots;

    #[test]
    fn every_line_of_every_plot_can_be_expanded() {
        for plot in plots() {
            let lines = plot.beats.iter().flat_map(|beat| &beat.lines);
            for line in lines.chain(&plot.titles) {
                for story in 0..20 {
                    let mut chance = StoryRandom::of_story(story);
                    let cast = Cast::draw(&mut chance);
                    let line_text = StoryWriter { cast: &cast, chance }.line(line);
                    assert!(
                        !line_text.contains(['{', '}', '<', '>', '[', ']', '|']),
                        "{line_text}"
                    );
                    assert_eq!(line_text.matches('"').count() % 2, 0, "{line_text}");
                    let first = line_text.trim_start_matches('"').chars().next();
                    assert!(first.is_some_and(char::is_uppercase), "{line_text}");
                }
            }
            let lines = plot.beats.iter().flat_map(|beat| &beat.lines);
            for line in lines {
                assert!(line.ends_with(['.', '!', '?', '"']), "{line}");
                assert!(!line.contains("  "), "{line}");
            }
        }
    }

    #[test]
    fn sentences_begin_with_capitals_inside_and_outside_of_quotes() {
        let table = [
            ("it was late.", "It was late."),
            ("\"where is it?\" she asked.", "\"Where is it?\" she asked."),
            ("\"oh!\" cried Ben. \"it is gone.\"", "\"Oh!\" cried Ben. \"It is gone.\""),
            ("\"it is here,\" said Ben.", "\"It is here,\" said Ben."),
            ("\"here,\" said Ben, \"take it.\"", "\"Here,\" said Ben, \"take it.\""),
            ("\"yes,\" he said. \"take it.\"", "\"Yes,\" he said. \"Take it.\""),
            ("he called, \"come here!\"", "He called, \"Come here!\""),
            ("\"no.\" she ran. he ran.", "\"No.\" She ran. He ran."),
            ("\"stop! come back!\" he said.", "\"Stop! Come back!\" he said."),
        ];
        for (before, after) in table {
            assert_eq!(with_capitals(before), after);
        }
    }

    #[test]
    fn the_article_agrees_with_the_next_word() {
        let before = "A owl saw a orange kite, a bell and a umbrella. \"A apple!\"";
        let after = "An owl saw an orange kite, a bell and an umbrella. \"An apple!\"";
        assert_eq!(with_articles(before), after);
        assert_eq!(with_articles("Anna and a boy at sea"), "Anna and a boy at sea");
    }

    #[test]
    fn pronouns_agree_with_their_person() {
        let girls = words::GIRLS;
        for story in 0..500 {
            let mut chance = StoryRandom::of_story(story);
            let cast = Cast::draw(&mut chance);
            let mut writer = StoryWriter { cast: &cast, chance };
            let line_text = writer.line("{hero} {hero.he} {hero.him} {hero.his} {hero.himself}");
            let (name, pronouns) = line_text.split_once(' ').unwrap();
            if girls.contains(&name) {
                assert_eq!(pronouns, "she her her herself");
            } else if words::BOYS.contains(&name) {
                assert_eq!(pronouns, "he him his himself");
            }
        }
    }
}
