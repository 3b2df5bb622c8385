"""The options of a script: which of them set the batch, and how to write them on its command line.

`argparse` and nanoGPT's `configurator.py` tell them while the script runs.
"""

import argparse
import contextlib
from unittest import mock

# What an option of this name means; `-` and `_` are the same, and case does not matter.
_MEANINGS = {
    "batch": ("per_device_train_batch_size", "device_batch_size", "micro_batch_size", "train_batch_size", "batch_size"),
    "accumulation": (
        "gradient_accumulation_steps", "grad_accumulation_steps", "grad_accum_steps", "accumulate_grad_batches",
        "grad_accum", "accumulation_steps",
    ),
    "evaluation-batch": ("per_device_eval_batch_size", "eval_batch_size", "val_batch_size"),
    "checkpointing": ("gradient_checkpointing", "grad_checkpoint", "activation_checkpointing", "use_checkpoint"),
    "compile": ("compile", "torch_compile"),
    "optimizer": ("optim", "optimizer"),
    "total": ("total_batch_size", "global_batch_size", "total_batch_tokens"),
}  # fmt: skip


def meaning(name):
    """`"batch"`, `"accumulation"`, … or `None`."""
    plain = name.lstrip("-").replace("-", "_").lower()
    return next((what for what, names in _MEANINGS.items() if plain in names), None)


@contextlib.contextmanager
def recorded(options):
    """Fills `options` with `{meaning: {"flag", "value", "form"}}` while the script reads them.

    `form` is `"argparse"` for an option with a value, `"switch"` for one without, and `"key"` for
    nanoGPT's `--key=value`.
    """
    parse = argparse.ArgumentParser.parse_known_args

    def parse_known_args(parser, *args, **kwargs):
        namespace, rest = parse(parser, *args, **kwargs)
        for action in parser._actions:
            flag = next((o for o in action.option_strings if o.startswith("--")), None)
            what = meaning(flag) if flag else None
            if what is not None and hasattr(namespace, action.dest):
                form = "switch" if action.nargs == 0 else "argparse"
                value = getattr(namespace, action.dest)
                options.setdefault(what, {"flag": flag, "value": value, "form": form})
        return namespace, rest

    with mock.patch.object(argparse.ArgumentParser, "parse_known_args", parse_known_args):
        yield


def keys(names):
    """The options of nanoGPT's configurator: names of the script's namespace that it overrides."""
    found = {}
    for name in names.get("config_keys", ()):
        what = meaning(name)
        if what is not None and name in names:
            found.setdefault(what, {"flag": f"--{name}", "value": names[name], "form": "key"})
    return found


def changed(arguments, options, values):
    """`arguments` with the options of `values` set; a later one wins in both forms."""
    result = list(arguments)
    for what, value in values.items():
        option = options[what]
        flag, form = option["flag"], option["form"]
        result = _without(result, flag, takes_value=form == "argparse")
        if form == "switch":
            result += [flag] if value else []
        elif form == "key" or any(a.startswith(flag + "=") for a in arguments):
            result.append(f"{flag}={value}")
        else:
            result += [flag, str(value)]
    return result


def _without(arguments, flag, takes_value):
    result, skips = [], False
    for index, argument in enumerate(arguments):
        if skips:
            skips = False
        elif argument == flag:
            follows = index + 1 < len(arguments) and not arguments[index + 1].startswith("--")
            skips = takes_value and follows
        elif not argument.startswith(flag + "="):
            result.append(argument)
    return result
