# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, transforms, linear algebra, random bits."""
from golden.common import COMPLEX, F8, FLOATS, FLOOR, INTEGERS, NARROW, TINY, TOLERANCE, case, each, less, scalar_computation, simple


def products():
    forms = [(",lhs_contracting_dims={1},rhs_contracting_dims={0}", "5,7", "7,6", "5,6"),
             (",lhs_batch_dims={0},rhs_batch_dims={1},lhs_contracting_dims={2},rhs_contracting_dims={0}", "3,4,5", "5,3,6", "3,4,6"),
             (",lhs_contracting_dims={0,2},rhs_contracting_dims={1,0}", "3,4,5", "5,3,6", "4,6"),
             (",lhs_contracting_dims={0},rhs_contracting_dims={0}", "9", "9", ""),
             (",lhs_contracting_dims={},rhs_contracting_dims={}", "3", "4", "3,4")]
    tolerances = {"f32": 1e-5, "f64": 1e-12, "bf16": 1e-2, "f16": 2e-3, "c64": 1e-5, "c128": 1e-12}
    types = [("f32", "f32"), ("f64", "f64"), ("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("s32", "s32"), ("s8", "s32"),
             ("s8", "s8"), ("u8", "u32"), ("c64", "c64"), ("c128", "c128")]
    wider = [("f16", "f32"), ("s16", "s16"), ("s64", "s64"), ("u8", "u8"), ("u16", "u16"), ("u32", "u32"), ("u64", "u64"), ("s16", "s32"),
             ("f8e4m3fn", "f32"), ("f8e5m2", "f32"), ("f8e4m3fn", "bf16"), ("s4", "s32"), ("f32", "f64")]
    for t, out in each(types, wider):
        tolerance = {"rtol": tolerances.get(out, 0), "atol": tolerances.get(out, 0) * 10}
        for i, (dims, lhs, rhs, result) in enumerate(forms):
            simple(f"dot.{t}.{out}.{i}", f"{out}[{result}]", "dot", [f"{t}[{lhs}]", f"{t}[{rhs}]"], "ss", dims, **tolerance)
    shapes = [("2,8,9,3", "3,2,3,4", "2,8,8,4", "b01f_01io->b01f", "size=3x2 pad=1_1x0_0", ""),
              ("2,8,9,3", "3,2,3,4", "2,4,4,4", "b01f_01io->b01f", "size=3x2 stride=2x2 pad=1_1x0_0", ""),
              ("2,3,8,9", "4,3,3,2", "2,4,6,16", "bf01_oi01->bf01", "size=3x2 lhs_dilate=1x2 rhs_reversal=1x0", ""),
              ("2,8,6", "3,2,6", "2,4,6", "b0f_0io->b0f", "size=3 rhs_dilate=2", ", feature_group_count=3"),
              ("4,8,3", "3,3,4", "2,7,4", "b0f_0io->b0f", "size=3 pad=1_0", ", batch_group_count=2"),
              ("2,8,9,3", "3,2,3,4", "2,5,9,4", "b01f_01io->b01f", "size=3x2 pad=-1_0x-1_2", ""),
              ("5,4,6,3,2", "2,3,2,2,3", "5,3,4,2,3", "b012f_012io->b012f", "size=2x3x2", "")]
    extra = [("2,8,6", "3,6,4", "2,3,4", "b0f_0io->b0f", "size=3 stride=2", ""),
             ("2,8,6", "3,6,4", "2,17,4", "b0f_0io->b0f", "size=3 pad=2_2 lhs_dilate=2", ""),
             ("2,8,6", "3,2,9", "2,6,9", "b0f_0io->b0f", "size=3", ", feature_group_count=3"),
             ("8,6,2", "6,3,4", "8,1,4", "0bf_0io->0bf" , "size=6 pad=3_4 rhs_reversal=1", ""),
             ("6,2,8,9", "4,2,3,3", "4,6,3,4", "bf01_oi01->fb01", "size=3x3 stride=2x2 rhs_dilate=2x1 pad=1_1x0_0", ""),
             ("2,0,6", "3,6,4", "2,1,4", "b0f_0io->b0f", "size=3 pad=2_1", ""),
             ("4,3", "3,5", "4,5", "bf_io->bf", "", "")]
    for t, out in each([p for p in types if p not in (("s8", "s8"), ("u8", "u32"))], [("s8", "s8"), ("u8", "u32")] + wider):
        tolerance = {"rtol": tolerances.get(out, 0) * 2, "atol": tolerances.get(out, 0) * 20}
        for i, (lhs, rhs, result, labels, window, more) in enumerate(each(shapes, extra)):
            simple(f"convolution.{t}.{out}.{i}", f"{out}[{result}]", "convolution", [f"{t}[{lhs}]", f"{t}[{rhs}]"], "ss",
                   f", window={{{window}}}, dim_labels={labels}{more}", **tolerance)


def numeric():
    for t in ["f32", "f64"]:
        c, tol = {"f32": ("c64", 3e-5), "f64": ("c128", 1e-12)}[t]
        close = {"rtol": tol, "atol": tol * 20}
        for n in each([8, 12, 7, 30], [1, 2, 3, 16, 17, 64, 100]):
            simple(f"fft.{c}.{n}", f"{c}[3,{n}]", "fft", [f"{c}[3,{n}]"], "s", f", fft_type=FFT, fft_length={{{n}}}", **close)
            simple(f"ifft.{c}.{n}", f"{c}[3,{n}]", "fft", [f"{c}[3,{n}]"], "s", f", fft_type=IFFT, fft_length={{{n}}}", **close)
            simple(f"rfft.{c}.{n}", f"{c}[2,4,{n // 2 + 1}]", "fft", [f"{t}[2,4,{n}]"], "s",
                   f", fft_type=RFFT, fft_length={{4,{n}}}", **close)
            simple(f"irfft.{c}.{n}", f"{t}[2,4,{n}]", "fft", [f"{c}[2,4,{n // 2 + 1}]"], "s",
                   f", fft_type=IRFFT, fft_length={{4,{n}}}", **close)
        for lengths, shape, half in each([], [("3,4", "3,4", "3,3"), ("2,5,6", "2,5,6", "2,5,4"), ("4,3", "2,4,3", "2,4,2")]):
            simple(f"fft.{c}.{lengths}", f"{c}[{shape}]", "fft", [f"{c}[{shape}]"], "s", f", fft_type=FFT, fft_length={{{lengths}}}", **close)
            simple(f"ifft.{c}.{lengths}", f"{c}[{shape}]", "fft", [f"{c}[{shape}]"], "s", f", fft_type=IFFT, fft_length={{{lengths}}}", **close)
            simple(f"rfft.{c}.{lengths}", f"{c}[{half}]", "fft", [f"{t}[{shape}]"], "s", f", fft_type=RFFT, fft_length={{{lengths}}}", **close)
            simple(f"irfft.{c}.{lengths}", f"{t}[{shape}]", "fft", [f"{c}[{half}]"], "s", f", fft_type=IRFFT, fft_length={{{lengths}}}", **close)
    for t in each(["f32", "f64", "c64"], ["c128"]):
        tol = 1e-11 if t in ("f64", "c128") else 2e-4
        nine = "(9,0)" if t in COMPLEX else "9"
        rows = ["{" + ",".join(nine if i == j else "(0,0)" if t in COMPLEX else "0" for j in range(5)) + "}" for i in range(5)]
        # Unit triangles keep the answers small whatever the numbers are.
        for lower in ["true", "false"]:
            for left, b in [("true", "4,3"), ("false", "3,4")]:
                for form in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]:
                    simple(f"triangular-solve.{t}.{lower}.{left}.{form}", f"{t}[{b}]", "triangular-solve",
                           [f"{t}[4,4]", f"{t}[{b}]"], "ss",
                           f", left_side={left}, lower={lower}, unit_diagonal=true, transpose_a={form}", rtol=tol, atol=tol * 50)
            case(f"cholesky.{t}.{lower}", f"""ENTRY e {{
  p0 = {t}[5,5] parameter(0)
  square = {t}[5,5] dot(p0, p0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  diagonal = {t}[5,5] constant({{{",".join(rows)}}})
  sum = {t}[5,5] add(square, diagonal)
  ROOT r = {t}[5,5] cholesky({'diagonal' if t in COMPLEX else 'sum'}), lower={lower}
}}
""", "s", tol, tol)
    for t in ["f32", "f64"]:
        vectors = [f"{t}[6]"] * 2
        triple = f"({t}[4,6,5], {t}[6], {t}[6])"
        simple(f"batch-norm-training.{t}", triple, "batch-norm-training", [f"{t}[4,6,5]"] + vectors, "sss",
               ", epsilon=0.001, feature_index=1", 2e-5, 2e-5)
        one = f"{t}[6]"
        for _ in each([], [0]):
            simple(f"batch-norm-inference.{t}", f"{t}[4,6,5]", "batch-norm-inference", [f"{t}[4,6,5]"] + [one] * 3 + [one], "sssss",
                   ", epsilon=30, feature_index=1", 2e-5, 2e-5)
            simple(f"batch-norm-grad.{t}", triple, "batch-norm-grad", [f"{t}[4,6,5]"] + [one] * 3 + [f"{t}[4,6,5]"], "sssss",
                   ", epsilon=30, feature_index=1", 1e-4, 1e-4)
    for algorithm in ["rng_three_fry", "rng_philox", "rng_default"]:
        for out in each(["u32[5,6]", "u32[5,7]", "u64[9]", "u32[]", "u8[5]", "u16[4,3]", "u64[]", "s32[3,3]"],
                        ["s64[7]", "s16[5]", "s8[3,3]", "u32[1]", "u64[2,3,2]", "u32[1000]", "u8[1001]", "u16[77]"]):
            for state in [2] if algorithm == "rng_three_fry" else [2, 3]:
                simple(f"{algorithm}.{out}.{state}", f"(u64[{state}], {out})", "rng-bit-generator", [f"u64[{state}]"], "u",
                       f", algorithm={algorithm}")
