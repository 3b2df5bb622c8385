//! The pages of `doctor --explain`: one for every rule, and one for every common claim.
//!
//! A rule's English page is the doc comment of its file; all other pages are in `pages/`.
//!
//! Promise: a page of `--explain` has the same headings and code in every language; a page without
//! a translation prints English. Test: this file.

use std::sync::LazyLock;

use fitgpt_say::Lang;

use crate::rules::RULES;

/// One page in every language, in the order of [`Lang::ALL`].
type Pages = [&'static str; 4];

macro_rules! pages {
    ($stem:literal) => {
        [
            include_str!(concat!("pages/", $stem, ".md")),
            include_str!(concat!("pages/zh/", $stem, ".md")),
            include_str!(concat!("pages/ja/", $stem, ".md")),
            include_str!(concat!("pages/de/", $stem, ".md")),
        ]
    };
}

/// Claims: the page and the names that select it.
static CLAIMS: [(Pages, &[&str]); 21] = [
    (pages!("eval_iters"), &["eval_iters", "eval_interval"]),
    (pages!("eval_batch_size"), &["eval_batch_size"]),
    (pages!("eval_block_size"), &["eval_block_size"]),
    (pages!("compile"), &["compile", "torch.compile"]),
    (pages!("loss_alone"), &["loss-alone", "loss_alone"]),
    (pages!("reduce_overhead"), &["reduce-overhead", "cuda_graphs"]),
    (pages!("empty_cache"), &["empty_cache", "torch.cuda.empty_cache"]),
    (
        pages!("expandable_segments"),
        &["expandable_segments", "max_split_size_mb", "pytorch_cuda_alloc_conf"],
    ),
    (pages!("kv_cache_in_training"), &["kv_cache"]),
    (
        pages!("gradient_checkpointing"),
        &["gradient_checkpointing_enable", "gradient_checkpointing", "grad_checkpoint"],
    ),
    (pages!("estimate_loss"), &["estimate_loss", "no_grad"]),
    (pages!("n_head"), &["n_head", "n_embd"]),
    (pages!("batch_size"), &["batch_size", "gradient_accumulation_steps"]),
    (pages!("weights"), &["weights", "float16", "bfloat16", "autocast"]),
    (pages!("data_loader"), &["data_loader", "dataloader", "memmap"]),
    (
        pages!("warnings"),
        &[
            "warnings",
            "gradscaler",
            "max_autotune",
            "set_float32_matmul_precision",
            "suppress_errors",
        ],
    ),
    (pages!("cards"), &["cards", "vram", "12gb"]),
    (pages!("cpu_offload"), &["cpu_offload", "offload"]),
    (pages!("ddp"), &["ddp", "torchrun"]),
    (pages!("nvidia_smi"), &["nvidia-smi", "nvidia_smi"]),
    (pages!("reinstall"), &["reinstall"]),
];

static RULE_PAGES: LazyLock<Vec<String>> =
    LazyLock::new(|| RULES.iter().map(|rule| first_comment(rule.source)).collect());

/// The page of a rule or claim, in Markdown; English if it is not translated. `-` and `_` are the
/// same.
pub fn explain(name: &str, lang: Lang) -> Option<&'static str> {
    let wanted = comparable(name);
    if let Some(index) = RULES.iter().position(|rule| comparable(rule.name) == wanted) {
        return Some(translation(RULES[index].translated, lang).unwrap_or(&RULE_PAGES[index]));
    }
    let is_named = |words: &[&str]| words.iter().any(|word| comparable(word) == wanted);
    let claim = CLAIMS.iter().find(|(_, words)| is_named(words));
    claim.map(|(pages, _)| pages[lang as usize])
}

/// A name with one spelling.
fn comparable(name: &str) -> String {
    name.trim().trim_matches('`').trim_end_matches("()").to_lowercase().replace('_', "-")
}

/// The page whose name begins with `name`, or is most like it; `None` if none is similar.
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted = comparable(name);
    let names = rules().chain(CLAIMS.iter().flat_map(|(_, words)| words.iter().copied()));
    let far = |known: &str| {
        let known = comparable(known);
        if known.starts_with(&wanted) { 0 } else { distance(&wanted, &known) }
    };
    let (far, known) = names.map(|known| (far(known), known)).min_by_key(|(far, _)| *far)?;
    (far <= wanted.chars().count() / 2).then_some(known)
}

/// Letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 80;
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(LONGEST).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A page in the list of pages.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PageSummary {
    /// The name that selects it.
    pub name: &'static str,
    /// Its first sentence: what a rule detects, or the claim.
    pub summary: String,
}

/// Every page with its first sentence: rules first, then claims.
pub fn pages(lang: Lang) -> Vec<PageSummary> {
    let of = |name| {
        let page = explain(name, lang).unwrap_or_default();
        let paragraph = page.split("\n## ").nth(1).unwrap_or_default();
        let text: Vec<&str> =
            paragraph.lines().skip(1).take_while(|line| !line.is_empty()).collect();
        // Chinese and Japanese lines join without a space.
        let gap = if matches!(lang, Lang::Chinese | Lang::Japanese) { "" } else { " " };
        let text = text.join(gap);
        let ends = [". ", "。"];
        let end =
            ends.iter().filter_map(|end| text.find(end).map(|at| at + end.trim_end().len())).min();
        PageSummary { name, summary: text[..end.unwrap_or(text.len())].to_owned() }
    };
    topics().into_iter().map(of).collect()
}

/// A rule's page in another language than English, if it has been translated.
fn translation(translated: Option<[&'static str; 3]>, lang: Lang) -> Option<&'static str> {
    let index = (lang as usize).checked_sub(1)?;
    Some(translated?[index])
}

/// The names of all rules.
pub fn rules() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// The name of every page: rules first, then claims by their first name.
pub fn topics() -> Vec<&'static str> {
    rules().chain(CLAIMS.iter().map(|(_, words)| words[0])).collect()
}

/// The text of a file's leading `//!` lines.
fn first_comment(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use fitgpt_config::{PADDED_VOCAB, Precision, Written};
    use fitgpt_fit::torch;
    use fitgpt_model::Model;
    use fitgpt_program::memory::profile;

    use super::*;

    #[test]
    fn every_rule_has_a_page_with_three_headings() {
        for rule in &RULES {
            let page = explain(rule.name, Lang::English).unwrap();
            assert!(page.starts_with(&format!("# `{}`\n", rule.name)), "{page}");
            let headings: Vec<_> = page.lines().filter_map(|l| l.strip_prefix("## ")).collect();
            assert_eq!(
                headings,
                ["What it detects", "Why it happens", "What helps"],
                "{}",
                rule.name
            );
        }
    }

    #[test]
    fn every_claim_has_a_page_and_no_word_has_two() {
        let mut words: Vec<_> = CLAIMS.iter().flat_map(|(_, words)| words.iter()).collect();
        for ([page, ..], _) in &CLAIMS {
            let has_form = page.starts_with("# ") && page.contains("\n## The facts\n");
            assert!(has_form, "{page}");
        }
        words.sort();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
        assert!(topics().iter().all(|topic| explain(topic, Lang::English).is_some()));
        assert_eq!(explain("nothing-of-the-kind", Lang::English), None);
    }

    #[test]
    fn no_page_claims_that_an_underscore_frees_the_logits() {
        for topic in topics() {
            let page = explain(topic, Lang::English).unwrap();
            if page.contains("_, loss") {
                assert!(page.contains("a name like any other"), "{topic}");
            }
        }
    }

    #[test]
    fn both_spellings_find_a_page_and_a_wrong_one_suggests_the_nearest() {
        let page = explain("eval_batch_size", Lang::English);
        assert!(page.is_some());
        assert_eq!(explain("Eval-Batch-Size", Lang::English), page);
        assert_eq!(explain("stale_logits", Lang::English), explain("stale-logits", Lang::English));
        assert_eq!(nearest("eval_batchsize"), Some("eval_batch_size"));
        assert_eq!(nearest("stale-logit"), Some("stale-logits"));
        assert_eq!(nearest("eval_batch"), Some("eval_batch_size"));
        assert_eq!(nearest("zzzzzzzz"), None);
    }

    #[test]
    fn every_page_has_a_summary_of_one_sentence() {
        for lang in Lang::ALL {
            for page in pages(lang) {
                assert!(
                    page.summary.chars().count() > 8,
                    "{} in {lang:?}: {:?}",
                    page.name,
                    page.summary
                );
                assert!(
                    page.summary.chars().count() < 480,
                    "{} in {lang:?}: {}",
                    page.name,
                    page.summary
                );
            }
        }
    }

    /// GiB at the peak of a phase, as a page prints them.
    fn planned(keys: &[(&str, &str)], phase: torch::TorchPhase, loss_alone: bool) -> String {
        let mut written = Written::new();
        for (key, value) in keys {
            written.set(key, value).unwrap();
        }
        let config = written.resolve().unwrap();
        let model = Model::new(&config, PADDED_VOCAB);
        let base =
            torch::TorchOptions::from_config(&config, config.precision_or(Precision::Bfloat16));
        let options = torch::TorchOptions { loss_alone: loss_alone || base.loss_alone, ..base };
        let programs = torch::phases(&model, &options);
        let (_, program) = programs.iter().find(|(name, _)| *name == phase).unwrap();
        let peak = profile(program, &torch::CachingAllocator).peak().unwrap().bytes.get();
        format!("{:.2}", peak as f64 / f64::from(1 << 30))
    }

    #[test]
    fn the_figures_of_pages_come_from_plans() {
        use torch::TorchPhase::{EvaluateFirst, Train};
        let small =
            [("n_embd", "576"), ("batch_size", "16"), ("dtype", "float16"), ("compile", "False")];
        let quarter = [&small[..], &[("eval_batch_size", "4")]].concat();
        let eager = [("batch_size", "16"), ("compile", "False")];
        let recomputed = [&eager[..], &[("grad_checkpoint", "True")]].concat();
        let compiled = [("batch_size", "16")];
        let table = [
            (
                "eval_batch_size",
                vec![
                    planned(&small, EvaluateFirst, false),
                    planned(&quarter, EvaluateFirst, false),
                    planned(&small, Train, false),
                ],
            ),
            (
                "gradient_checkpointing",
                vec![planned(&eager, Train, false), planned(&recomputed, Train, false)],
            ),
            (
                "loss_alone",
                vec![
                    planned(&compiled, Train, false),
                    planned(&compiled, Train, true),
                    planned(&eager, Train, false),
                    planned(&eager, Train, true),
                ],
            ),
        ];
        for (name, figures) in table {
            for lang in Lang::ALL {
                let page = explain(name, lang).unwrap();
                for figure in &figures {
                    let local = if lang == Lang::German {
                        figure.replace('.', ",")
                    } else {
                        figure.clone()
                    };
                    assert!(page.contains(&local), "{name} in {lang:?} lacks {local}");
                }
            }
        }
    }

    /// The code spans of a page, sorted: names and code are the same in every language.
    fn code(page: &str) -> Vec<&str> {
        let mut spans: Vec<_> = page.split('`').skip(1).step_by(2).collect();
        spans.sort_unstable();
        spans.dedup();
        spans
    }

    /// Rules whose pages are English only. Add a new rule here until its page is translated.
    const UNTRANSLATED: [&str; 0] = [];

    #[test]
    fn a_rule_without_translations_is_shown_in_english() {
        for lang in Lang::ALL {
            assert_eq!(translation(None, lang), None);
        }
        assert_eq!(translation(Some(["zh", "ja", "de"]), Lang::English), None);
        assert_eq!(translation(Some(["zh", "ja", "de"]), Lang::German), Some("de"));
    }

    #[test]
    fn translated_pages_have_the_same_headings_and_code() {
        let headings = |page: &str| page.lines().filter(|line| line.starts_with('#')).count();
        let untranslated: Vec<_> =
            RULES.iter().filter(|rule| rule.translated.is_none()).map(|rule| rule.name).collect();
        assert_eq!(untranslated, UNTRANSLATED);
        for topic in topics().into_iter().filter(|topic| !untranslated.contains(topic)) {
            let english = explain(topic, Lang::English).unwrap();
            for lang in &Lang::ALL[1..] {
                let page = explain(topic, *lang).unwrap();
                assert_ne!(page, english, "{topic} in {lang:?}");
                assert_eq!(headings(page), headings(english), "{topic} in {lang:?}");
                assert_eq!(code(page), code(english), "{topic} in {lang:?}");
            }
        }
    }
}
