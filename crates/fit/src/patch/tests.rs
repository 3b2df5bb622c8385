//! Every patch on a pair of files like nanoGPT's, and on variants with typical edits.

use super::*;

const TRAIN: &str = include_str!("../../../../tests/patch/nano/train.py");
const MODEL: &str = include_str!("../../../../tests/patch/nano/model.py");

fn all(train: &str, model: &str) -> Patched {
    apply(train, model, None).unwrap()
}

fn only(patch: Patch, train: &str, model: &str) -> Patched {
    apply(train, model, Some(&[patch])).unwrap()
}

/// Lines that a patch takes away and adds.
fn changed(before: &str, after: &str) -> Vec<String> {
    let diff = unified_diff("a", before, after);
    let changed = diff.lines().skip(2).filter(|line| line.starts_with(['+', '-']));
    changed.map(|line| format!("{}{}", &line[..1], line[1..].trim_start())).collect()
}

/// Checks that a patch changes nothing after `edit`, and reports where it looked.
fn is_missing(patch: Patch, file: File, from: &str, to: &str) {
    let (mut train, mut model) = (TRAIN.to_owned(), MODEL.to_owned());
    let text = if file == File::Train { &mut train } else { &mut model };
    assert!(text.contains(from), "no `{from}` to begin with");
    *text = text.replace(from, to);
    let patched = only(patch, &train, &model);
    assert_eq!((&patched.train, &patched.model), (&train, &model), "`{patch}` without `{from}`");
    assert_eq!((patched.applied, patched.already), (vec![], vec![]));
    let is_reported = |n: &NotFound| n.patch == patch && n.file == file;
    assert!(patched.not_found.iter().any(is_reported), "{:?}", patched.not_found);
}

#[test]
fn all_patches_apply_together() {
    let patched = all(TRAIN, MODEL);
    assert_eq!(patched.not_found, []);
    assert_eq!(patched.applied, Patch::ALL);
}

#[test]
fn patching_twice_is_patching_once() {
    let once = all(TRAIN, MODEL);
    let twice = all(&once.train, &once.model);
    assert_eq!((&twice.train, &twice.model), (&once.train, &once.model));
    assert_eq!((twice.applied, twice.already), (vec![], Patch::ALL.to_vec()));
}

#[test]
fn every_patch_applies_alone_and_is_then_known() {
    for patch in Patch::ALL {
        let once = only(patch, TRAIN, MODEL);
        assert_eq!(once.applied, [patch]);
        assert_ne!((once.train.as_str(), once.model.as_str()), (TRAIN, MODEL));
        let twice = all(&once.train, &once.model);
        assert_eq!(twice.already, [patch]);
        assert_eq!(twice.not_found, []);
    }
}

#[test]
fn the_order_of_patching_does_not_matter() {
    let together = all(TRAIN, MODEL);
    let mut backwards = (TRAIN.to_owned(), MODEL.to_owned());
    for &patch in Patch::ALL.iter().rev() {
        let Patched { train, model, .. } = only(patch, &backwards.0, &backwards.1);
        backwards = (train, model);
    }
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    // Keys inserted after the same key may come in either order.
    assert_eq!(sorted(&backwards.0), sorted(&together.train));
    assert_eq!(sorted(&backwards.1), sorted(&together.model));
}

#[test]
fn spaces_comments_and_quotes_do_not_prevent_a_match() {
    let train = TRAIN
        .replace("logits, loss = model(X, Y)", "logits,loss  =  model( X,Y ) # forward")
        .replace("get_batch(split)", "get_batch( split )")
        .replace("map_location=device", "\n        map_location = device # the card\n    ")
        .replace("model.to(device)", "model.to( device ) # now")
        .replace("losses['val']", "losses[\"val\"]")
        .replace("if iter_num > 0:", "if  (iter_num > 0) :  # not at once")
        .replace("while True:", "# the loop\nwhile True: # for ever");
    let model = MODEL
        .replace("x = block(x)", "# one block\n            x  = block( x ) # (b, t, c)")
        .replace("if targets is not None:", "if targets is  not None : # a loss")
        .replace(
            "(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)",
            "(\n    logits.view(-1, logits.size(-1)), # rows\n    targets.view(-1),\n    ignore_index=-1,\n  )",
        );
    assert!(train != TRAIN && model != MODEL);
    let patched = all(&train, &model);
    assert_eq!(patched.not_found, []);
    assert_eq!(patched.applied, Patch::ALL);
    assert!(patched.train.contains("loss  =  model( X,Y )[1] # forward\n"));
    assert!(patched.model.contains("                x  = block( x ) # (b, t, c)\n"));
    assert_eq!(all(&patched.train, &patched.model).already, Patch::ALL);
}

