// Feed-forward networks: two regions of panel units (gate and up with SwiGLU; down), then the sum
// of slots.
#include "kernels/api/moe.h"

#include <algorithm>
#include <new>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panel_tasks.h"
#include "kernels/cpu/parallel.h"

namespace fathom::kernels {
namespace {

// The (row, slot) pairs of a step sorted by expert, in ascending (row, slot) order within one.
struct Groups {
  int32_t* first;  // [experts + 1] first place of each expert
  int32_t* row;    // [m * slots] row at a place
  int32_t* place;  // [m * slots] place of (row, slot)
};

Groups group_by_expert(const MoeArgs& args, int32_t* memory) {
  const auto experts = static_cast<int64_t>(args.experts.size());
  const int64_t pairs = args.m * args.slots;
  const Groups g{memory, memory + experts + 1, memory + experts + 1 + pairs};
  std::fill_n(g.first, experts + 1, 0);
  for (int64_t p = 0; p < pairs; ++p) ++g.first[args.ids[p] + 1];
  for (int64_t e = 0; e < experts; ++e) g.first[e + 1] += g.first[e];
  for (int64_t p = 0; p < pairs; ++p) {
    const int32_t at = g.first[args.ids[p]]++;  // becomes the end of the expert's range
    g.row[at] = static_cast<int32_t>(p / args.slots);
    g.place[p] = at;
  }
  for (int64_t e = experts; e > 0; --e) g.first[e] = g.first[e - 1];
  g.first[0] = 0;
  return g;
}

// Memory of one call: hidden and output rows of every (row, slot), then of the shared network.
struct Buffers {
  float* hidden;         // [pairs, intermediate]
  float* out;            // [pairs, hidden size]
  float* shared_hidden;  // [m, shared intermediate]
  float* shared_out;     // [m, hidden size]
};

PanelTask swiglu_task(const FfnWeights& w, const float* x, int64_t x_stride, float* hidden,
                      int64_t m) {
  return {.w = &w.gate,
          .up = &w.up,
          .x = x,
          .x_stride = x_stride,
          .y = hidden,
          .y_stride = w.gate.n,
          .m = m};
}
PanelTask down_task(const FfnWeights& w, const float* hidden, float* out, int64_t m) {
  return {.w = &w.down, .x = hidden, .x_stride = w.gate.n, .y = out, .y_stride = w.down.n, .m = m};
}

void run_experts(KernelContext& ctx, const MoeArgs& args, const Groups& g, const Buffers& b) {
  const size_t most = args.experts.size() + 1;
  auto* tasks = reinterpret_cast<PanelTask*>(
      ctx.shared_scratch(KernelContext::kSlotList, 2 * most * sizeof(PanelTask)));
  PanelTask* down = tasks + most;
  size_t count = 0;
  if (args.shared) {
    const FfnWeights& w = *args.shared;
    new (tasks) PanelTask(swiglu_task(w, args.x, args.x_stride, b.shared_hidden, args.m));
    new (down) PanelTask(down_task(w, b.shared_hidden, b.shared_out, args.m));
    count = 1;
  }
  for (size_t e = 0; e < args.experts.size(); ++e) {
    const int64_t first = g.first[e];
    const int64_t m = g.first[e + 1] - first;
    if (m == 0) continue;
    const FfnWeights& w = args.experts[e];
    float* hidden = b.hidden + first * w.gate.n;
    PanelTask up = swiglu_task(w, args.x, args.x_stride, hidden, m);
    up.x_rows = g.row + first;
    new (tasks + count) PanelTask(up);
    new (down + count) PanelTask(down_task(w, hidden, b.out + first * w.down.n, m));
    ++count;
  }
  run_panel_tasks(ctx, {tasks, count});
  run_panel_tasks(ctx, {down, count});
}

void combine_rows(KernelContext& ctx, const MoeArgs& args, const Groups& g, const Buffers& b,
                  int64_t hidden) {
  auto** pointers = reinterpret_cast<const float**>(ctx.shared_scratch(
      KernelContext::kSlotC, static_cast<size_t>(args.m * args.slots) * sizeof(float*)));
  for (int64_t p = 0; p < args.m * args.slots; ++p) pointers[p] = b.out + g.place[p] * hidden;
  for_ranges(ctx, args.m, (args.slots + 3) * hidden * 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      ctx.table().combine_row(
          {.rows = pointers + i * args.slots,
           .weights = args.weights + i * args.slots,
           .slots = args.slots,
           .shared = args.shared ? b.shared_out + i * hidden : nullptr,
           .residual = args.residual ? args.residual + i * args.residual_stride : nullptr,
           .y = args.y + i * args.y_stride,
           .n = hidden});
    }
  });
}

}  // namespace

void ffn(KernelContext& ctx, const FfnArgs& args) {
  const FfnWeights& w = *args.weights;
  auto* hidden = reinterpret_cast<float*>(ctx.shared_scratch(
      KernelContext::kSlotA, static_cast<size_t>(args.m * w.gate.n) * sizeof(float)));
  const PanelTask up = swiglu_task(w, args.x, args.x_stride, hidden, args.m);
  run_panel_tasks(ctx, {&up, 1});
  PanelTask down = down_task(w, hidden, args.y, args.m);
  down.y_stride = args.y_stride;
  down.residual = args.residual;
  down.residual_stride = args.residual_stride;
  run_panel_tasks(ctx, {&down, 1});
}

void moe(KernelContext& ctx, const MoeArgs& args) {
  if (args.m <= 0) return;
  const int64_t pairs = args.m * args.slots;
  const int64_t inner = args.experts.empty() ? 0 : args.experts[0].gate.n;
  const int64_t hidden = args.experts.empty() ? args.shared->down.n : args.experts[0].down.n;
  const int64_t shared_inner = args.shared ? args.shared->gate.n : 0;
  const size_t floats = static_cast<size_t>(pairs * (inner + hidden) +
                                            args.m * (shared_inner + (args.shared ? hidden : 0)));
  Buffers b;
  b.hidden =
      reinterpret_cast<float*>(ctx.shared_scratch(KernelContext::kSlotA, floats * sizeof(float)));
  b.out = b.hidden + pairs * inner;
  b.shared_hidden = b.out + pairs * hidden;
  b.shared_out = b.shared_hidden + args.m * shared_inner;
  const size_t integers = args.experts.size() + 1 + 2 * static_cast<size_t>(pairs);
  const Groups g = group_by_expert(args, reinterpret_cast<int32_t*>(ctx.shared_scratch(
                                             KernelContext::kSlotB, integers * sizeof(int32_t))));
  run_experts(ctx, args, g, b);
  combine_rows(ctx, args, g, b, hidden);
}

}  // namespace fathom::kernels
