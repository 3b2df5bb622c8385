//! Pages by name: one for every rule, and one for every claim that people pass around.
//!
//! A rule's page is the first comment of its own file; a claim's lies in `pages/`.

use std::sync::LazyLock;

use crate::rules::RULES;

/// Claims: the page, and the words by which it is asked for.
static CLAIMS: [(&str, &[&str]); 16] = [
    (include_str!("pages/eval_iters.md"), &["eval_iters", "eval_interval"]),
    (include_str!("pages/eval_batch_size.md"), &["eval_batch_size"]),
    (include_str!("pages/eval_block_size.md"), &["eval_block_size"]),
    (include_str!("pages/compile.md"), &["compile", "torch.compile"]),
    (include_str!("pages/reduce_overhead.md"), &["reduce-overhead", "cuda_graphs"]),
    (include_str!("pages/empty_cache.md"), &["empty_cache", "torch.cuda.empty_cache"]),
    (
        include_str!("pages/expandable_segments.md"),
        &["expandable_segments", "max_split_size_mb", "pytorch_cuda_alloc_conf"],
    ),
    (include_str!("pages/kv_cache.md"), &["kv_cache", "kv-cache"]),
    (
        include_str!("pages/gradient_checkpointing.md"),
        &["gradient_checkpointing_enable", "gradient_checkpointing", "grad_checkpoint"],
    ),
    (include_str!("pages/estimate_loss.md"), &["estimate_loss", "no_grad"]),
    (include_str!("pages/n_head.md"), &["n_head", "n_embd"]),
    (include_str!("pages/batch_size.md"), &["batch_size", "gradient_accumulation_steps"]),
    (include_str!("pages/weights.md"), &["weights", "float16", "bfloat16", "autocast"]),
    (include_str!("pages/data_loader.md"), &["data_loader", "dataloader", "memmap"]),
    (
        include_str!("pages/warnings.md"),
        &[
            "warnings",
            "gradscaler",
            "max_autotune",
            "set_float32_matmul_precision",
            "suppress_errors",
        ],
    ),
    (include_str!("pages/cards.md"), &["cards", "vram", "12gb"]),
];

static RULE_PAGES: LazyLock<Vec<(&'static str, String)>> =
    LazyLock::new(|| RULES.iter().map(|rule| (rule.name, first_comment(rule.source))).collect());

/// The page of a rule or of a claim, in Markdown.
pub fn explain(name: &str) -> Option<&'static str> {
    let asked = name.trim().trim_matches('`').to_ascii_lowercase();
    let rule = RULE_PAGES.iter().find(|(rule, _)| *rule == asked);
    if let Some((_, page)) = rule {
        return Some(page);
    }
    let claim = CLAIMS.iter().find(|(_, words)| words.contains(&asked.as_str()));
    claim.map(|(page, _)| *page)
}

/// Every name that has a page: rules first, then claims by their first word.
pub fn topics() -> Vec<&'static str> {
    let rules = RULES.iter().map(|rule| rule.name);
    rules.chain(CLAIMS.iter().map(|(_, words)| words[0])).collect()
}

/// The text of a file's leading `//!` lines.
fn first_comment(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_page_with_three_headings() {
        for rule in &RULES {
            let page = explain(rule.name).unwrap();
            assert!(page.starts_with(&format!("# `{}`\n", rule.name)), "{page}");
            let headings: Vec<_> = page.lines().filter_map(|l| l.strip_prefix("## ")).collect();
            assert_eq!(headings, ["What it sees", "Why it happens", "What helps"], "{}", rule.name);
        }
    }

    #[test]
    fn every_claim_has_a_page_and_no_word_has_two() {
        let mut words: Vec<_> = CLAIMS.iter().flat_map(|(_, words)| words.iter()).collect();
        for (page, _) in &CLAIMS {
            let has_form = page.starts_with("# ") && page.contains("\n## What is so\n");
            assert!(has_form, "{page}");
        }
        words.sort();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
        assert!(topics().iter().all(|topic| explain(topic).is_some()));
        assert_eq!(explain("nothing-of-the-kind"), None);
    }

    #[test]
    fn no_page_says_that_an_underscore_frees_the_logits() {
        for topic in topics() {
            let page = explain(topic).unwrap();
            if page.contains("_, loss") {
                assert!(page.contains("a name like any other"), "{topic}");
            }
        }
    }
}
