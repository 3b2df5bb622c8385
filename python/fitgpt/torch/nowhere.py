"""Lets a script write without anything being written.

Files and folders that the script makes are in a temporary folder that is removed afterwards. The
script finds them where it wrote them; all other files are the real ones, which it can neither change
nor remove. Weights are not written at all. Only libraries that fetch data write to their caches as
always (`_DATA`). Trackers such as wandb are off, and nothing is uploaded.
"""

import builtins
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
import types
from unittest import mock

import torch
from torch.utils._pytree import tree_map_only

from .files import DTYPES

# Packages that load data; what they write is theirs.
_DATA = ("datasets", "torchvision", "torchtext", "torchaudio", "tiktoken", "nltk", "kagglehub")
_DOWNLOADS = ("huggingface_hub.file_download", "huggingface_hub._snapshot_download")  # the rest saves
_OURS = os.path.dirname(os.path.abspath(__file__))
_OFF = {
    "WANDB_MODE": "disabled", "COMET_MODE": "DISABLED", "NEPTUNE_MODE": "debug", "SWANLAB_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1", "DISABLE_MLFLOW_INTEGRATION": "TRUE", "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRACKIO_DISABLED": "1",
}  # fmt: skip
_UPLOADS = (
    "create_repo", "create_branch", "create_commit", "upload_file", "upload_folder", "upload_large_folder", "delete_file",
    "delete_folder", "delete_repo", "add_space_secret", "run_as_future",
)  # fmt: skip


class Nowhere:
    """Files that exist only for the script, below `folder`."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.written = set()  # what the script wrote, by the names that it used
        self.real = [self.folder]  # folders below which files are real
        self._is_inside = False
        self._open, self._os_open = builtins.open, os.open
        self._values = []

    @contextlib.contextmanager
    def installed(self):
        """Replaces the functions that write, for the duration of the context."""
        environment = {name: value for name, value in _OFF.items() if name not in os.environ}
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, environment))
            stack.enter_context(mock.patch.object(sys, "dont_write_bytecode", True))
            for target, name, value in self._patches():
                stack.enter_context(mock.patch.object(target, name, value))
            stack.enter_context(_stub("wandb"))
            yield self

    def place(self, path):
        """Where the script's own file `path` is."""
        return os.path.join(self.folder, os.path.abspath(path).lstrip(os.sep).replace(":", ""))

    def _patches(self):
        for module in (builtins, io):
            yield module, "open", self._opened
        yield os, "open", self._opened_by_flags
        for name in ("stat", "lstat", "access", "utime", "chmod", "truncate"):
            yield os, name, self._redirected(getattr(os, name))
        for name in ("remove", "unlink", "rmdir"):
            yield os, name, self._removing(getattr(os, name))
        for name in ("rename", "replace"):
            yield os, name, self._renaming(getattr(os, name))
        for name in ("exists", "isfile", "isdir", "getsize", "getmtime", "islink", "lexists"):
            yield os.path, name, self._redirected(getattr(os.path, name))
        yield os, "mkdir", self._made(os.mkdir)
        yield os, "listdir", self._listed(os.listdir)
        yield os, "scandir", self._redirected(os.scandir)
        for name in ("symlink", "link"):
            yield os, name, lambda *_, **__: None
        yield shutil, "rmtree", self._removing(shutil.rmtree)
        yield torch, "save", self._saved(torch.save)
        yield torch, "load", self._loaded(torch.load)
        for name in ("mkdtemp", "mkstemp"):
            yield tempfile, name, self._temporary(getattr(tempfile, name))

    def _is_ours(self, path):
        """Whether the script's `path` is a file of its own."""
        if self._is_inside or not isinstance(path, (str, bytes, os.PathLike)):
            return False
        try:
            path = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError):
            return False
        return not self._is_real(path) and self._exists(self.place(path))

    def _is_real(self, path):
        return any(path == folder or path.startswith(folder + os.sep) for folder in self.real)

    def _exists(self, path):
        try:
            _lstat(path)
        except OSError:
            return False
        return True

    def _may_write(self, path):
        """Whether `path` is really written: a device, a temporary file of ours, or data."""
        path = os.path.abspath(os.fsdecode(path))
        if self._is_inside or self._is_real(path) or path.startswith(("/dev/", "/proc/")):
            return True
        frame = sys._getframe(2)
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            if name.startswith(_DOWNLOADS) or name.partition(".")[0] in _DATA:
                return True
            frame = frame.f_back
        return False

    def _written_place(self, path, keeps):
        """The place for a file that is about to be written, with the real contents if they count."""
        name = os.path.abspath(os.fsdecode(path))
        place = self.place(name)
        if not self._exists(place):
            parent = os.path.dirname(name)
            if not (self._exists(parent) or self._exists(self.place(parent))):
                raise FileNotFoundError(2, "No such file or directory", str(path))
            with self._inside():
                os.makedirs(os.path.dirname(place), exist_ok=True)
                if keeps and os.path.isfile(name):
                    shutil.copyfile(name, place)
        self.written.add(name)
        return place

    @contextlib.contextmanager
    def _inside(self):
        before, self._is_inside = self._is_inside, True
        try:
            yield
        finally:
            self._is_inside = before

    def _opened(self, file, mode="r", *args, **kwargs):
        if isinstance(file, int):
            return self._open(file, mode, *args, **kwargs)
        if set(mode) & set("wax+"):
            if not self._may_write(file):
                if "x" in mode and (self._exists(file) or self._is_ours(file)):
                    raise FileExistsError(17, "File exists", str(file))
                file = self._written_place(file, keeps="w" not in mode)
        elif self._is_ours(file):
            file = self.place(os.fsdecode(file))
        with self._inside():
            return self._open(file, mode, *args, **kwargs)

    def _opened_by_flags(self, path, flags, *args, **kwargs):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            if not self._may_write(path):
                path = self._written_place(path, keeps=not flags & os.O_TRUNC)
        elif self._is_ours(path):
            path = self.place(os.fsdecode(path))
        return self._os_open(path, flags, *args, **kwargs)

    def _redirected(self, function):
        def call(path=".", *args, **kwargs):
            return function(self.place(os.fsdecode(path)) if self._is_ours(path) else path, *args, **kwargs)

        return call

    def _removing(self, function):
        def call(path, *args, **kwargs):
            if self._is_ours(path):
                with self._inside():
                    return function(self.place(os.fsdecode(path)), *args, **kwargs)
            if self._may_write(path):
                with self._inside():
                    return function(path, *args, **kwargs)
            return None  # a real file stays

        return call

    def _renaming(self, function):
        def call(source, target, *args, **kwargs):
            if self._is_ours(source):
                source = self.place(os.fsdecode(source))
            elif not self._may_write(source):
                return None  # a real file stays
            if self._may_write(target):
                return function(source, target, *args, **kwargs)
            place = self._written_place(target, keeps=False)
            with self._inside():
                return shutil.move(source, place)

        return call

    def _made(self, function):
        def call(path, *args, **kwargs):
            if self._may_write(path):
                return function(path, *args, **kwargs)
            if self._is_ours(path) or self._exists(path):
                raise FileExistsError(17, "File exists", str(path))
            place = self._written_place(path, keeps=False)
            with self._inside():
                return os.makedirs(place)

        return call

    def _listed(self, function):
        def call(path="."):
            if isinstance(path, int) or not self._is_ours(path):
                return function(path)
            found = set(function(self.place(os.fsdecode(path))))
            with contextlib.suppress(OSError):
                found.update(function(path))
            return sorted(found)

        return call

    def _temporary(self, function):
        def call(*args, **kwargs):
            with self._inside():
                made = function(*args, **kwargs)
            path = made[1] if isinstance(made, tuple) else made
            self.real.append(os.path.abspath(path))
            return made

        return call


    def _saved(self, save):
        def call(value, file, *args, **kwargs):
            """Writes a mark by which `load` finds the value; it is kept in host memory."""
            save(value, file, *args, **kwargs)  # which adds a note
            self._values.append(tree_map_only(torch.Tensor, lambda t: t.detach().to("cpu"), value))
            mark = _MARK + str(len(self._values) - 1).encode()
            if hasattr(file, "write"):
                file.write(mark)
            else:
                with open(file, "wb") as opened:
                    opened.write(mark)

        return call

    def _loaded(self, load):
        def call(file, *args, map_location=None, **kwargs):
            mark = _mark_of(file)
            if mark is None:
                return load(file, *args, map_location=map_location, **kwargs)
            value = self._values[mark]
            device = map_location if isinstance(map_location, (str, torch.device)) else None
            return tree_map_only(torch.Tensor, lambda t: t.to(device) if device else t.clone(), value)

        return call


