// The rows of one pass through the layers, and the memory that they are computed in.
//
// Private to src/model. One thread (the one that calls Model::step) owns all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/api/context.h"
#include "model/rope.h"
#include "types/model_config.h"

namespace fathom {

// A 64-byte-aligned float buffer that only grows; its contents are lost when it does.
class FloatBuffer {
 public:
  float* reserve(size_t count) {
    return reinterpret_cast<float*>(bytes_.reserve(count * sizeof(float)));
  }

 private:
  kernels::ScratchBuffer bytes_;
};

// Buffers that blocks share, named by what they hold. Grow to the largest step seen.
struct Workspace {
  FloatBuffer x;                            // [rows, hidden] residual stream
  FloatBuffer normed;                       // [rows, hidden]
  FloatBuffer q;                            // [rows, heads * head width]
  FloatBuffer q_a;                          // [rows, q_lora_rank]
  FloatBuffer kv;                           // [rows, entry width]
  FloatBuffer query;                        // [rows, heads, kv_lora_rank + rope]: absorbed
  FloatBuffer attended;                     // [rows, heads, value width of the cache]
  FloatBuffer values;                       // [rows, heads * v_head_dim]
  FloatBuffer logits;                       // [rows, experts]: the router's
  FloatBuffer weights;                      // [rows, experts per token]
  FloatBuffer head;                         // [logit rows, hidden]
  std::vector<int32_t> ids;                 // [rows, experts per token]
  std::vector<FloatBuffer> cos, sin;        // per rope table: [rows, dim / 2]
  std::vector<const int32_t*> page_tables;  // [sequences]
};

// What every block gets besides its weights and its input: kernels, rows, cache, angles.
struct StepRows {
  kernels::KernelContext& ctx;
  Workspace& work;
  int64_t rows = 0;
  int64_t hidden = 0;                // hidden_size
  kernels::AttentionRows attention;  // sequences, positions, page tables
  kernels::PagedKv kv;               // of the current layer
  const float* cos = nullptr;        // of the current layer's rope, [rows, dim / 2]
  const float* sin = nullptr;
  float eps = 0;  // rms_norm_eps
};

}  // namespace fathom
