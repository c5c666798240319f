"""Numbers that stand for kinds of layers and activations in Barracuda's files."""

from __future__ import annotations

NOP, DENSE, MATMUL, CONV, MAX_POOL = 0, 1, 2, 20, 25
ACTIVATION, SCALE_BIAS, DROPOUT, RANDOM_NORMAL = 50, 51, 60, 64
ADD, SUB, MUL, DIV, POW, MIN, MAX = 100, 101, 102, 103, 104, 110, 111
REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_PROD, REDUCE_SUM = 124, 125, 126, 127, 128
FLATTEN, RESHAPE, CONCAT, STRIDED_SLICE, LOAD = 200, 201, 210, 211, 255

NONE, RELU, SOFTMAX, TANH, SIGMOID, ELU, RELU6, LEAKY_RELU, SELU, SWISH, LOG_SOFTMAX = range(11)
ABS, NEG, CEIL, CLIP, FLOOR, RECIPROCAL, SQRT, POWER, EXP, LOG = 100, 101, 102, 103, 104, 110, 111, 112, 113, 114

SELU_ALPHA, SELU_GAMMA = 1.6732632, 1.0507009

LAYER_NAMES = {
    21: "DepthwiseConv2D", 22: "Conv2DTrans", 23: "Upsample2D", 26: "AvgPool2D", 27: "GlobalMaxPool2D", 28: "GlobalAvgPool2D",
    29: "Border2D", 52: "Normalization", 53: "LRN", 65: "RandomUniform", 66: "Multinomial", 67: "OneHot", 112: "Mean",
    140: "Greater", 142: "Less", 144: "Equal", 202: "Transpose", 203: "Squeeze", 204: "Unsqueeze", 205: "Gather",
    206: "DepthToSpace", 207: "SpaceToDepth", 208: "Expand", 209: "Resample2D", 212: "Tile",
}  # fmt: skip
"""Kinds of layers that cannot be read yet, for messages."""


def title(kind: int) -> str:
    """Returns the name of a kind of layer, for messages."""
    return f"{LAYER_NAMES[kind]} ({kind})" if kind in LAYER_NAMES else f"number {kind}"
