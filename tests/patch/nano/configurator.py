# Reads --key=value into the names of the file that executes this one.
import sys
from ast import literal_eval

for argument in sys.argv[1:]:
    key, _, text = argument.removeprefix('--').partition('=')
    assert key in globals(), f"no key {key}"
    value = text if isinstance(globals()[key], str) else literal_eval(text)
    assert type(value) == type(globals()[key]), f"{key} is no {type(value)}"
    globals()[key] = value
