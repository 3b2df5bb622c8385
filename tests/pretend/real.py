"""An independent count: real tensors on the CPU, found by the addresses of their memory.

It shares no code with `fitgpt.torch` and knows nothing of fake tensors. A block is alive from the
op that returns it until the storage at its address is released.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class RealCount(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.blocks = {}
        self.now = self.most = 0
        self.at = None

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        self._walk(out)
        self._walk(args)
        if self.now > self.most:
            self.most, self.at = self.now, str(op)
        return out

    def _walk(self, tree):
        if isinstance(tree, torch.Tensor):
            if tree.layout == torch.sparse_coo:
                self._walk((tree._indices(), tree._values()))
            else:
                self._add(tree.untyped_storage())
        elif isinstance(tree, (list, tuple)):
            for item in tree:
                self._walk(item)

    def _add(self, storage):
        address = storage.data_ptr()
        if address == 0 or address in self.blocks:
            return
        size = (storage.nbytes() + 511) // 512 * 512
        self.blocks[address] = size
        self.now += size
        weakref.finalize(storage, self._drop, address)

    def _drop(self, address):
        self.now -= self.blocks.pop(address)
