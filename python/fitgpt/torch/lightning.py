"""`Guard`: the guard as a Lightning callback.

    trainer = Trainer(callbacks=[fitgpt.torch.lightning.Guard()])
"""

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from .guard import OutOfMemory, diagnose, start_recording, stop_recording


class Guard(Callback):
    """Prints the doctor's diagnosis if a trainer runs out of memory; Lightning re-raises."""

    def __init__(self, config=None, *, record=False):
        super().__init__()
        self.config = config
        self.record = record

    def setup(self, trainer, pl_module, stage):
        if self.record:
            start_recording()

    def teardown(self, trainer, pl_module, stage):
        if self.record:
            stop_recording()

    def on_exception(self, trainer, pl_module, exception):
        if isinstance(exception, OutOfMemory):
            diagnose(exception, self.config, record=self.record)
