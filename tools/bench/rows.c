/* SPDX-License-Identifier: BSD-3-Clause
 * The rows of `limber bench` and `limber gpu` as text, and the code that measures and prints
 * them. */
#include "tools/bench/bench.h"

#include <limber/unit.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One row of the benchmark as text.
 * work     its name; after ";" the name of the data, if the table shows it
 * formats  of A, B and C, or one for all three; a mark ' after it: the operand is stored transposed
 * sizes    n, or MxNxK, or N/16 for k = n / 16; + : only with --full, - : only without it; or a
 *          convolution: channels, height (and width) of the image, filters, height (and width) of
 *          the window, stride, layout, groups (1), depth of the image (0: two dimensions; else
 *          the window, stride and padding are as large in depth as in width)
 * data     a word of data_words below, and its parameters
 * by       the contenders: words of the table of peers, or CONTRACT:SCHEME@/HOW for Limber, where
 *          all but CONTRACT may be absent.  * : ratios are to the fastest of the contenders with it
 * show     which lines are printed, a word of `shows` below; NULL: the usual ones
 * unit     description of a simulated unit, or NULL */
struct row {
    const char *group, *work, *formats, *sizes, *data, *by, *show, *unit;
    /* measures and prints a row that is no product; else NULL */
    bool (*special)(struct bench *b);
    limber_operation operation; /* direction of a convolution; 0 for a forward one */
    int batch; /* number of products of that shape; 0 for one */
};

#define SMALL "8 16 24 32 48 64 96 128"
/* Rows of simulated units: `description` is the unit's. Those of COUNTED also keep statistics. */
#define UNIT(name, description) \
    { "simulate", name,       "f32", "512 1024", "normal", "simulate native/fp32* cpfloat", \
      "unit",     description }
#define COUNTED(name, show, description) \
    { "simulate", name, "f32", "512 1024", "normal", "simulate native/fp32*", show, description }

/* Rows of a convolution layer on CPUs: each format, layout and direction. oneDNN is measured in
 * layouts of its own choice for plain NHWC and INT8 tensors, for which it only has reference loops
 * that take seconds, and for gradients.  `of` is a prefix of the rows' kinds; a geometric mean is
 * printed for each kind. */
#define CONV(group, name, of, formats, shape, data, by) \
    { group, name ";" of, formats, shape, data, by, "conv" }
