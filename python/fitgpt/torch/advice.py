"""`advise`: finds the settings of a training run that fit on a card, by counting each."""

import inspect
from dataclasses import dataclass

from . import cards
from .pretend import pretend
from .report import in_one_unit
from .words import say


@dataclass(frozen=True)
class Option:
    """One combination of settings and its counted peak."""

    settings: dict
    peak_bytes: int
    verdict: str
    keeps_training: bool = True
    text: str = ""  # how to write the settings, if not as `name=value`

    @property
    def fits(self):
        return self.verdict == "fits"

    def __str__(self):
        return self.line(in_one_unit(self.peak_bytes))

    def line(self, size):
        """One line, with the peak as `size` writes it."""
        settings = self.text or ", ".join(f"{key}={value}" for key, value in self.settings.items())
        if not self.keeps_training:
            settings += " " + say("changes-training")
        return say("option-peak", verdict=say(self.verdict), size=size(self.peak_bytes), settings=settings)


@dataclass(frozen=True)
class Advice:
    """All counted options: those that fit first, and the smallest change first."""

    card: str
    options: tuple

    @property
    def best(self):
        """The first option that fits, or `None`."""
        return next((o for o in self.options if o.fits), None)

    def __str__(self):
        head = say("on-card" if self.best else "nothing-fits-on", card=self.card)
        size = in_one_unit(max((o.peak_bytes for o in self.options), default=0))
        lines = [head, *(f"  {option.line(size)}" for option in self.options)]
        if self.best is not None and self.best.text:
            lines += ["", say("next", text=self.best.text)]
        return "\n".join(lines)


def advise(build, card, *, batch_size, accumulation=1, checkpoint=(False, True), autocast=None, steps=2):
    """Counts `build` with several settings on `card`, keeping `batch_size` × `accumulation`.

    `build(batch_size=…, …)` makes the model and the optimizer on the current CUDA device and
    returns a function that runs one micro-batch and one update. It gets those of `batch_size`,
    `accumulation`, `checkpoint` and `autocast` that it has parameters for. `autocast` lists the
    precisions to try, in order of preference. Precision changes the training run, so by default
    only one is tried.

    For each combination of the other settings, this searches for the largest micro-batch that
    fits among the divisors of the effective batch: the peak grows with the micro-batch.
    """
    whole = batch_size * accumulation
    divisors = [d for d in range(1, batch_size + 1) if whole % d == 0]
    accepted = inspect.signature(build).parameters
    is_open = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    takes = lambda name: is_open or name in accepted  # noqa: E731
    found = cards.find(card)
    counted = {}

    def count(micro, rest):
        settings = {"batch_size": micro, "accumulation": whole // micro, **rest}
        key = tuple(settings.items())
        if key not in counted:
            with pretend("cuda") as m:
                step = build(**{k: v for k, v in settings.items() if takes(k)})
                for _ in range(steps):
                    step()
                del step
            counted[key] = Option(settings, m.peak_bytes, m.verdict(card))
        return counted[key]

    for precision in autocast if autocast and takes("autocast") else (None,):
        for is_checkpointed in checkpoint if takes("checkpoint") else (None,):
            rest = {"checkpoint": is_checkpointed, "autocast": precision}
            rest = {k: v for k, v in rest.items() if v is not None}
            low, high = 0, len(divisors) - 1
            if count(divisors[high], rest).fits:
                continue
            while low < high:  # the first that does not fit is at `high` or below it
                middle = (low + high) // 2
                if count(divisors[middle], rest).fits:
                    low = middle + 1
                else:
                    high = middle
    rank = {"fits": 0, "tight": 1, "no": 2}
    # Smallest change first: a whole batch before a split one, no recomputation before
    # recomputation.
    options = sorted(
        counted.values(),
        key=lambda o: (rank[o.verdict], bool(o.settings.get("checkpoint")), -o.settings["batch_size"]),
    )
    return Advice(found.name, tuple(options))
