// The table of one instruction set, filled from the *_impl.h functions of this translation unit.
#pragma once

#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/linear_impl.h"
#include "kernels/cpu/math_impl.h"

namespace fathom::kernels {
namespace {

constexpr KernelTable kTable = {
    .panel = panel,
    .store_panel = store_panel,
    .transpose_words = transpose_words,
    .transpose_halves = transpose_halves,
    .attend_split = attend_split,
    .merge_state = merge_state,
    .divide_row = divide_row,
    .rms_norm_row = rms_norm_row,
    .combine_row = combine_row,
    .add = add_rows,
    .silu_mul = silu_mul_rows,
    .exp = exp_row,
    .sigmoid = sigmoid_row,
    .silu = silu_row,
    .softmax_row = softmax_row,
    .row_max = row_max,
    .sum_exp = sum_exp,
    .widen_row = widen_row,
    .narrow_bf16 = narrow_bf16_row,
    .read_stream = read_stream,
    .fma_burn = fma_burn,
};

}  // namespace
}  // namespace fathom::kernels