#[test]
fn tabs_and_windows_line_ends_are_kept() {
    let of = |text: &str| text.replace("    ", "\t").replace('\n', "\r\n");
    let patched = all(&of(TRAIN), &of(MODEL));
    let expected = all(TRAIN, MODEL);
    assert_eq!(patched.applied, Patch::ALL);
    assert_eq!(patched.model, of(&expected.model));
    // One line of the fixture is aligned by spaces, and `of` turns those into tabs too.
    assert_eq!(patched.train, of(&expected.train));
}

#[test]
fn a_patch_whose_site_is_missing_does_not_affect_the_others() {
    let train = TRAIN.replace("scaler = torch.cuda.amp.GradScaler", "scaler = my.Scaler");
    let patched = all(&train, MODEL);
    assert_eq!(patched.applied.len(), Patch::ALL.len() - 1);
    let looked_for = Anchor::Code("torch.cuda.amp.GradScaler(…)");
    let expected = NotFound { patch: Patch::GradScaler, file: File::Train, looked_for };
    assert_eq!(patched.not_found, [expected]);
}

#[test]
fn nothing_is_found_in_other_files() {
    let patched = all("print('hello')\n", "");
    assert_eq!((patched.train.as_str(), patched.model.as_str()), ("print('hello')\n", ""));
    let is_reported = |patch: &Patch| patched.not_found.iter().any(|n| n.patch == *patch);
    assert!(Patch::ALL.iter().all(is_reported));
}

#[test]
fn an_evaluation_gets_its_own_sizes() {
    let patched = only(Patch::EvalBatchSize, TRAIN, MODEL);
    let expected = [
        "+eval_batch_size = 0 # sequences of a batch in estimate_loss; 0: batch_size",
        "+eval_block_size = 0 # tokens of a sequence in estimate_loss; 0: block_size",
        "-def get_batch(split):",
        "+def get_batch(split, batch_size=batch_size, block_size=block_size):",
        "-model = torch.compile(model)",
        "+model = torch.compile(model, dynamic=False)",
        "-X, Y = get_batch(split)",
        "+X, Y = get_batch(split, batch_size=eval_batch_size or batch_size, \
         block_size=eval_block_size or block_size)",
    ];
    assert_eq!(changed(TRAIN, &patched.train), expected);
    assert_eq!(patched.model, MODEL);
}

#[test]
fn an_evaluation_in_another_form_is_left_alone() {
    let missing = |from, to| is_missing(Patch::EvalBatchSize, File::Train, from, to);
    missing("config_keys = [", "keys = [");
    missing("def get_batch(split)", "def batch_of(split)");
    missing("def get_batch(split)", "def get_batch(*what)");
    missing("(batch_size,))", "(sequences,))");
    missing("def estimate_loss", "def evaluate");
    missing("X, Y = get_batch(split)", "X, Y = batches[split]");
}

#[test]
fn a_batch_that_is_defined_before_the_command_line_is_read_is_left_alone() {
    let start = TRAIN.find("def get_batch").unwrap();
    let end = start + TRAIN[start..].find("\n\n").unwrap() + 2;
    let function = &TRAIN[start..end];
    let train = format!("{function}{}", TRAIN.replace(function, ""));
    let patched = only(Patch::EvalBatchSize, &train, MODEL);
    assert_eq!((patched.train, patched.not_found.len()), (train, 1));
}

#[test]
fn logits_lose_their_name_at_both_sites() {
    let patched = only(Patch::DropStaleLogits, TRAIN, MODEL);
    let one = ["-logits, loss = model(X, Y)", "+loss = model(X, Y)[1]"];
    assert_eq!(changed(TRAIN, &patched.train), [one, one].concat());
    let underscore = TRAIN.replace("logits, loss =", "_, loss =");
    assert_eq!(only(Patch::DropStaleLogits, &underscore, MODEL).train, patched.train);
}

#[test]
fn logits_that_are_read_keep_their_name() {
    let missing = |from, to| is_missing(Patch::DropStaleLogits, File::Train, from, to);
    missing("lossf = loss.item()", "best = logits.argmax(-1); lossf = loss.item()");
    missing("losses[k] = loss.item()", "losses[k] = loss_of(logits)");
    missing("logits, loss = model(X, Y)", "loss = model(X, Y).loss");
    let chunked = |from, to| is_missing(Patch::ChunkedLoss, File::Train, from, to);
    chunked("losses[k] = loss.item()", "losses[k] = loss_of(logits)");
}

#[test]
fn a_training_forward_returns_the_loss_alone() {
    let patched = only(Patch::LossAlone, TRAIN, MODEL);
    let added = changed(MODEL, &patched.model);
    assert_eq!(added.len(), 3, "{added:?}");
    assert_eq!(added[0], "+if self.training and loss is not None:");
    assert_eq!(added[2], "+return None, loss");
    assert_eq!(patched.train, TRAIN);
    let missing = |from, to| is_missing(Patch::LossAlone, File::Model, from, to);
    missing("return logits, loss", "return loss");
    missing("def forward(self, idx, targets=None)", "def run(self, idx, targets=None)");
    let read = |from, to| is_missing(Patch::LossAlone, File::Train, from, to);
    read("losses[k] = loss.item()", "losses[k] = loss_of(logits)");
}

