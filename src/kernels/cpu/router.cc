// Expert selection: scores by the shared polynomials, then plain comparisons in a total order.
#include "kernels/api/router.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/parallel.h"

namespace fathom::kernels {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Working memory of one row.
struct RowScratch {
  float* scores;  // [experts] unbiased
  float* choice;  // [experts] what selection compares
  float* groups;  // [groups]
};

// NaN never wins over a number.
float comparable(float value) {
  return value == value ? value : kMinusInfinity;
}

float best_two(const float* x, int32_t n) {
  float first = kMinusInfinity, second = kMinusInfinity;
  for (int32_t i = 0; i < n; ++i) {
    if (x[i] > first) {
      second = first;
      first = x[i];
    } else if (x[i] > second) {
      second = x[i];
    }
  }
  return n > 1 ? first + second : first;
}

// Marks the `count` largest of values[n] (ties: lowest index first) by `taken`.
template <typename Take>
void take_largest(const float* values, int32_t n, int32_t count, Take taken) {
  // Each pick is the largest value below the last one in (value descending, index ascending) order.
  float last_value = std::numeric_limits<float>::infinity();
  int32_t last_index = -1;
  for (int32_t pick = 0; pick < count; ++pick) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; ++i) {
      const bool after = values[i] < last_value || (values[i] == last_value && i > last_index);
      if (after && (best < 0 || values[i] > values[best])) best = i;
    }
    if (best < 0) return;
    last_value = values[best];
    last_index = best;
    taken(pick, best);
  }
}

// Keeps the best groups; the others' choice values become `masked`.
void mask_groups(const RouterConfig& c, const RowScratch& row, float masked) {
  const int32_t size = c.experts / c.groups;
  for (int32_t g = 0; g < c.groups; ++g) {
    const float* values = row.choice + g * size;
    row.groups[g] = c.select == RouterSelect::kNoAuxTc ? best_two(values, size)
                                                       : *std::max_element(values, values + size);
    row.groups[g] = comparable(row.groups[g]);
  }
  float* keep = row.groups + c.groups;
  std::fill_n(keep, c.groups, 0.0f);
  take_largest(row.groups, c.groups, c.top_groups, [&](int32_t, int32_t g) { keep[g] = 1.0f; });
  for (int32_t g = 0; g < c.groups; ++g) {
    if (keep[g] == 0.0f) std::fill_n(row.choice + g * size, size, masked);
  }
}

void route_row(const KernelTable& table, const RouterConfig& c, const RouterArgs& args, int64_t i,
               const RowScratch& row) {
  const float* logits = args.logits + i * args.logits_stride;
  (c.score == RouterScore::kSoftmax ? table.softmax_row : table.sigmoid)(logits, row.scores,
                                                                         c.experts);
  for (int32_t e = 0; e < c.experts; ++e) {
    const bool biased = c.select == RouterSelect::kNoAuxTc && args.bias != nullptr;
    row.choice[e] = comparable(biased ? row.scores[e] + args.bias[e] : row.scores[e]);
  }
  if (c.select == RouterSelect::kGroupLimitedGreedy) mask_groups(c, row, 0.0f);
  if (c.select == RouterSelect::kNoAuxTc) mask_groups(c, row, kMinusInfinity);

  int32_t* ids = args.ids + i * c.top_k;
  float* weights = args.weights + i * c.top_k;
  take_largest(row.choice, c.experts, c.top_k, [&](int32_t pick, int32_t e) {
    ids[pick] = e;
    weights[pick] = c.select == RouterSelect::kGroupLimitedGreedy ? row.choice[e] : row.scores[e];
  });
  float scale = c.routed_scale;
  if (c.normalize) {
    float sum = 0.0f;
    for (int32_t s = 0; s < c.top_k; ++s) sum += weights[s];
    sum += 1e-20f;
    for (int32_t s = 0; s < c.top_k; ++s) weights[s] = weights[s] / sum;
    if (!c.scale_normalized) scale = 1.0f;
  }
  for (int32_t s = 0; s < c.top_k; ++s) weights[s] = weights[s] * scale;
}

}  // namespace

void route(KernelContext& ctx, const RouterConfig& config, const RouterArgs& args) {
  const int64_t floats = 2 * config.experts + 2 * config.groups;
  auto* memory = reinterpret_cast<float*>(ctx.shared_scratch(
      KernelContext::kSlotA, static_cast<size_t>(args.m * floats) * sizeof(float)));
  const int64_t row_bytes = int64_t{config.experts} * (config.top_k + 8) * 4;
  for_ranges(ctx, args.m, row_bytes, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      float* row = memory + i * floats;
      route_row(ctx.table(), config, args, i,
                {row, row + config.experts, row + 2 * config.experts});
    }
  });
}

}  // namespace fathom::kernels
