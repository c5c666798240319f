"""Policies of other libraries as ONNX models that Unity and `load_policy` read.

`sb3`, `cleanrl` and `rsl_rl` read files into the plain form of `source_network`; `source_graph` writes this form as
ONNX, `source_evaluation` runs it with torch, `source_check` compares both, and `conversion` joins all modules.
"""

from palaestra.convert.conversion import Conversion as Conversion
from palaestra.convert.conversion import convert as convert
from palaestra.convert.convert_options import ConvertOptions as ConvertOptions