#[test]
fn a_partly_patched_file_is_completed() {
    let at = TRAIN.find("logits, loss = model(X, Y)").unwrap();
    let (before, rest) = TRAIN.split_at(at);
    let rest = rest.replacen("logits, loss = model(X, Y)", "loss = model(X, Y)[1]", 1);
    let patched = only(Patch::DropStaleLogits, &format!("{before}{rest}"), MODEL);
    assert_eq!(patched.applied, [Patch::DropStaleLogits]);
    assert_eq!(patched.train, only(Patch::DropStaleLogits, TRAIN, MODEL).train);
}

#[test]
fn a_chunked_loss_is_inserted_before_the_whole_one() {
    let patched = only(Patch::ChunkedLoss, TRAIN, MODEL);
    let train = [
        "+loss_chunk_rows = 0 # rows of logits that exist at a time; 0: all of a batch",
        "+model.config.loss_chunk_rows = loss_chunk_rows",
    ];
    assert_eq!(changed(TRAIN, &patched.train), train);
    let removed = changed(MODEL, &patched.model).into_iter().filter(|line| line.starts_with('-'));
    assert_eq!(removed.collect::<Vec<_>>(), ["-if targets is not None:"]);
    for line in [
        "        if targets is not None and self.config.loss_chunk_rows > 0:\n",
        "            logits, loss = None, self.chunked_loss(x, targets)\n        elif targets",
        "            return F.cross_entropy(logits, wanted, ignore_index=-1, reduction='sum')\n",
        "        return total / (targets != -1).sum()\n\n    def forward",
    ] {
        assert!(patched.model.contains(line), "{line}");
    }
}

#[test]
fn a_chunked_loss_uses_the_ignored_index_of_the_file() {
    let model = MODEL.replace(", ignore_index=-1)", ")").replace("F.", "nn.functional.");
    let patched = only(Patch::ChunkedLoss, TRAIN, &model);
    assert!(patched.model.contains(
        "nn.functional.cross_entropy(logits, wanted, ignore_index=-100, reduction='sum')"
    ));
    assert!(patched.model.contains("(targets != -100).sum()"));
}

#[test]
fn a_loss_that_chunks_would_change_is_left_alone() {
    let missing = |from, to| is_missing(Patch::ChunkedLoss, File::Model, from, to);
    missing("ignore_index=-1", "ignore_index=-1, label_smoothing=0.1");
    missing("logits = self.lm_head(x)\n", "logits = 30 * torch.tanh(self.lm_head(x) / 30)\n");
    missing("targets.view(-1)", "targets[:, 1:].reshape(-1)");
    missing("config.vocab_size, bias=False)", "config.vocab_size, bias=True)");
    missing("self.config = config", "self.settings = config");
    missing("class GPTConfig", "class Settings");
    let train = |from, to| is_missing(Patch::ChunkedLoss, File::Train, from, to);
    train("model.to(device)", "place(model)");
}

#[test]
fn blocks_are_checkpointed_behind_a_key() {
    let patched = only(Patch::CheckpointBlocks, TRAIN, MODEL);
    let expected = [
        "+from torch.utils.checkpoint import checkpoint",
        "+grad_checkpoint: bool = False # compute blocks again in backward",
        "-x = block(x)",
        "+if self.config.grad_checkpoint and self.training:",
        "+x = checkpoint(block, x, use_reentrant=False)",
        "+else:",
        "+x = block(x)",
    ];
    assert_eq!(changed(MODEL, &patched.model), expected);
    let with_more = MODEL.replace("block(x)", "block(x, mask)");
    let patched = only(Patch::CheckpointBlocks, TRAIN, &with_more);
    assert!(patched.model.contains("checkpoint(block, x, mask, use_reentrant=False)"));
}

#[test]
fn blocks_in_another_form_are_left_alone() {
    let missing = |from, to| is_missing(Patch::CheckpointBlocks, File::Model, from, to);
    missing("x = block(x)", "x, cache = block(x)");
    missing("in self.transformer.h:", "in self.blocks:");
}

