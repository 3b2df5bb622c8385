//! # `save-before-eval`
//!
//! nanoGPT evaluates and then saves, so an evaluation that runs out of memory loses everything
//! since the last one. This patch saves first, with the same block. If only the best weights are
//! kept (`always_save_checkpoint = False`), the state goes to `ckpt_last.pt`, and `ckpt.pt` stays
//! the best. The saved best loss is that of earlier evaluations; a resumed run evaluates at once.

use crate::patch::{Anchor, edit::Site, python::PythonFile};

pub(in crate::patch) fn sites(train: &PythonFile<'_>) -> Vec<Site> {
    let mut evaluations = (0..train.statements.len())
        .filter(|&s| train.matches(s, "$losses = estimate_loss()").is_some());
    let place = evaluations.find_map(|evaluation| save_before(train, evaluation));
    vec![place.unwrap_or(train.missing(Anchor::SaveAfterEvaluation))]
}

fn save_before(train: &PythonFile<'_>, evaluation: usize) -> Option<Site> {
    const SAVE: &str = "torch.save($$what, $$path)";
    let outer = train.statements[evaluation].parent?;
    let saves = |statement: usize| train.find(statement, SAVE).is_some();
    if (outer + 1..evaluation).any(saves) {
        return Some(Site::Already);
    }
    let decides = |&s: &usize| {
        let condition = train.statements[s].tokens.clone();
        s > evaluation
            && train.matches(s, "if $$condition:").is_some()
            && train.mentions(condition, "always_save_checkpoint") > 0
    };
    let decision = train.children(Some(outer)).find(decides)?;
    let guard = train.children(Some(decision)).find(|&guard| {
        train.matches(guard, "if $$condition:").is_some() && train.inside(guard).any(saves)
    })?;
    let save = train.children(Some(guard)).find(|&s| train.matches(s, SAVE).is_some())?;

    let block = guard..train.statements[guard].end;
    let tokens = train.statements[guard].tokens.start..train.statements[block.end - 1].tokens.end;
    let has_long_string = tokens.clone().any(|token| train.token(token).contains('\n'));
    let knows_result = |s: usize| {
        let found = train.matches(s, "$name = $$value");
        let name = found.map(|found| train.token(found.gap("name").start));
        name.is_some_and(|n| n != "best_val_loss" && train.mentions(tokens.clone(), n) > 0)
    };
    let reads_result = (evaluation..guard).any(knows_result);
    if reads_result || has_long_string || has_alternative(train, guard) {
        return None;
    }
    let found = train.matches(save, SAVE).expect("just matched");
    let path = train.arguments(found.gap("path")).first()?.clone();
    let old = train.text_of(path.clone());
    let lines = train.unindented(train.block_lines(guard));
    let at_save = lines_up_to(train, guard, save);
    let mut copy = vec!["# saved before the evaluation: one that fails then loses nothing".into()];
    copy.extend(lines[..at_save].iter().cloned());
    let unit = train.indent_of_block(guard);
    let what = train.text_of(found.gap("what"));
    copy.push(format!("{unit}# if only the best is kept, that file stays as it is"));
    copy.push(format!("{unit}last_path = os.path.join(out_dir, 'ckpt_last.pt')"));
    copy.push(format!("{unit}torch.save({what}, {old} if always_save_checkpoint else last_path)"));
    let save_lines = lines_up_to(train, guard, save)
        + train.text[train.statements[save].lines.clone()].lines().count();
    copy.extend(lines[save_lines..].iter().cloned());

    let condition = train.matches(guard, "if $$condition:")?.gap("condition");
    let old = train.text_of(condition.clone());
    let old = if old.contains(" or ") { format!("({old})") } else { old.to_owned() };
    let not_yet = format!("{old} and not always_save_checkpoint");
    let edits = vec![train.lines_before(evaluation, &copy), train.replace(condition, not_yet)];
    Some(train.change(edits))
}

/// Number of lines of a block before one of its statements.
fn lines_up_to(train: &PythonFile<'_>, head: usize, statement: usize) -> usize {
    let start = train.statements[head].lines.start;
    train.text[start..train.statements[statement].lines.start].lines().count()
}

/// Whether an `else` or `elif` follows: moving the `if` would change when it runs.
fn has_alternative(train: &PythonFile<'_>, head: usize) -> bool {
    let next = train.statements.get(train.statements[head].end);
    next.is_some_and(|next| matches!(train.token(next.tokens.start), "else" | "elif"))
}
