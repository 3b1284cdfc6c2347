"""simd_library: one source compiled once a level of vector instructions."""

load("@rules_cc//cc:defs.bzl", "cc_library")

_LEVELS = {
    "portable": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": [
        "-mavx2",
        "-mfma",
        "-mf16c",
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
    ],
}

def simd_library(name, srcs, hdrs = [], deps = []):
    """A private cc_library that holds `srcs` for every level.

    Each copy is compiled with RZ_SIMD_NAMESPACE defined as simd_portable, simd_avx2 or simd_avx512,
    and must keep all its code in that namespace: an inline function shared with other code could be
    linked from the AVX-512 copy and then stop a processor that lacks it. NAME_symbols_test sees to it.
    """
    for level, options in _LEVELS.items():
        cc_library(
            name = name + "_" + level,
            srcs = srcs,
            hdrs = hdrs,
            copts = options + [
                "-O3",
                "-ffp-contract=off",
                "-fno-math-errno",
                "-DRZ_SIMD_NAMESPACE=simd_" + level,
            ],
            visibility = ["//visibility:private"],
            deps = deps,
        )
    cc_library(
        name = name,
        visibility = ["//visibility:private"],
        deps = [name + "_" + level for level in _LEVELS],
    )
    native.filegroup(
        name = name + "_archives",
        srcs = [name + "_" + level for level in _LEVELS],
        output_group = "archive",
        visibility = ["//visibility:private"],
    )
    native.sh_test(
        name = name + "_symbols_test",
        size = "small",
        srcs = ["//runtime/base:simd_symbols_test.sh"],
        args = ["$(locations %s_archives)" % name],
        data = [name + "_archives"],
    )