#[test]
fn a_checkpoint_is_loaded_into_the_host_and_freed() {
    let patched = only(Patch::CheckpointToCpu, TRAIN, MODEL);
    let expected = [
        "-checkpoint = torch.load(ckpt_path, map_location=device)",
        "+checkpoint = torch.load(ckpt_path, map_location='cpu')",
        "+state_dict = checkpoint['model'] = None # the model has its own copy",
    ];
    assert_eq!(changed(TRAIN, &patched.train), expected);
    let bare = TRAIN
        .replace(", map_location=device", "")
        .replace("checkpoint = None # free up memory\n", "")
        .replace("load_state_dict(state_dict)", "load_state_dict(checkpoint['model'])");
    let patched = only(Patch::CheckpointToCpu, &bare, MODEL);
    let expected = [
        "-checkpoint = torch.load(ckpt_path)",
        "+checkpoint = torch.load(ckpt_path, map_location='cpu')",
        "+checkpoint = None # free up memory",
    ];
    assert_eq!(changed(&bare, &patched.train), expected);
    let missing = |from, to| is_missing(Patch::CheckpointToCpu, File::Train, from, to);
    missing("torch.load(", "read(");
    missing("model.load_state_dict(", "fill(model, ");
}

#[test]
fn the_block_that_saves_is_copied_before_the_evaluation() {
    let patched = only(Patch::SaveBeforeEval, TRAIN, MODEL);
    let save = patched.train.find("torch.save(").unwrap();
    let evaluation = patched.train.find("losses = estimate_loss()").unwrap();
    assert!(save < evaluation);
    let path = "os.path.join(out_dir, 'ckpt.pt') if always_save_checkpoint else last_path";
    assert!(patched.train.contains(&format!("            torch.save(checkpoint, {path})\n")));
    assert!(
        patched.train.contains("            if iter_num > 0 and not always_save_checkpoint:\n")
    );
    let with_or = TRAIN.replace("if iter_num > 0:", "if iter_num > 0 or eval_only:");
    let patched = only(Patch::SaveBeforeEval, &with_or, MODEL);
    let guard = "if (iter_num > 0 or eval_only) and not always_save_checkpoint:\n";
    assert!(patched.train.contains(guard));
}

#[test]
fn a_save_that_needs_the_evaluation_is_left_alone() {
    let missing = |from, to| is_missing(Patch::SaveBeforeEval, File::Train, from, to);
    missing("'config': config,", "'losses': losses,");
    missing("            if iter_num > 0:\n", "            if losses['val'] < 2:\n");
    missing(" or always_save_checkpoint", "");
    missing("losses = estimate_loss()", "losses = evaluate()");
    let loop_around =
        "            if iter_num > 0:\n                pass\n            while True:\n";
    missing("            if iter_num > 0:\n", loop_around);
    let named = "best_val_loss = losses['val']\n            iter_num = f(losses)\n";
    missing("best_val_loss = losses['val']\n", named);
    let save = "torch.save(checkpoint, os.path.join(out_dir, 'ckpt.pt'))\n";
    let with_else = format!("{save}            else:\n                print('later')\n");
    missing(save, &with_else);
}

#[test]
fn the_scaler_takes_its_device_as_an_argument() {
    let patched = only(Patch::GradScaler, TRAIN, MODEL);
    let expected = [
        "-scaler = torch.cuda.amp.GradScaler(enabled=(dtype == 'float16'))",
        "+scaler = torch.amp.GradScaler('cuda', enabled=(dtype == 'float16'))",
    ];
    assert_eq!(changed(TRAIN, &patched.train), expected);
    let bare = TRAIN.replace("GradScaler(enabled=(dtype == 'float16'))", "GradScaler()");
    assert!(only(Patch::GradScaler, &bare, MODEL).train.contains("torch.amp.GradScaler('cuda')\n"));
}

#[test]
fn names_are_read_back_and_others_refused() {
    for patch in Patch::ALL {
        assert_eq!(named(patch.name()).unwrap(), patch);
    }
    let error = named("chunked").unwrap_err();
    assert_eq!(error.to_string(), "there is no patch `chunked`");
}

#[test]
fn a_file_that_is_not_python_is_an_error_with_its_line() {
    let error = apply("a = 1\nb = (\n", MODEL, None).unwrap_err();
    let expected = "`train.py` cannot be read as Python: line 2 has an unclosed bracket";
    assert_eq!(error.to_string(), expected);
}

proptest::proptest! {
    /// With some lines deleted, a patch may not apply, but it is never applied in part.
    #[test]
    fn a_truncated_file_is_patched_completely_or_not_at_all(from in 0_usize..200, count in 1_usize..30) {
        let lines: Vec<_> = TRAIN.split_inclusive('\n').collect();
        let from = from.min(lines.len());
        let train = [&lines[..from], &lines[(from + count).min(lines.len())..]].concat().concat();
        if let Ok(patched) = apply(&train, MODEL, None) {
            let again = all(&patched.train, &patched.model);
            proptest::prop_assert_eq!(again.applied, vec![]);
            proptest::prop_assert_eq!(again.not_found, patched.not_found);
            proptest::prop_assert!(again.train == patched.train);
        }
    }
}
