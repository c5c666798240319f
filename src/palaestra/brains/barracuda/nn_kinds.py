"""Numbers of the kinds of layers and activations in Barracuda's files."""

from __future__ import annotations

NOP = 0
DENSE = 1
MATMUL = 2
CONV = 20
MAX_POOL = 25
ACTIVATION, SCALE_BIAS, DROPOUT, RANDOM_NORMAL = 50, 51, 60, 64
ADD = 100
SUB = 101
MUL = 102
DIV = 103
POW = 104
MIN = 110
MAX = 111
REDUCE_MAX = 124
REDUCE_MEAN = 125
REDUCE_MIN = 126
REDUCE_PROD = 127
REDUCE_SUM = 128
FLATTEN = 200
RESHAPE = 201
CONCAT = 210
STRIDED_SLICE = 211
LOAD = 255

NONE, RELU, SOFTMAX, TANH, SIGMOID, ELU, RELU6, LEAKY_RELU, SELU, SWISH, LOG_SOFTMAX = range(11)
ABS = 100
NEG = 101
CEIL = 102
CLIP = 103
FLOOR = 104
RECIPROCAL = 110
SQRT = 111
POWER = 112
EXP = 113
LOG = 114

SELU_ALPHA, SELU_GAMMA = 1.6732632, 1.0507009

LAYER_NAMES = {
    21: "DepthwiseConv2D", 22: "Conv2DTrans", 23: "Upsample2D", 26: "AvgPool2D", 27: "GlobalMaxPool2D",
    28: "GlobalAvgPool2D", 29: "Border2D", 52: "Normalization", 53: "LRN", 65: "RandomUniform", 66: "Multinomial",
    67: "OneHot", 112: "Mean", 140: "Greater", 142: "Less", 144: "Equal", 202: "Transpose", 203: "Squeeze",
    204: "Unsqueeze", 205: "Gather", 206: "DepthToSpace", 207: "SpaceToDepth", 208: "Expand", 209: "Resample2D",
    212: "Tile",
}  # fmt: skip
"""Names in messages of the kinds of layers that cannot be read yet."""


def title(kind: int) -> str:
    """Returns the name of a kind of layer, for messages."""
    return f"{LAYER_NAMES[kind]} ({kind})" if kind in LAYER_NAMES else f"number {kind}"
