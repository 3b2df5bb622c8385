//! Learning rate, evaluations and samples as functions of the step.

use fitgpt_config::Config;

/// nanoGPT's learning rate at `step`: linear warm-up, cosine to `min_lr`, then `min_lr`.
pub fn lr(config: &Config, step: u64) -> f64 {
    if !config.decay_lr() {
        return config.learning_rate();
    }
    let (warmup, end) = (config.warmup_iters(), config.lr_decay_iters());
    if step < warmup {
        return config.learning_rate() * (step + 1) as f64 / (warmup + 1) as f64;
    }
    if step > end || warmup >= end {
        return config.min_lr();
    }
    let ratio = (step - warmup) as f64 / (end - warmup) as f64;
    let share = 0.5 * (1.0 + (std::f64::consts::PI * ratio).cos());
    config.min_lr() + share * (config.learning_rate() - config.min_lr())
}

/// Whether an evaluation comes before the update of `step`.
pub fn evaluates(config: &Config, step: u64) -> bool {
    step.is_multiple_of(config.eval_interval())
}

/// Whether a run that ends before `step` is evaluated again, after its evaluation at `last`. As in
/// nanoGPT, an evaluation before the last update is one of the finished run.
pub fn evaluates_at_the_end(last: u64, step: u64) -> bool {
    last + 1 < step
}

/// Whether a sample is drawn before the update of `step`. Not at 0: the weights are still random.
pub fn samples(config: &Config, step: u64) -> bool {
    let interval = config.sample_interval();
    interval > 0 && step > 0 && step.is_multiple_of(interval)
}

/// The number of evaluations in `from..=max_iters`, and the one at the end.
pub fn evaluations_from(config: &Config, from: u64) -> u64 {
    let (interval, last) = (config.eval_interval(), config.max_iters());
    if from > last {
        return 0;
    }
    let at_the_end = u64::from(evaluates_at_the_end(last / interval * interval, last + 1));
    last / interval + 1 - from.div_ceil(interval) + at_the_end
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Written;

    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Config {
        let mut written = Written::new();
        for (key, text) in pairs {
            written.set(key, text).unwrap();
        }
        written.resolve().unwrap()
    }

    #[test]
    fn the_rate_warms_up_falls_as_a_cosine_and_stays() {
        let config = config(&[
            ("learning_rate", "1.0"),
            ("min_lr", "0.1"),
            ("warmup_iters", "9"),
            ("lr_decay_iters", "109"),
        ]);
        assert!((lr(&config, 0) - 0.1).abs() < 1e-12);
        assert!((lr(&config, 8) - 0.9).abs() < 1e-12);
        assert!((lr(&config, 9) - 1.0).abs() < 1e-12);
        assert!((lr(&config, 59) - 0.55).abs() < 1e-12);
        assert!((lr(&config, 109) - 0.1).abs() < 1e-12);
        assert!((lr(&config, 5000) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn without_decay_the_rate_is_constant() {
        let config = config(&[("learning_rate", "0.5"), ("decay_lr", "False")]);
        assert!((lr(&config, 0) - 0.5).abs() < 1e-12);
        assert!((lr(&config, 1_000_000) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn samples_are_drawn_at_the_interval_but_not_before_the_first_step() {
        let every = config(&[("sample_interval", "10")]);
        let drawn: Vec<_> = (0..=30).filter(|step| samples(&every, *step)).collect();
        assert_eq!(drawn, [10, 20, 30]);
        assert!(!(0..=30).any(|step| samples(&config(&[]), step)));
    }

    #[test]
    fn evaluations_are_counted_to_the_last_step() {
        let config = config(&[("eval_interval", "10"), ("max_iters", "30")]);
        assert_eq!(evaluations_from(&config, 0), 4);
        assert_eq!(evaluations_from(&config, 1), 3);
        assert_eq!(evaluations_from(&config, 30), 1);
        assert_eq!(evaluations_from(&config, 31), 0);
    }

    #[test]
    fn a_run_that_ends_between_two_evaluations_has_one_more() {
        let between = config(&[("eval_interval", "10"), ("max_iters", "34")]);
        assert_eq!(evaluations_from(&between, 0), 5);
        assert_eq!(evaluations_from(&between, 34), 1);
        let short = config(&[("eval_interval", "2000"), ("max_iters", "30")]);
        assert_eq!(evaluations_from(&short, 0), 2);
        assert!(evaluates_at_the_end(0, 2) && !evaluates_at_the_end(30, 31));
    }
}
