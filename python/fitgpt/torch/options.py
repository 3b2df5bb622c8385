"""`--advise`: counts a script again with other options, each in a process of its own.

The options are those of the script's command line (`flags.py`), and for a `transformers` Trainer all
its arguments. Micro-batch × accumulation stays as it is. What fits comes first, and of this what keeps
the training and costs the least.
"""

import json
import os
import shlex
import subprocess
import sys

from . import cards
from .advice import Advice, Option
from .changes import Change
from .flags import changed
from .report import in_one_unit
from .trainer_options import arguments_text
from .words import language, say


def advise(run, progress, out, as_json):
    """Prints every option and the best; the exit code is 0 if one fits."""
    search = _Search(run, progress)
    first = search.document({})
    if first is None:
        return 2
    if not first["fits"]:
        (search.of_trainer if first["trainer"] else search.of_flags)(first)
    advice = Advice(cards.find(run.card).name, tuple(sorted(search.options.values(), key=_order)))
    if as_json:
        options = [
            {"changes": o.settings, "peak_bytes": o.peak_bytes, "verdict": o.verdict, "fits": o.fits,
             "keeps_training": o.keeps_training, "command": o.text}
            for o in advice.options
        ]  # fmt: skip
        print(json.dumps({"card": advice.card, "options": options}, indent=2, ensure_ascii=False), file=out)
    else:
        free = [change for change in first["changes"] if change["name"] == "loss-alone"]
        for change in free if not first["fits"] else ():  # no option of the script, but it costs nothing
            line = Change(change["name"], change["bytes"], change["text"]).line(in_one_unit(first["peak_bytes"]))
            print(say("note", text=line), file=out)
        print(advice, file=out)
        if not search.has_options:
            print(say("note", text=say("no-options")), file=out)
    return 0 if advice.best else 1


def _order(option):
    rank = {"fits": 0, "tight": 1, "no": 2}
    recomputes = any("checkpoint" in name for name in option.settings)
    batches = [v for k, v in option.settings.items() if k.endswith("batch_size") or k == "batch"]
    return rank[option.verdict], not option.keeps_training, recomputes, len(option.settings), *(-b for b in batches[:1])


class _Search:
    """The options that were counted, by their settings."""

    def __init__(self, run, progress):
        self.run, self.progress = run, progress
        self.options = {}
        self.has_options = True
        self.first = None

    def document(self, settings, keeps_training=True):
        """The result of the script with `settings`, or `None` if it failed."""
        key = tuple(settings.items())
        if key in self.options:
            return self.options[key]
        if self.first is not None:
            self.progress.say("progress-option", option=self._text(settings))
        found = self._child(settings)
        if found is None:
            return None
        if self.first is None:
            self.first = found
        text = self._text(settings)
        self.options[key] = Option(settings, found["peak_bytes"], found["verdict"], keeps_training, text)
        return found if not settings else self.options[key]

    def fits(self, settings, keeps_training=True):
        found = self.document(settings, keeps_training)
        return found is not None and found.fits

    def of_trainer(self, first):
        facts = first["trainer"]
        batch, accumulation = facts["per_device_train_batch_size"], facts["gradient_accumulation_steps"]
        base = {}
        evaluation = {"eval_accumulation_steps": 1, "per_device_eval_batch_size": 1}
        if max(first["phases"], key=lambda phase: phase["peak_bytes"])["name"] == "evaluate":
            self.document(evaluation)
            base = evaluation
        ways = [base]
        if facts["takes_chunked_loss"]:
            ways.append({**base, "use_liger_kernel": True})
        if not facts["gradient_checkpointing"]:
            ways += [{**way, "gradient_checkpointing": True} for way in list(ways)]
        for way in ways:
            if not (way and self.fits(way)):
                self._smaller_batches(way, batch, accumulation, lambda micro: {
                    "per_device_train_batch_size": micro,
                    "gradient_accumulation_steps": batch * accumulation // micro,
                })  # fmt: skip
        for name in ("adamw_8bit", "lion_32bit", "adafactor"):
            self.document({**base, "optim": name}, keeps_training=False)
        if facts["takes_lora"]:
            self.document({**base, "peft": "LoRA r=16, all-linear"}, keeps_training=False)

    def of_flags(self, first):
        options = first["options"]
        batch = options.get("batch", {}).get("value")
        accumulation = options.get("accumulation", {}).get("value")
        self.has_options = isinstance(batch, int) and (isinstance(accumulation, int) or "total" in options)
        ways = [{}]
        if options.get("checkpointing", {}).get("value") is False:
            ways.append({"checkpointing": True})
        if options.get("compile", {}).get("value") is False:
            ways.insert(1, {"compile": True})
        if isinstance(options.get("evaluation-batch", {}).get("value"), int):
            self.document({"evaluation-batch": 1})
        for way in ways:
            if way and self.fits(way) or not self.has_options:
                continue

            def smaller(micro):
                if accumulation is None:  # the script computes it from the total
                    return {"batch": micro}
                return {"batch": micro, "accumulation": batch * accumulation // micro}

            self._smaller_batches(way, batch, accumulation or 1, smaller)

    def _smaller_batches(self, way, batch, accumulation, settings):
        """Counts the largest micro-batch that fits, and the next that does not."""
        sizes = [size for size in range(1, batch) if batch % size == 0 or batch * accumulation % size == 0]
        if accumulation == 1:
            sizes = [size for size in sizes if batch % size == 0]
        low, high = 0, len(sizes)
        while low < high:
            middle = (low + high) // 2
            if self.fits({**way, **settings(sizes[middle])}):
                low = middle + 1
            else:
                high = middle

    def _child(self, settings):
        command = [sys.executable, "-m", "fitgpt.torch", "--json", "--card", self.run.card, "--steps", str(self.run.steps)]
        command += ["--ranks", str(self.run.ranks), "--lang", language()]
        command += ["--eager"] if self.run.compile == "eager" else []
        overrides = dict(self.run.overrides)
        arguments = self.run.arguments
        if self.first is not None and self.first["trainer"]:
            overrides.update(settings)
        elif self.first is not None:
            arguments = changed(arguments, self.first["options"], settings)
        for name, value in overrides.items():
            command += ["--set", f"{name}={value}"]
        command += [*(["-m"] if self.run.is_module else []), self.run.name, "--", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        try:
            found = json.loads(done.stdout)
        except json.JSONDecodeError:
            found = {"error": done.stderr}
        if found["error"] is not None:
            print(done.stderr.rstrip(), file=sys.stderr)
            return None
        return found

    def _text(self, settings):
        """What to run or to write in the script."""
        if not settings:
            return say("as-it-is")
        trainer = self.first["trainer"]
        flags = self.first["options"]
        if trainer and "batch" not in flags:
            return arguments_text(settings)
        if trainer:
            chosen = {name: value for name, value in settings.items() if name != "peft"}
            words = [f"--{name} {value}" for name, value in chosen.items()]
            names = {f"--{name}" for name in chosen}
            kept, skips = [], False
            for argument in self.run.arguments:
                if skips and not argument.startswith("--"):
                    skips = False
                    continue
                skips = argument in names
                if not skips:
                    kept.append(shlex.quote(argument))
            command = " ".join([self._start(), *kept, *words])
            return command if "peft" not in settings else f"{command} + {arguments_text({'peft': settings['peft']})}"
        arguments = changed(self.run.arguments, flags, settings)
        return " ".join([self._start(), *map(shlex.quote, arguments)])

    def _start(self):
        name = os.path.relpath(self.run.name) if not self.run.is_module else f"-m {self.run.name}"
        return f"python {name}"