_lstat = os.lstat
_MARK = b"fitgpt: not written "


def _mark_of(file):
    """The number of a value that `torch.save` was given, or `None` for another file."""
    if hasattr(file, "read"):
        start = file.tell()
        found = file.read(len(_MARK) + 20)
        file.seek(start)
    else:
        with open(file, "rb") as opened:
            found = opened.read(len(_MARK) + 20)
    return int(found.removeprefix(_MARK)) if found.startswith(_MARK) else None


def write_shapes(tensors, file, metadata=None):
    """A safetensors file of the right names, types and size, full of zeros."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + size],
        }  # fmt: skip
        end += size
    text = json.dumps(header).encode()
    with open(file, "wb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text)
        opened.truncate(8 + len(text) + end)


class Anything:
    """Answers every call and attribute with itself: a tracker that is off."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __setitem__(self, *_):
        pass

    def __getitem__(self, _):
        return self

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False


@contextlib.contextmanager
def _stub(name):
    """A module in place of a tracker that is not installed."""
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        yield
        return
    nothing = Anything()
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__getattr__ = lambda _: nothing
    module.__version__, module.__file__ = "0.0.0", __file__
    sys.modules[name] = module
    try:
        yield
    finally:
        sys.modules.pop(name, None)


def uploads():
    """Patches of `huggingface_hub`, once it is imported."""
    from huggingface_hub import HfApi

    for name in _UPLOADS:
        if hasattr(HfApi, name):
            yield HfApi, name, Anything()
