"""`python -m fitgpt.torch SCRIPT.py --card NAME [arguments…]`: counts a training script's memory."""

import argparse
import ast
import json
import os
import sys

from . import cards
from .script import Run, count
from .loop import Progress
from .options import advise
from .words import LANGUAGES, say, use

# Options of ours that are recognized among the script's arguments; others only before these.
_ANYWHERE = ("--card", "--advise")


def main(arguments=None):
    """Runs the command and returns its exit code: 0 fits, 1 does not fit, 2 something failed."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options, run = _parse(arguments)
    use(options.lang)
    if run.card is not None:
        try:
            cards.find(run.card)
        except ValueError as error:
            return _fail(str(error), "hint-cards")
        except OSError as error:
            return _fail(str(error))
    if not run.is_module and not os.path.isfile(run.name):
        return _fail(say("no-script", script=run.name))
    # The report alone goes to stdout; what the script prints goes to stderr.
    out, errors = sys.stdout, sys.stderr
    sys.stdout = sys.stderr
    if options.quiet:
        sys.stdout = sys.stderr = open(os.devnull, "w")
    progress = Progress(None if options.quiet else errors)
    try:
        if options.advise:
            return advise(run, progress, out, options.json)
        counted = count(run, progress)
    finally:
        sys.stdout, sys.stderr = out, errors
    if counted.error is not None:
        _explain(counted)
    if options.html and counted.measured.phases:
        counted.measured.html(options.html, run.card)
    if options.json:
        print(json.dumps(counted.document(), indent=2, ensure_ascii=False, default=str), file=out)
    elif counted.has_trained or counted.error is None:
        print(counted.report(), file=out)
    if counted.error is not None:
        return 2
    return 0 if run.card is None or counted.measured.fits(run.card) else 1


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m fitgpt.torch", allow_abbrev=False, add_help=False,
        usage="python -m fitgpt.torch SCRIPT.py|-m MODULE [OPTIONS] [the script's arguments…]",
        description=say("help-script"), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("-m", dest="module", metavar="MODULE", help=say("help-module"))
    parser.add_argument("--card", metavar="NAME", help=say("help-card"))
    parser.add_argument("--advise", action="store_true", help=say("help-advise"))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=say("help-set"))
    parser.add_argument("--steps", type=int, default=2, metavar="N", help=say("help-steps"))
    parser.add_argument("--ranks", type=int, default=1, metavar="N", help=say("help-ranks"))
    parser.add_argument("--eager", action="store_true", help=say("help-eager"))
    parser.add_argument("--html", metavar="FILE", help=say("help-html"))
    parser.add_argument("--json", action="store_true", help=say("help-json"))
    parser.add_argument("--quiet", action="store_true", help=say("help-quiet"))
    parser.add_argument("--lang", choices=LANGUAGES, help=say("help-lang"))
    parser.add_argument("-h", "--help", action="help", help=say("help-help"))
    ours, rest = _split(arguments, parser)
    options = parser.parse_args(ours)
    if not rest and options.module is None:
        parser.error(say("no-script-named"))
    if options.steps < 1 or options.ranks < 1:
        parser.error(say("at-least-one"))
    name = options.module or rest.pop(0)
    run = Run(
        name, rest, options.module is not None, options.card, options.steps, options.ranks,
        "eager" if options.eager else "count",        dict(map(_setting, options.set)),
    )  # fmt: skip
    if options.advise and run.card is None:
        parser.error(say("advise-needs-card"))
    return options, run


def _setting(text):
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _split(arguments, parser):
    """Our options, and the script with its arguments.

    Ours come before the script, or after it and before its own arguments; `--card` and `--advise`
    are found among these, too, up to `--`.
    """
    actions = {option: action for action in parser._actions for option in action.option_strings}
    ours, rest, has_script, takes_all = [], [], False, True
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        name, is_joined, _ = argument.partition("=")
        if argument == "--":
            rest += arguments[index + 1 :]
            break
        is_first = not has_script or name not in ("-m", "-h", "--help")
        if name in actions and (takes_all and is_first or name in _ANYWHERE):
            ours.append(argument)
            if actions[name].nargs != 0 and not is_joined and index + 1 < len(arguments):
                index += 1
                ours.append(arguments[index])
            has_script = has_script or name == "-m"
        else:
            rest.append(argument)
            takes_all = takes_all and not has_script
            has_script = True
        index += 1
    return ours, rest


def _explain(counted):
    """Prints the error of a script, with a hint."""
    error = counted.error
    print(error.rstrip(), file=sys.stderr)
    print(say("script-failed" if counted.has_trained else "script-failed-early"), file=sys.stderr)
    last = "\n".join(error.rstrip().splitlines()[-3:])
    for words, hint in (
        (("ConnectionError", "ConnectError", "OfflineModeIsEnabled", "LocalEntryNotFoundError", "URLError", "MaxRetryError",
          "couldn't connect", "Can't load"), "hint-network"),
        (("FileNotFoundError",), "hint-data"),
        (("ModuleNotFoundError", "ImportError"), "hint-module"),
        (("AssertionError", "ValueError", "ZeroDivisionError", "IndexError", "KeyError"), "hint-value"),
    ):  # fmt: skip
        if any(word in last for word in words):
            text = say(hint, python=sys.executable)
            print(say("hint", text=text), file=sys.stderr)
            break


def _fail(message, hint=None):
    print(say("error", text=message), file=sys.stderr)
    if hint is not None:
        print(say("hint", text=say(hint)), file=sys.stderr)
    return 2


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a writer thread of the script could still write
