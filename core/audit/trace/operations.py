"""Sets of autograd operations by what they do to a residual stream, under autograd's names for them.

The names are those of mathematical operations, not of modules or parameters. An operation that is not listed ends the
walk along a stream, so an unknown operation can hide an addition but never invent one.
"""

from __future__ import annotations

VIEWS = frozenset(
    {
        *("View", "UnsafeView", "ReshapeAlias", "Alias", "Clone", "ToCopy", "Transpose", "Permute", "T", "Squeeze"),
        *("Unsqueeze", "Expand", "AsStrided", "Copy", "CopyBackwards", "Contiguous", "NativeDropout", "FusedDropout"),
        *("MaskedFill", "Where", "Slice", "Detach"),
    }
)
# These leave a value in their range as it is, or take one of several tensors: views wherever a run changes nothing.
BOUNDS = frozenset({"Clamp", "ClampMin", "ClampMax", "NanToNum", "Where"})
NORMS = frozenset({"NativeLayerNorm", "FusedRmsNorm", "NativeGroupNorm", "NativeBatchNorm"})
FUSED_ADDITIONS = frozenset({"Addmm", "Baddbmm", "Addbmm"})
MATRICES = FUSED_ADDITIONS | {"Mm", "Bmm", "Mv", "Convolution", "GroupedMm"}
SUMS = frozenset({"Add", "Sub", "Rsub", "Addcmul", "Addcdiv", "Lerp", "CopySlices"})
POINTWISE = frozenset(
    {
        *("Relu", "Gelu", "Silu", "Tanh", "Sigmoid", "Exp", "Softplus", "LeakyRelu", "Elu", "Hardtanh", "Hardswish"),
        *("Hardsigmoid", "Abs", "Clamp", "ClampMin", "ClampMax", "LogSigmoid", "Mish", "Threshold", "Pow", "Rsqrt"),
        *("Sqrt", "Reciprocal", "Erf", "Log", "Sin", "Cos", "Sign", "Maximum", "Minimum"),
    }
)
REDUCTIONS = frozenset(
    {"Mean", "Sum", "Var", "Std", "VarMean", "StdMean", "LinalgVectorNorm", "Norm", "Amax", "Amin", "Prod"}
)
TABLES = frozenset({"Embedding", "EmbeddingBag"})
LOOKUPS = frozenset({"Index", "IndexSelect", "Gather", "UnsafeIndex"})
SOFTMAX = frozenset({"Softmax", "SafeSoftmax"})
ATTENTION = "ScaledDotProduct"
NONLINEAR = SOFTMAX | {"LogSoftmax", "Sigmoid", "Topk", "Sort", "Max", "Min", "Logsumexp"}

# Of these operations, by dispatcher name, the recorder keeps the arguments: coefficients, matrices, fused terms.
ARGUMENTS_KEPT = frozenset(
    {
        *(
            "add",
            "add_",
            "sub",
            "sub_",
            "rsub",
            "mul",
            "mul_",
            "div",
            "div_",
            "addcmul",
            "addcmul_",
            "addcdiv",
            "addcdiv_",
            "lerp",
            "lerp_",
        ),
        *("mm", "bmm", "mv", "addmm", "addmm_", "baddbmm", "baddbmm_", "addbmm", "addbmm_", "convolution"),
        *("copy_", "_grouped_mm"),
    }
)
