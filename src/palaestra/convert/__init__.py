"""Policies of other libraries as ONNX models that Unity and `load_policy` read.

`sb3`, `cleanrl` and `rsl_rl` read files (`weights`: safely; `spaces`, `vec_normalize`: what lies beside weights) into
the plain form of `network`; `graph` writes that as ONNX, `evaluation` runs it with torch, `check` compares both, and
`conversion` joins all.
"""

from palaestra.convert.conversion import Conversion as Conversion
from palaestra.convert.conversion import convert as convert
from palaestra.convert.convert_options import ConvertOptions as ConvertOptions