/* The gradient with respect to the data or the filters: `way` is DATA or FILTER. */
#define BACKWARD(group, name, of, shape, way) \
    { group,    name ";" of,        "f32",  shape, \
      "normal", "native conv-any*", "conv", .operation = LIMBER_OPERATION_CONV_BACKWARD_##way }
/* The gradient with respect to the data, by filters prepared before the timing. */
#define PREPARED_BACK(group, name, of, shape) \
    { group,    name ";" of, \
      "f32",    shape, \
      "normal", "native/prepared conv-any* native/plain", \
      "conv",   .operation = LIMBER_OPERATION_CONV_BACKWARD_DATA }
/* All rows of a layer.  `count`: ",GROUPS" of `sizes`, or "" for one group. */
#define CPU_LAYER(group, name, of, shape, count) \
    CONV(group, name, of "FP32 NCHW", "f32", shape ",nchw" count, "normal", \
         "native conv-plain* conv-any"), \
        CONV(group, name, of "FP32 NHWC", "f32", shape ",nhwc" count, "normal", \
             "native conv-any*"), \
        CONV(group, name, of "FP32 NHWC, filters prepared", "f32", shape ",nhwc" count, "normal", \
             "native/prepared conv-any* native/plain"), \
        CONV(group, name, of "INT8", "i8 i8 i32", shape ",nchw" count, "integers 7", \
             "native conv-any*"), \
        CONV(group, name, of "INT8, filters prepared", "i8 i8 i32", shape ",nchw" count, \
             "integers 7", "native/prepared conv-any* native/plain"), \
        CONV(group, name, of "INT8 NHWC", "i8 i8 i32", shape ",nhwc" count, "integers 7", \
             "native conv-any*"), \
        CONV(group, name, of "INT8 NHWC, filters prepared", "i8 i8 i32", shape ",nhwc" count, \
             "integers 7", "native/prepared conv-any* native/plain"), \
        CONV(group, name, of "bytes in FP32", "f32", shape ",nchw" count, "integers 7", \
             "correct conv-plain* conv-any"), \
        CONV(group, name, of "bytes in FP32, filters prepared", "f32", shape ",nchw" count, \
             "integers 7", "correct/prepared conv-plain* conv-any correct/plain"), \
        CONV(group, name, of "FP32 correct", "f32", shape ",nchw" count, "normal", \
             "correct conv-plain* conv-any"), \
        BACKWARD(group, name, of "backward data", shape ",nchw" count, DATA), \
        BACKWARD(group, name, of "backward data NHWC", shape ",nhwc" count, DATA), \
        PREPARED_BACK(group, name, of "backward data, filters prepared", shape ",nchw" count), \
        PREPARED_BACK(group, name, of "backward data NHWC, filters prepared", \
                      shape ",nhwc" count), \
        BACKWARD(group, name, of "backward filter", shape ",nchw" count, FILTER), \
        BACKWARD(group, name, of "backward filter NHWC", shape ",nhwc" count, FILTER)
/* The rows of a layer of ResNet-18. */
#define RESNET(name, shape) CPU_LAYER("conv/resnet18", name, "", shape, "")
/* Rows of layers of MobileNetV2: 1 x 1 convolutions of h x h images from c to o channels, and
 * depthwise 3 x 3 convolutions. */
#define MOBILE(c, h, o) \
    CPU_LAYER("conv/mobilenetv2", "1x1 " #c " -> " #o ", " #h, "", #c "," #h "," #o ",1,1", "")
#define DEPTHWISE(c, h, stride) \
    CPU_LAYER("conv/depthwise", "3x3/" #stride ", " #c ", " #h, "depthwise ", \
              #c "," #h "," #c ",3," #stride, "," #c)

/* The rows of a three-dimensional convolution. */
#define DEEP(name, of, shape, count) \
    CONV("conv/deep", name, of "FP32 NCHW", "f32", shape ",nchw" count, "normal", \
         "native conv-plain* conv-any"), \
        CONV("conv/deep", name, of "FP32 NHWC", "f32", shape ",nhwc" count, "normal", \
             "native conv-any*"), \
        CONV("conv/deep", name, of "INT8", "i8 i8 i32", shape ",nchw" count, "integers 7", \
             "native conv-any*"), \
        CONV("conv/deep", name, of "FP32 correct", "f32", shape ",nchw" count, "normal", \
             "correct conv-plain* conv-any"), \
        BACKWARD("conv/deep", name, of "backward data", shape ",nchw" count, DATA), \
        BACKWARD("conv/deep", name, of "backward filter", shape ",nchw" count, FILTER)

/* clang-format off */
static const struct row cpu_rows[] = {
    { "limits", .special = limit_rows },
    { "fp64", "FP64 native", "f64", "256 512 1024 2048 4096+", "signed", "native f64*" },
    { "fp64", "FP64 native, A B^T", "f64 f64' f64", "1024", "signed", "native f64*" },
    { "fp64", "FP64 native, A^T B", "f64' f64 f64", "1024", "signed", "native f64*" },
    { "fp64", "FP64 native, A^T B^T", "f64' f64' f64", "1024", "signed", "native f64*" },
    { "fp32", "FP32 native", "f32", "256 512 1024 2048 4096+", "signed", "native f32*" },
    { "fp32", "FP32 native, A B^T", "f32 f32' f32", "1024", "signed", "native f32*" },
    { "fp32", "FP32 native, A^T B", "f32' f32 f32", "1024", "signed", "native f32*" },
    { "fp32", "FP32 native, A^T B^T", "f32' f32' f32", "1024", "signed", "native f32*" },
    { "order", "FP64, one stated order", "f64", "16 32 64 256 512 1024 2048", "normal",
      "reproducible native/plain*" },
    { "order", "FP32, one stated order", "f32", "16 32 64 256 512 1024 2048", "normal",
      "reproducible native/plain*" },
    { "int8", "i8 x i8 -> i32", "i8 i8 i32", "512 1024 2048", "integers 7", "native:integer i8*",
      "bytes" },
    { "int8", "u8 x i8 -> i32", "u8 i8 i32", "512 1024 2048", "integers 7", "native:integer u8*",
      "bytes" },
    { "correct", "FP64 correct, multiples of 2^-53 in (-1,1)", "f64", "1024 2048 4096+", "signed",
      "correct f64*", "share" },
    { "correct", "FP64 correct, normal N(0,1)", "f64", "1024 2048 4096+", "normal", "correct f64*",
      "share" },
    { "correct", "FP32 correct, normal N(0,1)", "f32", "256 1024 2048 4096+", "normal",
      "correct f32*" },
    { "correct", "FP32 correct, small, N(0,1)", "f32", "4 8 16 32 64 128", "normal",
      "correct f32*" },
    { "correct", "FP64 correct, small, N(0,1)", "f64", "4 8 16 32 64 128", "normal", "correct f64*",
      "share" },
    { "quad", "binary128 from binary128", "f128", "512+ 1024 2048", "quad", "native f64*",
      "share" },
    { "quad", "binary128 from binary64", "f64 f64 f128", "512+ 1024 2048", "signed", "native f64*",
      "share" },
    { "quad", "double-double", "dd", "512+ 1024 2048", "quad", "native f64*", "share" },
    { "quad", "FLINT fmpz_mat, 113 bits", "f128", "256", "quad", "native flint*", "peer" },
    { "quad", "Arb arb_mat, 113 bits", "f128", "256", "quad", "native arb*", "peer" },
    { "quad", "the compiler's binary128, blocked", "f128", "128", "quad", "native binary128*",
      "peer" },
    { "quad", "double-double by FMA", "dd", "512 1024 2048", "quad", "native dd*", "peer" },
    { "mask", "doubles that hold integers to 127", "f64", "1024 2048", "integers 7", "native f64*",
      "share" },
    { "mask", "doubles that hold integers to 32767", "f64", "1024 2048", "integers 15",
      "native f64*", "share" },
    { "mask", "doubles born as floats", "f64", "1024 2048", "floats", "native f64*", "share" },
    { "mask", "doubles born as floats, correct", "f64", "1024 2048", "floats", "correct f64*",
      "share" },
    { "integers", "i16 -> i64 exact", "i16 i16 i64", "512 1024", "integers 15", "exact i64*",
      "share" },
    { "integers", "i32 -> i64 exact, values of 26 bits", "i32 i32 i64", "512 1024", "integers 26",
      "exact i64*", "share" },
    { "integers", "i64 -> i64 exact, values of 20 bits", "i64", "512 1024", "integers 20",
      "exact i64*", "share" },
    UNIT("(1,5,10), all rounded", "in=f16 mul=f16 acc=f16"),
    UNIT("(1,5,2), all rounded", "in=e5m2 mul=e5m2 acc=e5m2"),
    UNIT("(1,4,3), all rounded", "in=(1,4,3) mul=(1,4,3) acc=(1,4,3)"),
    UNIT("(1,6,9), all rounded", "in=(1,6,9) mul=(1,6,9) acc=(1,6,9)"),
    UNIT("(1,8,7), all rounded", "in=bf16 mul=bf16 acc=bf16"),
    UNIT("FP32, groups of 16", "in=f32 mul=f32 acc=f32 group=16"),
    UNIT("(1,5,2), groups of 16", "in=e5m2 mul=e5m2 acc=e5m2 group=16"),
    COUNTED("(1,5,2), swamping counted", "swamped", "in=e5m2 mul=e5m2 acc=e5m2"),
    COUNTED("(1,5,2), all counted", "counted", "in=e5m2 mul=e5m2 acc=e5m2"),
    COUNTED("(1,6,9), swamping counted", "swamped", "in=(1,6,9) mul=(1,6,9) acc=(1,6,9)"),
    UNIT("(1,5,2) in (1,6,9), stochastic", "in=e5m2 mul=e5m2:rs acc=(1,6,9):rs seed=1"),
    UNIT("(1,8,7), stochastic", "in=bf16 mul=bf16:rs acc=bf16:rs seed=1"),
    UNIT("v100-fp16", "v100-fp16"),
    UNIT("a100-fp16", "a100-fp16"),
    UNIT("a100-bf16", "a100-bf16"),
    UNIT("h100-fp16", "h100-fp16"),
    UNIT("h100-bf16", "h100-bf16"),
    UNIT("h100-e4m3", "h100-e4m3"),
    { "small", "small FP64, limber_gemm", "f64", SMALL, "signed", "native f64*" },
    { "small", "small FP64, bound function", "f64", SMALL, "signed", "native/bound f64*" },
    { "small", "small FP64, one shape", "f64", SMALL, "signed", "native/shape f64*" },
    { "small", "small FP32, limber_gemm", "f32", SMALL, "signed", "native f32*" },
    { "small", "small FP32, bound function", "f32", SMALL, "signed", "native/bound f32*" },
    { "small", "small FP32, one shape", "f32", SMALL, "signed", "native/shape f32*" },
    { "batch", "batch of 100, FP64", "f64", "8 16 32 64 128", "signed", "native batch64*",
      .batch = 100 },
    { "batch", "batch of 100, FP32", "f32", "8 16 32 64 128", "signed", "native batch32*",
      .batch = 100 },
    { "interposed", "FP64, cblas_dgemm by Limber", "f64", "32 128 512", "signed",
      "blas64 native/plain f64*", "interposed" },
    { "interposed", "FP32, cblas_sgemm by Limber", "f32", "32 128 512", "signed",
      "blas32 native/plain f32*", "interposed" },
    { "prepared", "A prepared, FP64 native", "f64", "256 1024", "normal",
      "native/prepared native/plain*" },
    { "prepared", "A prepared, FP64 native, m = k = 4096", "f64", "4096x64x4096 4096x8x4096",
      "normal", "native/prepared native/plain*" },
    { "prepared", "A prepared, FP64 correct", "f64", "256 1024", "normal",
      "correct/prepared correct/plain*" },
    { "prepared", "A prepared, FP64 correct, m = k = 4096", "f64", "4096x64x4096 4096x8x4096",
      "normal", "correct/prepared correct/plain*" },
    { "hostile", "1% NaN and infinities, correct", "f64", "512", "spread 1 100",
      "correct correct/easy*" },
    { "hostile", "2^120, correct", "f64", "512", "spread 120", "correct correct/easy*" },
    { "hostile", "2^120, bits=53", "f64", "512", "spread 120", "bits=53 correct/easy*" },
    { "hostile", "2^600, correct", "f64", "512", "spread 600", "correct correct/easy*" },
    { "hostile", "full range, correct", "f64", "512", "spread 2000", "correct correct/easy*" },
    { "hostile", "full range, bits=53", "f64", "512", "spread 2000", "bits=53 correct/easy*" },
    { "hostile", "sums cancel exactly, correct", "f64", "16 64 100 200 512 1024", "cancels 0",
      "correct correct/easy*" },
    { "hostile", "sums cancel to 2^-50, correct", "f64", "16 64 100 200 512 1024", "cancels 50",
      "correct correct/easy*" },
    { "hostile", "sums cancel to 2^-50, bits=50", "f64", "64 200 512", "cancels 50",
      "bits=50 correct/easy*" },
    /* distinct layers of networks for images of 224 x 224, and one of a Transformer as a 1 x 1
     * convolution */
    RESNET("conv1 7x7/2", "3,224,64,7,2"),
    RESNET("layer1 3x3", "64,56,64,3,1"),
    RESNET("layer2 3x3/2", "64,56,128,3,2"),
    RESNET("layer2 1x1/2", "64,56,128,1,2"),
    RESNET("layer2 3x3", "128,28,128,3,1"),
    RESNET("layer3 3x3/2", "128,28,256,3,2"),
    RESNET("layer3 1x1/2", "128,28,256,1,2"),
    RESNET("layer3 3x3", "256,14,256,3,1"),
    RESNET("layer4 3x3/2", "256,14,512,3,2"),
    RESNET("layer4 1x1/2", "256,14,512,1,2"),
    RESNET("layer4 3x3", "512,7,512,3,1"),
    CPU_LAYER("conv/mobilenetv2", "3x3/2 3 -> 32, 224", "", "3,224,32,3,2", ""),
    MOBILE(32, 112, 16), MOBILE(16, 112, 96), MOBILE(96, 56, 24), MOBILE(24, 56, 144),
    MOBILE(144, 56, 24), MOBILE(144, 28, 32), MOBILE(32, 28, 192), MOBILE(192, 28, 32),
    MOBILE(192, 14, 64), MOBILE(64, 14, 384), MOBILE(384, 14, 64), MOBILE(384, 14, 96),
    MOBILE(96, 14, 576), MOBILE(576, 14, 96), MOBILE(576, 7, 160), MOBILE(160, 7, 960),
    MOBILE(960, 7, 160), MOBILE(960, 7, 320), MOBILE(320, 7, 1280),
    CPU_LAYER("conv/bert", "1x1 768 -> 768, 16", "", "768,16,768,1,1", ""),
    DEPTHWISE(32, 112, 1), DEPTHWISE(96, 112, 2), DEPTHWISE(144, 56, 1), DEPTHWISE(144, 56, 2),
    DEPTHWISE(192, 28, 1), DEPTHWISE(192, 28, 2), DEPTHWISE(384, 14, 1), DEPTHWISE(576, 14, 1),
    DEPTHWISE(576, 14, 2), DEPTHWISE(960, 7, 1),
    /* layers of networks for videos of 16 images of 112 x 112 */
    DEEP("3x3x3/2 3 -> 64, 16 x 112", "3-D ", "3,112,64,3,2", ",1,16"),
    DEEP("3x3x3 64 -> 64, 8 x 28", "3-D ", "64,28,64,3,1", ",1,8"),
    DEEP("1x1x1/2 64 -> 128, 8 x 28", "3-D ", "64,28,128,1,2", ",1,8"),
    DEEP("3x3x3 256 -> 256, 2 x 7", "3-D ", "256,7,256,3,1", ",1,2"),
    DEEP("3x3x3 108 -> 108, 8 x 28", "3-D depthwise ", "108,28,108,3,1", ",108,8"),
    DEEP("3x3x3/2 216 -> 216, 8 x 28", "3-D depthwise ", "216,28,216,3,2", ",216,8"),
    { "scan", .special = scan_rows },
    { "windows", .special = window_rows },
    { "operators", .special = operator_rows },
    { "reductions", .special = reduction_rows },
    { "epilogues", .special = epilogue_rows },
    { "latency", .special = latency_rows },
    { "threads", "2 threads, FP64 native", "f64", "1024 2048+", "signed", "native/2 native/1*",
      "threads" },
    { "threads", "2 threads, FP64 correct", "f64", "1024 2048+", "signed", "correct/2 correct/1*",
      "threads" },
    { "threads", "2 threads, binary128", "f128", "1024 2048+", "quad", "native/2 native/1*",
      "threads" },
    { "threads", "2 threads, INT8", "i8 i8 i32", "1024 2048+", "integers 7",
      "native:integer/2 native:integer/1*", "threads" },
    { "workspace", "workspace, FP64 native", "f64", "2048", "signed", "native", "workspace" },
    { "workspace", "workspace, FP64 correct", "f64", "2048", "signed", "correct", "workspace" },
    { "workspace", "workspace, binary128", "f128", "2048", "quad", "native", "workspace" },
};

#define OWN_FP64 \
    "dgemm* fixed native native:native native:ozaki2 bits=53:ozaki2 correct:ozaki2 " \
    "native:ozaki1-i8 correct"
#define OWN_FP32 \
    "sgemm* bf16x9 native:native native:fp32-f@ native:fp32-t@ native:fp32-b@ native"
/* The rows of a layer in both layouts.  Ratios are to cuDNN's faster layout. */
#define LAYER(name, shape) \
    { "conv", name ";NCHW", "f32", shape ",nchw", "normal", "nchw* " OWN_CONV, "joined" }, \
    { "conv", name ";NHWC", "f32", shape ",nhwc", "normal", "nhwc* " OWN_CONV }
#define OWN_CONV "native:fp32-f native:fp32-b native:native native"
#define UNITS "4096 8192 16384"

static const struct row gpu_rows[] = {
    { "units", "FP16 to FP32", "f16 f16 f32", UNITS, "normal", "f16* native" },
    { "units", "BF16 to FP32", "bf16 bf16 f32", UNITS, "normal", "bf16" },
    { "units", "TF32 to FP32", "tf32 tf32 f32", UNITS, "normal", "tf32" },
    /* B is transposed, since these units read operands fastest if both are contiguous along k */
    { "units", "INT8 to INT32", "i8 i8' i32", UNITS, "integers 7", "int8" },
    { "units", "E4M3 to FP32", "e4m3 e4m3' f32", UNITS, "normal", "e4m3" },
    { "units", .special = copy_rows },
    { "fp32", "FP32;uniform (0,1)", "f32", "512 1024 2048 4096 8192 16384", "uniform", OWN_FP32 },
    { "fp32", "FP32;normal, rows scaled", "f32", "512 1024 2048 4096 8192 16384", "scaled",
      OWN_FP32 },
    { "fp32", "FP32;normal, 3 of 10 blocks of rows wide", "f32", "512 1024 2048 4096 8192 16384",
      "mixed", "sgemm* native:fp32-b@ native" },
    { "fp64", "FP64;uniform (0,1)", "f64", "1024 2048 4096 8192 16384", "uniform", OWN_FP64 },
    { "fp64", "FP64;normal", "f64", "1024 2048 4096 8192 16384", "normal", OWN_FP64 },
    { "fp64", "FP64;normal", "f64", "16384/16", "normal", OWN_FP64 },
    /* this row's DGEMM is the base of the next row's ratios */
    { "quad", "FP64, for the ratio", "f64", "1024 2048 4096", "uniform", "dgemm*", "joined" },
    { "quad", "binary128;uniform (-1,1)", "f128", "1024 2048 4096", "quad", "native:ozaki2" },
    { "int", "i8 to i32", "i8 i8' i32", "4096 8192", "integers 7", "int8* native" },
    { "int", "i16 to i64, exact", "i16 i16 i64", "4096 8192", "integers 15", "exact" },
    /* a sum of n products of full-range i32 would overflow i64 */
    { "int", "i32 (24 bits) to i64, exact", "i32 i32 i64", "4096 8192", "integers 24", "exact" },
    /* distinct layers of ResNet-18 for 224 x 224 images */
    LAYER("conv1 7x7/2", "3,224,64,7,2"),
    LAYER("layer1 3x3", "64,56,64,3,1"),
    LAYER("layer2 3x3/2", "64,56,128,3,2"),
    LAYER("layer2 1x1/2", "64,56,128,1,2"),
    LAYER("layer2 3x3", "128,28,128,3,1"),
    LAYER("layer3 3x3/2", "128,28,256,3,2"),
    LAYER("layer3 1x1/2", "128,28,256,1,2"),
    LAYER("layer3 3x3", "256,14,256,3,1"),
    LAYER("layer4 3x3/2", "256,14,512,3,2"),
    LAYER("layer4 1x1/2", "256,14,512,1,2"),
    LAYER("layer4 3x3", "512,7,512,3,1"),
    { "small", .special = gpu_call_rows },
    { "workspace", "work space, FP64", "f64", "16384", "normal", "native", "workspace" },
    { "workspace", "work space, FP64", "f64", "16384", "normal", "bits=53", "workspace" },
    { "workspace", "work space, FP64", "f64", "16384", "normal", "correct", "workspace" },
};
/* clang-format on */

/* Groups that are measured only with the first of several numbers of threads, since their results
 * do not depend on it. */
static const char once[] = "latency,threads,workspace,interposed";

/* Points *rows to the table of the CPU or the GPU, and returns its number of rows. */
static int table_of(bool gpu, const struct row **rows)
{
    *rows = gpu ? gpu_rows : cpu_rows;
    return gpu ? sizeof gpu_rows / sizeof *gpu_rows : sizeof cpu_rows / sizeof *cpu_rows;
}

/* ---- parsing rows ---------------------------------------------------------------------------- */

/* Copies the next word, and advances *text past it and the spaces that follow.  Returns false at
 * the end. */
static bool next_word(const char **text, char *word, size_t size)
{
    size_t n = strcspn(*text, " ");

    snprintf(word, size, "%.*s", (int)n, *text);
    *text += n + strspn(*text + n, " ");
    return *word != 0;
}

/* Ends the word at the mark, and returns the text after the mark; NULL if there is no mark. */
static char *split_at(char *word, char mark)
{
    char *at = strchr(word, mark);

    if (at)
        *at++ = 0;
    return at;
}

/* Reads the next format.  A mark ' after its name sets *transposed. */
static limber_format read_format(const char **text, bool *transposed)
{
    char word[16];

    next_word(text, word, sizeof word);
    *transposed = split_at(word, '\'') != NULL;
    return format_of(word);
}

/* Reads the formats of A, B and C, or one format for all three. */
static void read_formats(struct work *w, const char *text)
{
    bool unused;

    w->fa = w->fb = w->fc = read_format(&text, &w->ta);
    if (!*text)
        return;
    w->fb = read_format(&text, &w->tb);
    w->fc = read_format(&text, &unused);
}

/* Parses the word for the distribution of a row's data, and its parameters, into w->data. */
static void read_data(struct work *w, const char *text)
{
    static const char *const data_words[] = {
        [DATA_uniform] = "uniform",   [DATA_signed] = "signed", [DATA_normal] = "normal",
        [DATA_scaled] = "scaled",     [DATA_mixed] = "mixed",   [DATA_floats] = "floats",
        [DATA_integers] = "integers", [DATA_quad] = "quad",     [DATA_spread] = "spread",
        [DATA_cancels] = "cancels",
    };
    char word[16];

    next_word(&text, word, sizeof word);
    for (size_t i = 0; i < sizeof data_words / sizeof *data_words; i++)
        if (!strcmp(word, data_words[i]))
            w->data.data = (enum data)i;
    if (w->data.data == DATA_spread)
        sscanf(text, "%d %d", &w->data.binades, &w->data.special);
    else
        sscanf(text, "%d", &w->data.bits);
}

/* Reads a layer "c,h,o,r,stride[,layout[,groups[,planes]]]" (see struct row).  m and n are set so
 * that m n is the size of the result, and k is the number of products for each of its elements; a
 * forward convolution has m = batch, n = size of one output image. */
static void read_conv(const struct bench *b, const struct row *row, struct work *w,
                      const char *text)
{
    int c = 0, h = 0, o = 0, r = 0, stride = 0, groups = 1, planes = 0;
    char layout[8] = "";
    int64_t oh = 0, ow = 0, od = 0, window, depth, pixels;

    sscanf(text, "%d,%d,%d,%d,%d,%7[^,],%d,%d", &c, &h, &o, &r, &stride, layout, &groups, &planes);
    w->operation = row->operation ? row->operation : LIMBER_OPERATION_CONV_FORWARD;
    w->conv =
        (limber_conv){ .size = sizeof(limber_conv),
                       .n = b->batch,
                       .c = c,
                       .h = h,
                       .w = h,
                       .o = o,
                       .r = r,
                       .s = r,
                       .stride = { stride, stride },
                       .dilate = { 1, 1 },
                       .pad = { r / 2, r / 2, r / 2, r / 2 },
                       .groups = groups,
                       .layout = strcmp(layout, "nhwc") ? LIMBER_LAYOUT_NCHW : LIMBER_LAYOUT_NHWC };
    if (planes) {
        w->conv.d = planes;
        w->conv.t = r;
        w->conv.depth_stride = stride;
        w->conv.depth_pad[0] = w->conv.depth_pad[1] = r / 2;
    }
    limber_conv_output(&w->conv, &oh, &ow);
    limber_conv_output_depth(&w->conv, &od);
    window = conv_window_size(&w->conv);
    depth = c / groups * window;
    pixels = b->batch * od * oh * ow;
    w->m = w->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ? o : b->batch;
    w->n = w->operation == LIMBER_OPERATION_CONV_FORWARD       ? o * od * oh * ow :
           w->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ? c * conv_pixels(&w->conv) :
                                                                 depth;
    w->k = w->operation == LIMBER_OPERATION_CONV_FORWARD       ? depth :
           w->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ? o / groups * window :
                                                                 pixels;
    w->products = (double)depth * (double)o * (double)pixels;
}

/* Reads a size into w.  Returns false if it is excluded by --full, or by the absence of --full. */
static bool read_size(const struct bench *b, const struct row *r, struct work *w, char *text)
{
    long long m = 0, n = 0, k = 0, part = 1;
    size_t last = strlen(text) - 1;

    if (strchr(text, ',')) {
        read_conv(b, r, w, text);
        return true;
    }
    if ((text[last] == '+' && !b->full) || (text[last] == '-' && b->full))
        return false;
    if (sscanf(text, "%lldx%lldx%lld", &m, &n, &k) < 3) {
        sscanf(text, "%lld/%lld", &m, &part);
        n = m;
        k = m < part ? 1 : m / part;
    }
    w->m = m;
    w->n = n;
    w->k = k;
    w->products = (double)w->batch * (double)m * (double)n * (double)k;
    return true;
}

/* How Limber may be called: word in rows, and name in tables. */
static const struct {
    const char *word, *name;
    enum variant variant;
} variants[] = {
    { "bound", NULL, CALL_bound },
    { "shape", NULL, CALL_shape },
    { "prepared", "prepared", CALL_prepared },
    { "plain", "plain calls", CALL_plain },
    { "fp32", "native FP32", CALL_plain },
    { "easy", "plain data, correct", CALL_easy },
    { "2", "Limber, 2 threads", CALL_two_threads },
    { "1", "Limber, 1 thread", CALL_one_thread },
};

/* Sets how a contender is called, given the part of its word after "/". */
static void set_variant(struct contender *c, const char *word)
{
    for (size_t i = 0; word && i < sizeof variants / sizeof *variants; i++)
        if (!strcmp(word, variants[i].word)) {
            c->variant = variants[i].variant;
            c->name = variants[i].name;
        }
}

/* The properties for which a result is checked. */
static enum promise promise_for(const struct work *w, limber_contract contract)
{
    static const enum promise promises[] = {
        [LIMBER_CONTRACT_NATIVE] = PROMISE_sum,  [LIMBER_CONTRACT_REPRODUCIBLE] = PROMISE_sum,
        [LIMBER_CONTRACT_BITS] = PROMISE_bits,   [LIMBER_CONTRACT_CORRECT] = PROMISE_rounded,
        [LIMBER_CONTRACT_EXACT] = PROMISE_exact,
    };

    return w->fc.kind == LIMBER_KIND_INT ? PROMISE_exact : promises[contract.promise];
}

/* Returns a scheme's name in static storage, since the row's word is temporary; NULL if there is no
 * such scheme. */
static const char *scheme_named(const char *word)
{
    static const char *const schemes[] = { "native", "integer", "ozaki2", "ozaki1-i8",
                                           "fp32-f", "fp32-t",  "fp32-b" };

    for (size_t i = 0; word && i < sizeof schemes / sizeof *schemes; i++)
        if (!strcmp(word, schemes[i]))
            return schemes[i];
    return NULL;
}

/* Appends c to the contenders of w, and returns the copy; NULL if the list is full. */
static struct contender *add_contender(struct work *w, struct contender c)
{
    if (w->count == MOST_CONTENDERS)
        return NULL;
    w->list[w->count] = c;
    return &w->list[w->count++];
}

/* Adds Limber as a contender, given CONTRACT:SCHEME@/HOW.  On a GPU "@" stands for two contenders:
 * limbs are made in a kernel of their own, or while the multiply kernel runs.  base: the word had a
 * *. */
static void add_limber(const struct bench *b, struct work *w, char *word, bool base)
{
    const char *how = split_at(word, '/');
    bool both = split_at(word, '@') != NULL;
    const char *scheme = scheme_named(split_at(word, ':'));
    struct contender c = { .ctx = b->ctx,
                           .maker = b->maker,
                           .base = base,
                           .factor = 1,
                           .contract = LIMBER_CONTRACT_INIT,
                           .report = LIMBER_REPORT_INIT,
                           .reports = true };

    if (!strcmp(word, "simulate")) {
        c.contract = (limber_contract){ .size = sizeof(limber_contract),
                                        .promise = LIMBER_CONTRACT_SIMULATE,
                                        .unit = &w->unit,
                                        .statistics = w->counts ? &w->statistics : NULL };
        c.promise = PROMISE_unit;
    } else {
        contract_of(word, &c.contract);
        c.promise = promise_for(w, c.contract);
    }
    if (c.contract.promise == LIMBER_CONTRACT_BITS) {
        c.factor = c.contract.bits;
        c.name = "bits=53";
    } else if (c.contract.promise == LIMBER_CONTRACT_CORRECT) {
        c.name = "correct";
    } else if (c.contract.promise == LIMBER_CONTRACT_REPRODUCIBLE) {
        c.name = "reproducible";
    }
    c.contract.scheme = scheme;
    set_variant(&c, how);
    if (both && !strcmp(b->backend, "cuda")) {
        c.contract.split = LIMBER_SPLIT_AHEAD;
        add_contender(w, c);
        c.contract.split = LIMBER_SPLIT_INSIDE;
    }
    add_contender(w, c);
}

/* True if --by includes this word of a row, or is absent. */
static bool is_wanted(const struct bench *b, const char *word)
{
    const char *list = b->by ? b->by : "";

    while (*list) {
        char part[48];
        size_t n = strcspn(list, ",");

        snprintf(part, sizeof part, "%.*s", (int)n, list);
        if (*part && strstr(word, part))
            return true;
        list += n + (list[n] == ',');
    }
    return !b->by;
}

/* Reads the contenders of a row, such as "correct native* dgemm".  Ratios are taken to the fastest
 * of those with a *. */
static void read_contenders(const struct bench *b, struct work *w, const char *text)
{
    const struct peer *peers;
    int count = peers_list(&peers);
    char word[48];

    while (next_word(&text, word, sizeof word)) {
        bool base = split_at(word, '*') != NULL, found = false;

        if (!is_wanted(b, word))
            continue;
        for (int i = 0; i < count; i++)
            if (!strcmp(peers[i].word, word) &&
                (peers[i].library ? peers[i].library->gpu == b->gpu : !b->gpu)) {
                add_contender(w, (struct contender){ .peer = &peers[i],
                                                     .promise = peers[i].promise,
                                                     .factor = peers[i].factor,
                                                     .base = base });
                found = true;
            }
        if (!found)
            add_limber(b, w, word, base);
    }
}

/* Fills a work from a row.  Returns false if the size is excluded, if no contender is left or, with
 * a message, if the unit is malformed. */
static bool read_work(const struct bench *b, const struct row *r, char *size, struct work *w)
{
    char *name;

    memset(w, 0, sizeof *w);
    w->threads = strcmp(r->group, "threads") ? b->threads : 2;
    w->kernels = b->kernels;
    w->batch = r->batch ? r->batch : 1;
    snprintf(w->what, sizeof w->what, "%s", r->work);
    if ((name = split_at(w->what, ';')))
        snprintf(w->data_name, sizeof w->data_name, "%s", name);
    read_formats(w, r->formats);
    read_data(w, r->data);
    if (!read_size(b, r, w, size))
        return false;
    if (r->unit) {
        w->unit_words = r->unit;
        w->counts = strcmp(r->show, "unit") != 0;
        w->unit = (limber_unit)LIMBER_UNIT_INIT;
        w->statistics = (limber_statistics)LIMBER_STATISTICS_INIT;
        w->statistics.swamped_only = !strcmp(r->show, "swamped");
        if (limber_unit_parse(r->unit, &w->unit) != LIMBER_STATUS_OK)
            return complain("bench: %s: %s", w->what, limber_error_text()), false;
    }
    read_contenders(b, w, r->by);
    return w->count > 0;
}

/* ---- output of `limber bench` ---------------------------------------------------------------- */

/* Returns the CPU's peak rate of INT8 multiply-adds, measured at the first call. */
static double measure_int8_peak(struct bench *b)
{
    if (b->results.int8 == 0)
        b->results.int8 = limits_int8(b->threads, &b->results.int8_by);
    return b->results.int8;
}

/* Predicted time of the INT8 multiply-adds at the hardware's peak rate, divided by the measured
 * time; 0 if the scheme does not use INT8 or the peak is unknown. */
static double peak_share(struct bench *b, const struct work *w)
{
    const struct contender *c = &w->list[0];
    const char *scheme = c->report.scheme;

    if ((strcmp(scheme, "ozaki2") && strcmp(scheme, "ozaki1-i8") && strcmp(scheme, "integer")) ||
        measure_int8_peak(b) <= 0)
        return 0;
    return c->report.rows * w->products / measure_int8_peak(b) / c->times.median;
}

/* True if rates are printed in multiply-adds, not in FLOPS: for integers and units. */
static bool counts_macs(const struct work *w)
{
    return w->fc.kind == LIMBER_KIND_INT || w->unit_words;
}

/* Makes a line with Limber's rate, and its ratio to the fastest base.  If that base is a variant of
 * Limber, or packed an operand before the timing, a note has the ratio to the fastest peer that did
 * not. */
static struct line make_rate_line(const struct work *w, char *note, size_t size)
{
    const struct contender *c = &w->list[0], *base = work_base(w), *other = NULL;
    double amount = 1e-9 * (counts_macs(w) ? 1 : 2) * w->products;
    struct line l = { .w = w,
                      .scheme = c->variant == CALL_bound ? "bound" :
                                c->variant == CALL_shape ? "shape" :
                                                           c->report.scheme,
                      .unit = counts_macs(w) ? "GMAC/s" : "GFLOPS",
                      .n = w->n,
                      .value = amount / c->times.median,
                      .best = amount / c->times.best,
                      .ratio = base ? base->times.median / c->times.median : 0,
                      .of = base && base->peer ? base->peer->name :
                            base               ? base->name :
                                                 "",
                      .all = true };

    for (int i = 1; i < w->count; i++) {
        const struct contender *x = &w->list[i];

        if (x != base && x->peer && !x->peer->packed_before && x->state == STATE_ok &&
            (!other || x->times.median < other->times.median))
            other = x;
    }
    if (other && base && (!base->peer || base->peer->packed_before)) {
        snprintf(note, size, base->peer ? "%.2f x %s" : "%.1f x %s",
                 other->times.median / c->times.median, other->peer->name);
        l.note = note;
    }
    return l;
}

/* Median and minimum of report.seconds_run, which excludes scanning and compiling. */
static void run_median(const struct contender *c, double *median, double *best)
{
    struct contender copy = *c;

    memcpy(copy.times.seconds, c->times.run_seconds, sizeof copy.times.seconds);
    contender_median(&copy);
    *median = copy.times.median;
    *best = copy.times.best;
}

/* Prints a row with its usual ratio. */
static void show_usual(struct bench *b, const struct work *w)
{
    char note[96];
    struct line l = make_rate_line(w, note, sizeof note);

    print_line(b, &l);
}

/* Prints a row with its share of the INT8 peak.  Two rates are kept for show_peer(). */
static void show_share(struct bench *b, const struct work *w)
{
    char note[96];
    struct line l = make_rate_line(w, note, sizeof note);

    l.share = peak_share(b, w);
    if (!strcmp(w->what, "binary128 from binary128"))
        b->results.rate128 = l.value;
    if (!strcmp(w->what, "double-double"))
        b->results.rate_dd = l.value;
    print_line(b, &l);
}

/* Prints Limber's rate twice, compared with peers (if any) and with the INT8 peak, and then its
 * rate without the scan, compared with the peak. */
static void show_int8(struct bench *b, const struct work *w)
{
    char note[96];
    struct line l = make_rate_line(w, note, sizeof note);
    double peak = measure_int8_peak(b), median, best;

    if (l.ratio > 0)
        print_line(b, &l);
    l.ratio = peak > 0 ? 1e9 * l.value / peak : 0;
    l.of = b->results.int8_by;
    l.note = NULL;
    print_line(b, &l);
    run_median(&w->list[0], &median, &best);
    l.what = "  without the scan";
    l.value = 1e-9 * w->products / median;
    l.best = 1e-9 * w->products / best;
    l.ratio = peak > 0 ? 1e9 * l.value / peak : 0;
    l.all = false;
    print_line(b, &l);
}

/* Prints the rate of a slow peer at a size that it computes in about a second, and the ratio of
 * times at that size.  The line's ratio divides Limber's rate at n = 2048 by the peer's. */
static void show_peer(struct bench *b, const struct work *w)
{
    const struct contender *peer = &w->list[1];
    double amount = 2e-9 * w->products;
    double rate = w->fc.kind == LIMBER_KIND_DD ? b->results.rate_dd : b->results.rate128;
    char of[64];

    if (w->count < 2 || peer->state != STATE_ok)
        return;
    snprintf(of, sizeof of, "for Limber at n = 2048, %.3g x at %lld",
             peer->times.median / w->list[0].times.median, (long long)w->n);
    print_line(b, &(struct line){ .w = w,
                                  .scheme = "peer",
                                  .unit = "GFLOPS",
                                  .n = w->n,
                                  .value = amount / peer->times.median,
                                  .best = amount / peer->times.best,
                                  .ratio = rate * peer->times.median / amount,
                                  .of = of,
                                  .all = true });
}

/* Prints the rate of a simulation that counts statistics, compared with list[1], the native FP32
 * product.  Only seconds_run counts: the statistics' comparison with FP64 is left out. */
static void show_counted(struct bench *b, const struct work *w)
{
    char note[96];
    struct line l = make_rate_line(w, note, sizeof note);
    double median, best;

    run_median(&w->list[0], &median, &best);
    l.value = 1e-9 * w->products / median;
    l.best = 1e-9 * w->products / best;
    l.ratio = w->list[1].times.median / median;
    print_line(b, &l);
}

/* Prints the rate with two threads, compared with one thread. */
static void show_threads(struct bench *b, const struct work *w)
{
    char note[96], of[64];
    struct line l = make_rate_line(w, note, sizeof note);

    snprintf(of, sizeof of, "1 thread (best over best: %.2f x)",
             w->list[1].times.best / w->list[0].times.best);
    l.of = of;
    print_line(b, &l);
}

/* Prints the rate of the BLAS interface, compared with the peers and with limber_gemm. */
static void show_interposed(struct bench *b, const struct work *w)
{
    char note[96];
    struct line l = make_rate_line(w, note, sizeof note);

    l.scheme = "by BLAS";
    snprintf(note, sizeof note, "%.2f x limber_gemm",
             w->list[1].times.median / w->list[0].times.median);
    l.note = note;
    print_line(b, &l);
}

/* Prints the size of the workspace, for both commands. */
static void show_workspace(struct bench *b, const struct work *w)
{
    const struct contender *c = &w->list[0];
    double bytes = (double)c->report.workspace;
    struct line l = { .w = w,
                      .c = c,
                      .scheme = c->report.scheme,
                      .unit = "MiB",
                      .n = w->n,
                      .value = bytes / (1 << 20),
                      .best = bytes / (1 << 20),
                      .ratio = bytes / (double)w->bytes,
                      .of = "the bytes of A, B and C",
                      .untimed = true };

    if (b->gpu)
        print_gpu_line(b, &l);
    else
        print_line(b, &l);
}

/* The means of a kind of rows, which are created if they do not exist; NULL if the table is
 * full. */
static struct conv_mean *mean_of(struct bench *b, const char *kind)
{
    for (int i = 0; i < b->results.mean_count; i++)
        if (!strcmp(b->results.means[i].kind, kind))
            return &b->results.means[i];
    if (b->results.mean_count == MOST_MEANS)
        return NULL;
    b->results.means[b->results.mean_count] = (struct conv_mean){ .count = 0 };
    snprintf(b->results.means[b->results.mean_count].kind, sizeof b->results.means->kind, "%s",
             kind);
    return &b->results.means[b->results.mean_count++];
}

/* Adds a ratio to a geometric mean. */
static void add_to_mean(struct mean_ratio *m, const char *name, double ratio)
{
    m->name = name;
    m->least = m->count && m->least < ratio ? m->least : ratio;
    m->below += ratio < 1;
    m->sum += log(ratio);
    m->count++;
}

/* Returns PyTorch's median time for a native FP32 convolution divided by Limber's; 0 if it was not
 * measured. */
static double torch_ratio(struct bench *b, const struct work *w, const struct contender *c)
{
    struct contender torch = { .times.samples = b->runs };

    if (w->fa.kind != LIMBER_KIND_FLOAT || c->contract.promise != LIMBER_CONTRACT_NATIVE ||
        c->variant == CALL_prepared || !torch_version())
        return 0;
    for (int i = 0; i < b->runs; i++)
        if ((torch.times.seconds[i] = torch_convolve(w, b->threads, b->cpu_time)) <= 0)
            return 0;
    contender_median(&torch);
    snprintf(b->results.torch, sizeof b->results.torch, "PyTorch %.32s", torch_version());
    return torch.times.median / c->times.median;
}

/* Prints a convolution: ratios to oneDNN and PyTorch, and the workspace.  Adds them to the means of
 * the row's kind. */
static void show_conv(struct bench *b, const struct work *w)
{
    const struct contender *c = &w->list[0];
    struct conv_mean *mean = mean_of(b, w->data_name);
    char what[128], note[256];
    struct line l = make_rate_line(w, note, sizeof note);
    const double torch = torch_ratio(b, w, c);
    size_t at = 0;

    snprintf(what, sizeof what, "%s, %s", w->what, w->data_name);
    l.what = what;
    l.n = w->conv.n;
    l.unit = "GFLOPS";
    l.value = 2e-9 * w->products / c->times.median;
    l.best = 2e-9 * w->products / c->times.best;
    l.note = note;
    l.shows_workspace = true;
    for (int i = 1; i < w->count; i++) {
        const struct contender *x = &w->list[i];

        if (x->state != STATE_ok || !x->peer)
            continue;
        if (mean && i <= (int)(sizeof mean->to / sizeof *mean->to))
            add_to_mean(&mean->to[i - 1], x->peer->name, x->times.median / c->times.median);
        if (!x->base)
            at += (size_t)snprintf(note + at, sizeof note - at, "%.2f x %s; ",
                                   x->times.median / c->times.median, x->peer->name);
        if (counts_macs(w) && x->checked.error > 0)
            at += (size_t)snprintf(note + at, sizeof note - at, "%s errs by %.2g of |A||B|; ",
                                   x->peer->name, x->checked.error);
    }
    if (torch > 0)
        at += (size_t)snprintf(note + at, sizeof note - at, "%.2f x %s; ", torch, b->results.torch);
    if (mean && torch > 0)
        add_to_mean(&mean->torch, b->results.torch, torch);
    if (mean) {
        mean->rate += log(l.value);
        mean->count++;
    }
    snprintf(note + at, sizeof note - at, "%.1f MiB beyond operands",
             (double)c->report.workspace / (1 << 20));
    print_line(b, &l);
}

/* Appends a geometric mean of ratios to a note; *at: length of the note. */
static void add_mean(const struct mean_ratio *m, char *note, size_t size, size_t *at)
{
    if (m->count)
        *at += (size_t)snprintf(note + *at, size - *at,
                                "%s%.2f x %s (least %.2f, %d of %d below 1)", *at ? "; " : "",
                                exp(m->sum / m->count), m->name, m->least, m->below, m->count);
}

/* Prints the geometric means over convolutions, and forgets them. */
static void show_means(struct bench *b)
{
    for (int i = 0; i < b->results.mean_count; i++) {
        const struct conv_mean *m = &b->results.means[i];
        char what[96], note[320] = "";
        size_t at = 0;

        snprintf(what, sizeof what, "mean of %d, %s", m->count, m->kind);
        add_mean(&m->to[0], note, sizeof note, &at);
        add_mean(&m->to[1], note, sizeof note, &at);
        add_mean(&m->torch, note, sizeof note, &at);
        print_mean(b, what, exp(m->rate / m->count), note);
    }
    if (b->results.mean_count)
        torch_close();
    b->results.mean_count = 0;
}

/* The ways of printing a row: the word in `struct row`, and the function that prints. */
static const struct show {
    const char *word;
    void (*lines)(struct bench *b, const struct work *w);
    bool untimed; /* each contender is called once and checked, without timing */
} shows[] = {
    { "", show_usual, false },
    { "share", show_share, false },
    { "bytes", show_int8, false },
    { "peer", show_peer, false },
    { "unit", show_usual, false },
    { "swamped", show_counted, false },
    { "counted", show_counted, false },
    { "threads", show_threads, false },
    { "interposed", show_interposed, false },
    { "workspace", show_workspace, true },
    { "conv", show_conv, false },
};

/* Returns how a row is printed; the usual way if the row names none. */
static const struct show *show_of(const struct row *r)
{
    for (size_t i = 1; r->show && i < sizeof shows / sizeof *shows; i++)
        if (!strcmp(shows[i].word, r->show))
            return &shows[i];
    return &shows[0];
}

/* If a contender failed, prints a message and returns false, which stops `limber bench`. */
static bool check_work(const struct work *w)
{
    if (*w->why)
        return !complain("bench: %s, n = %lld: %s", w->what, (long long)w->n, w->why);
    for (int i = 0; i < w->count; i++) {
        const struct contender *c = &w->list[i];

        if (c->state != STATE_ok && c->state != STATE_absent)
            return !complain("bench: %s, n = %lld, %s: %s", w->what, (long long)w->n,
                             c->peer ? c->peer->name : "Limber", c->why);
    }
    return true;
}

/* ---- output of `limber gpu` ------------------------------------------------------------------ */

/* Prints all contenders of a work for `limber gpu`.  base: the contender to which ratios are taken,
 * or NULL. */
static void print_gpu_lines(struct bench *b, const struct work *w, const struct contender *base)
{
    char what[160];
    double amount = 2e-12 * w->products;

    if (w->operation != LIMBER_OPERATION_GEMM)
        snprintf(what, sizeof what, "%s, %s", w->what, w->data_name);
    else
        snprintf(what, sizeof what, "%s, %lld x %lld x %lld", w->what, (long long)w->m,
                 (long long)w->n, (long long)w->k);
    if (*w->why)
        print_skipped_row(b, what, w->why);
    for (int i = 0; i < w->count && !*w->why; i++) {
        const struct contender *c = &w->list[i];
        bool same =
            c->peer && c->peer->emulation && base && c->state == STATE_ok && same_bits(c, base);
        bool other = base && c != base && c->times.median > 0;

        print_gpu_line(
            b, &(struct line){ .w = w,
                               .c = c,
                               .value = c->times.median > 0 ? amount / c->times.median : 0,
                               .unit = counts_macs(w) ? "TOPS" : "TFLOPS",
                               .ratio = other ? base->times.median / c->times.median : 0,
                               .of = other ? base->peer->name : NULL,
                               .note = same ? "the plain product's bits: not emulated" : NULL });
    }
}

/* ---- measuring a row ------------------------------------------------------------------------- */

bool bench_time_left(const struct bench *b)
{
    return !b->gpu || now() - b->start < b->seconds;
}

/* Shows on the terminal what is being measured. */
static void show_progress(void *user, const struct work *w, const struct contender *c)
{
    print_progress(user, "%s%s%s, n = %lld, %s", w->what, *w->data_name ? ", " : "", w->data_name,
                   (long long)w->n,
                   c->peer            ? c->peer->name :
                   c->contract.scheme ? c->contract.scheme :
                   c->name            ? c->name :
                                        "Limber");
}

/* Sets the limits of a measurement.  On a GPU a work may take a twentieth of --seconds. */
void bench_timing(struct bench *b, struct timing *t)
{
    *t = (struct timing){ .runs = b->runs,
                          .least = b->gpu ? 1 : 3,
                          .sample = b->gpu ? 0.02 : 0.005,
                          .most = b->gpu ? b->seconds / 20 : 15,
                          .seed = random_bits(&b->seed),
                          .timed = true,
                          .note = show_progress,
                          .called = print_so_far,
                          .user = b };
}

/* Measures a work, or sets `why` if time is up or the device is lost. */
static void measure(struct bench *b, const struct row *r, struct work *w)
{
    struct timing t;

    bench_timing(b, &t);
    t.timed = !show_of(r)->untimed && !b->once;
    if (!bench_time_left(b))
        snprintf(w->why, sizeof w->why, "time is up (--seconds %g)", b->seconds);
    else if (device_lost())
        snprintf(w->why, sizeof w->why, "the device is lost: %.150s", device_error());
    else
        work_measure(w, &t);
}

/* Measures and prints a row for `limber bench`. */
static bool measure_cpu_row(struct bench *b, const struct row *r, struct work *w)
{
    measure(b, r, w);
    if (!check_work(w))
        return false;
    if (w->list[0].state == STATE_ok)
        show_of(r)->lines(b, w);
    return true;
}

/* Measures and prints a row for `limber gpu`.  A row whose `show` is "joined" is kept in *held and
 * printed with the next one, so that both have the same base. */
static void measure_gpu_row(struct bench *b, const struct row *r, struct work *w,
                            struct work **held)
{
    const struct contender *base, *other;

    measure(b, r, w);
    if (r->show && !strcmp(r->show, "joined")) {
        *held = malloc(sizeof *w);
        if (*held)
            memcpy(*held, w, sizeof *w);
        return;
    }
    if (show_of(r)->untimed && !*w->why) {
        show_of(r)->lines(b, w);
        return;
    }
    base = work_base(w);
    other = *held ? work_base(*held) : NULL;
    if (!base || (other && other->times.median < base->times.median))
        base = other;
    if (*held)
        print_gpu_lines(b, *held, base);
    print_gpu_lines(b, w, base);
    free(*held);
    *held = NULL;
}

/* Writes the i-th size of a row, or of --sizes.  On a GPU a row with a single size is measured last
 * (i = MOST_SIZES - 1), with the largest of --sizes.  Returns false if there is no such size. */
static bool write_row_size(const struct bench *b, const struct row *r, int i, char *text,
                           size_t size)
{
    const char *rest = r->sizes, *part = strchr(rest, '/');
    bool single = !strchr(rest, ' '), given = b->size_count && !strchr(rest, ',');
    int64_t n = 0;

    if (b->gpu && single) {
        if (i < MOST_SIZES - 1)
            return false;
        i = 0;
    }
    if (given) {
        for (int s = 0; s < b->size_count; s++)
            if (single ? b->sizes[s] > n : s == i)
                n = b->sizes[s];
        snprintf(text, size, "%lld%s", (long long)n, part ? part : "");
        return n > 0;
    }
    while (next_word(&rest, text, size))
        if (i-- == 0)
            return true;
    return false;
}

/* Measures the rows [r, last) of one group at their i-th size. */
static bool measure_rows(struct bench *b, const struct row *r, const struct row *last, int i,
                         struct work *w)
{
    struct work *held = NULL;
    char size[32];

    for (; r < last; r++) {
        if (r->special && b->by)
            continue;
        if (r->special) {
            if (i == (b->gpu ? MOST_SIZES - 1 : 0) && !r->special(b))
                return false;
            continue;
        }
        if (!write_row_size(b, r, i, size, sizeof size) || !read_work(b, r, size, w))
            continue;
        if (b->gpu)
            measure_gpu_row(b, r, w, &held);
        else if (!measure_cpu_row(b, r, w))
            return false;
    }
    return true;
}

/* Measures a group.  On a GPU all rows of a size precede the next size, since time may run out. */
static bool measure_group(struct bench *b, const struct row *r, const struct row *last)
{
    struct work *w = malloc(sizeof *w);
    bool ok = w || !complain("out of memory");

    if (ok && b->gpu)
        for (int i = 0; ok && i < MOST_SIZES; i++)
            ok = measure_rows(b, r, last, i, w);
    else
        for (; ok && r < last; r++)
            for (int i = 0; ok && i < MOST_SIZES; i++)
                ok = measure_rows(b, r, r + 1, i, w);
    free(w);
    return ok;
}

/* ---- groups of rows, and which are asked for ------------------------------------------------- */

/* True if a word of --rows names the group; "conv" also names "conv/...". */
static bool is_group_prefix(const char *word, size_t length, const char *group)
{
    return !strncmp(word, group, length) && (!group[length] || group[length] == '/');
}

/* True if a comma-separated list names the group. */
static bool is_listed(const char *list, const char *group)
{
    while (*list) {
        size_t n = strcspn(list, ",");

        if (is_group_prefix(list, n, group))
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

const char *rows_help_text(bool gpu)
{
    static char text[400];
    const struct row *rows;
    int count = table_of(gpu, &rows);
    size_t at = (size_t)snprintf(text, sizeof text, "only these:");

    for (int i = 0; i < count; i++)
        if ((i == 0 || strcmp(rows[i].group, rows[i - 1].group)) && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, " %s", rows[i].group);
    return text;
}

/* Checks the words of --rows against the groups of rows.  Prints a message and returns false if one
 * is unknown. */
bool rows_check_words(const char *list, bool gpu)
{
    const struct row *rows;
    int count = table_of(gpu, &rows);

    while (list && *list) {
        size_t n = strcspn(list, ",");
        bool known = false;

        for (int i = 0; i < count; i++)
            known |= is_group_prefix(list, n, rows[i].group);
        if (!known)
            return !complain("%s: no rows are called \"%.*s\"", gpu ? "gpu" : "bench", (int)n,
                             list);
        list += n + (list[n] == ',');
    }
    return true;
}

/* True if a word of the row that --by includes is computed by library l; if l is NULL, true if --by
 * includes any word. */
static bool row_uses(const struct bench *b, const struct row *r, const struct library *l)
{
    const struct peer *peers;
    const char *text = r->by ? r->by : "";
    int count = peers_list(&peers);
    char word[48];

    while (next_word(&text, word, sizeof word)) {
        (void)split_at(word, '*');
        if (!is_wanted(b, word))
            continue;
        if (!l)
            return true;
        for (int i = 0; i < count; i++)
            if (peers[i].library == l && !strcmp(peers[i].word, word))
                return true;
    }
    return false;
}

/* True if --rows includes a row that needs library l. */
bool rows_use_library(const struct bench *b, const struct library *l)
{
    const struct row *rows;
    int count = table_of(b->gpu, &rows);

    for (int i = 0; i < count; i++)
        if ((!b->only || is_listed(b->only, rows[i].group)) && row_uses(b, &rows[i], l))
            return true;
    return false;
}

/* Measures all groups of rows that --rows includes, and prints the means.  Returns false if a row
 * failed. */
bool rows_measure(struct bench *b)
{
    const struct row *rows, *last;
    int count = table_of(b->gpu, &rows);

    for (const struct row *r = rows; r < rows + count; r = last) {
        for (last = r; last < rows + count && !strcmp(last->group, r->group);)
            last++;
        if ((b->only && !is_listed(b->only, r->group)) ||
            (!b->gpu && !b->first && is_listed(once, r->group)))
            continue;
        print_group(b, r->group);
        if (!measure_group(b, r, last))
            return false;
    }
    show_means(b);
    return true;
}
