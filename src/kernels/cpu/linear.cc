// Products with packed weights: units of panels x row blocks shared out to the threads.
#include "kernels/api/linear.h"

#include <algorithm>
#include <new>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panel_tasks.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/parallel.h"

namespace fathom::kernels {
namespace {

constexpr int64_t kRowBlock = 252;         // most rows of a unit, a multiple of every register tile
constexpr int64_t kUnitBytes = 192 << 10;  // weights that a unit should stream at least

// Worker scratch: sums, sums of `up`, carry [rows, kPanel] each; a widened block.
size_t worker_bytes(int64_t rows) {
  return static_cast<size_t>(3 * rows * kPanel + kWidenBlock * kPanel) * sizeof(float);
}

// How one task is cut. Units run row block by row block, panels ascending within.
struct Cut {
  int64_t first_unit;
  int64_t panels;  // of the matrix
  int64_t panels_per_unit;
  int64_t units_per_block;
  int64_t row_block;
};

int64_t panel_bytes(const PanelTask& task) {
  return kPanel * stored_k(*task.w) * element_bytes(task.w->format) * (task.up ? 2 : 1);
}

// `most_panels`: of a unit, so that every thread gets several units of the call.
Cut cut_task(const PanelTask& task, int64_t first_unit, int64_t most_panels) {
  Cut cut;
  cut.first_unit = first_unit;
  cut.panels = panel_count(*task.w);
  const int64_t blocks = (task.m + kRowBlock - 1) / kRowBlock;
  cut.row_block = ((task.m + blocks - 1) / blocks + 11) / 12 * 12;
  // Weights of few rows: long streams; of many rows: arithmetic counts, one panel is enough.
  const int64_t work = panel_bytes(task) * std::max<int64_t>(1, task.m / 4);
  const int64_t wanted = (kUnitBytes + work - 1) / std::max<int64_t>(1, work);
  cut.panels_per_unit = std::clamp<int64_t>(wanted, 1, most_panels);
  cut.units_per_block = (cut.panels + cut.panels_per_unit - 1) / cut.panels_per_unit;
  return cut;
}

int64_t unit_count(const PanelTask& task, const Cut& cut) {
  return cut.units_per_block * ((task.m + cut.row_block - 1) / cut.row_block);
}

struct RowRange {
  int64_t first;
  int64_t count;
};

void run_panel(const KernelTable& table, const PanelTask& task, int64_t panel, RowRange rows,
               float* scratch) {
  const int64_t area = rows.count * kPanel;
  float* sums = scratch;
  float* up_sums = sums + area;
  PanelArgs a;
  a.format = task.w->format;
  a.width = panel_width(*task.w, panel);
  a.k = task.w->k;
  a.x = task.x_rows ? task.x : task.x + rows.first * task.x_stride;
  a.x_stride = task.x_stride;
  a.x_rows = task.x_rows ? task.x_rows + rows.first : nullptr;
  a.m = rows.count;
  a.carry = up_sums + area;
  a.widened = a.carry + area;
  const auto product = [&](const PackedMatrix& w, float* out) {
    a.panel = w.data + panel_offset(w, panel);
    const int64_t scale_columns = (w.k + kScaleBlock - 1) / kScaleBlock;
    a.scales = w.scales ? w.scales + panel * kPanel / kScaleBlock * scale_columns : nullptr;
    a.out = out;
    table.panel(a);
  };
  product(*task.w, sums);
  if (task.up) product(*task.up, up_sums);

  const int64_t first = panel * kPanel;
  StorePanelArgs s;
  s.sums = sums;
  s.up = task.up ? up_sums : nullptr;
  s.bias = task.bias ? task.bias + first : nullptr;
  s.residual = task.residual ? task.residual + rows.first * task.residual_stride + first : nullptr;
  s.residual_stride = task.residual_stride;
  s.y = task.y + rows.first * task.y_stride + first;
  s.y_stride = task.y_stride;
  s.m = rows.count;
  s.n = std::min(kPanel, task.w->n - first);
  table.store_panel(s);
}

void run_unit(const KernelTable& table, const PanelTask& task, const Cut& cut, int64_t unit,
              float* scratch) {
  const int64_t block = unit / cut.units_per_block;
  const int64_t first_panel = unit % cut.units_per_block * cut.panels_per_unit;
  const int64_t last_panel = std::min(cut.panels, first_panel + cut.panels_per_unit);
  const int64_t first_row = block * cut.row_block;
  const RowRange rows{first_row, std::min(cut.row_block, task.m - first_row)};
  for (int64_t p = first_panel; p < last_panel; ++p) run_panel(table, task, p, rows, scratch);
}

}  // namespace

void run_panel_tasks(KernelContext& ctx, std::span<const PanelTask> tasks) {
  auto* cuts = reinterpret_cast<Cut*>(
      ctx.shared_scratch(KernelContext::kSlotTasks, tasks.size() * sizeof(Cut)));
  int64_t units = 0;
  int64_t most_rows = 0;
  int64_t bytes = 0;
  int64_t panels = 0;
  for (const PanelTask& task : tasks) panels += task.m > 0 ? panel_count(*task.w) : 0;
  // Of all tasks together: many small matrices (one a head) need not be cut finer than that.
  const int64_t most_panels = std::max<int64_t>(1, panels / (4 * ctx.pool().size()));
  for (size_t i = 0; i < tasks.size(); ++i) {
    const PanelTask& task = tasks[i];
    if (task.m <= 0 || task.w->n <= 0) {
      new (cuts + i) Cut{units, 0, 1, 1, 1};
      continue;
    }
    new (cuts + i) Cut(cut_task(task, units, most_panels));
    units += unit_count(task, cuts[i]);
    most_rows = std::max(most_rows, std::min(task.m, cuts[i].row_block));
    bytes += panel_bytes(task) * cuts[i].panels * std::max<int64_t>(1, task.m / 4);
  }
  ctx.reserve_worker_scratch(worker_bytes(most_rows));
  const auto run = [&](int64_t unit, int worker) {
    // The last task that starts at or before this unit; empty tasks share their successor's start.
    const Cut* next = std::upper_bound(cuts, cuts + tasks.size(), unit,
                                       [](int64_t u, const Cut& c) { return u < c.first_unit; });
    const Cut& cut = *(next - 1);
    run_unit(ctx.table(), tasks[static_cast<size_t>(next - 1 - cuts)], cut, unit - cut.first_unit,
             reinterpret_cast<float*>(ctx.worker_scratch(worker)));
  };
  if (bytes <= kInlineBytes) {
    for (int64_t unit = 0; unit < units; ++unit) run(unit, 0);
    return;
  }
  ctx.pool().parallel_for(units, run);
}

void linear_many(KernelContext& ctx, std::span<const LinearTask> tasks) {
  auto* list = reinterpret_cast<PanelTask*>(
      ctx.shared_scratch(KernelContext::kSlotList, tasks.size() * sizeof(PanelTask)));
  for (size_t i = 0; i < tasks.size(); ++i) {
    const LinearTask& t = tasks[i];
    new (list + i) PanelTask{.w = t.w,
                             .x = t.x,
                             .x_stride = t.x_stride,
                             .y = t.y,
                             .y_stride = t.y_stride,
                             .m = t.m,
                             .bias = t.bias,
                             .residual = t.residual,
                             .residual_stride = t.residual_stride};
  }
  run_panel_tasks(ctx, {list, tasks.size()});
}

void head_linear(KernelContext& ctx, const HeadLinearArgs& args) {
  const size_t heads = args.heads.size();
  auto* list = reinterpret_cast<PanelTask*>(
      ctx.shared_scratch(KernelContext::kSlotList, heads * sizeof(PanelTask)));
  for (size_t h = 0; h < heads; ++h) {
    new (list + h) PanelTask{.w = &args.heads[h],
                             .x = args.x + static_cast<int64_t>(h) * args.x_head_stride,
                             .x_stride = args.x_row_stride,
                             .y = args.y + static_cast<int64_t>(h) * args.y_head_stride,
                             .y_stride = args.y_row_stride,
                             .m = args.m};
  }
  run_panel_tasks(ctx, {list, heads});
}

}  // namespace fathom::kernels
