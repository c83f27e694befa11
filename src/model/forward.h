// The forward pass: rows of tokens in, residual stream out; then logits of chosen rows.
//
// Private to src/model; Model::step has checked the plan before it comes here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"
#include "model/rope.h"
#include "model/step_rows.h"
#include "model/weights.h"

namespace fathom {

// What stays the same from step to step.
struct ForwardModel {
  const ModelConfig* config = nullptr;
  const ModelWeights* weights = nullptr;
  std::vector<RopeTable> ropes;       // the distinct ones
  std::vector<int> layer_rope;        // [layers] index into ropes
  std::vector<int64_t> layer_offset;  // [layers] bytes of a token's entries in earlier layers
  DType kv_dtype = DType::kF32;
};

// A run of rows of a plan.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Runs rows of the plan through all layers; work.x holds the residual stream afterwards. Earlier
// rows of the plan must have been run before.
void forward_rows(const ForwardModel& model, kernels::KernelContext& ctx, Workspace& work,
                  const StepPlan& plan, const KvMemory& kv, RowRange range, StepTrace* trace);

// Rows of the plan whose hidden state or logits are wanted, all within the range that was run last.
struct HeadRows {
  std::span<const int32_t> rows;  // ascending, of the whole plan
  int64_t first = 0;              // of the range: row of work.x number 0
  float* hidden = nullptr;        // [rows, hidden_size] or null
  float* logits = nullptr;        // [rows, vocab_size] or null
};

// Final norm and lm_head.
void forward_head(const ForwardModel& model, kernels::KernelContext& ctx, Workspace& work,
                  const HeadRows& rows);

}  // namespace fathom
